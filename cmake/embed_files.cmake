# Writes OUTPUT, a C++ source with the bytes of FILES (paths, separated by "|"), which implements
# src/tril/serve/assets.h. Each is named by the last part of its path; its ending says its type.
cmake_minimum_required(VERSION 3.25)

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(type_png "image/png")
set(type_json "application/json")

string(REPLACE "|" ";" paths "${FILES}")
set(arrays "")
set(entries "")
set(count 0)
foreach(path ${paths})
  get_filename_component(name "${path}" NAME)
  get_filename_component(ending "${path}" LAST_EXT)
  string(SUBSTRING "${ending}." 1 -1 ending)
  string(REGEX REPLACE "[.]$" "" ending "${ending}")
  if(NOT DEFINED type_${ending})
    message(FATAL_ERROR "embed_files: no type is known for ${name}")
  endif()
  # An array of bytes, because string literals have a maximum length. The 0 at the end is not part
  # of the file: an array cannot be empty.
  file(READ "${path}" hex HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND arrays "constexpr char kBytes${count}[] = {${bytes}'\\0'};\n")
  string(APPEND entries "    {\"${name}\", \"${type_${ending}}\", {kBytes${count}, sizeof(kBytes${count}) - 1}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUTPUT}" "// Made by cmake/embed_files.cmake.
#include \"tril/serve/assets.h\"

namespace tril::serve {
namespace {

${arrays}
constexpr Asset kAssets[] = {
${entries}};

}  // namespace

std::span<const Asset> assets() { return kAssets; }

}  // namespace tril::serve
")
