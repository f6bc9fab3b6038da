# Writes OUTPUT, a C++ source that holds page.html, style.css and the modules of FOLDER as constants
# (src/tril/explain/page_parts.h). The modules become one script, each after those it imports;
# import lines and the word `export` are removed. Top-level names must therefore be unique over all
# modules: a browser refuses a script that declares one twice, and the tests open it.
cmake_minimum_required(VERSION 3.25)

set(modules palette.js numbers.js words_en.js words_hi.js words.js attention.js text.js dom.js state.js
            painting.js lines.js matrix.js overview.js
            panels.js strips.js arithmetic.js stages.js candidates.js forcing.js tree.js tour.js controls.js main.js)

# A module that is not listed would silently be missing.
file(GLOB found RELATIVE ${FOLDER} ${FOLDER}/*.js)
foreach(name ${found})
  if(NOT name IN_LIST modules)
    message(FATAL_ERROR "embed_page: ${name} is not among the modules")
  endif()
endforeach()

set(script "\"use strict\";\n")
foreach(name ${modules})
  file(READ ${FOLDER}/${name} text)
  string(REGEX REPLACE "\nimport [^\n]*" "" text "\n${text}")
  string(REGEX REPLACE "\nexport " "\n" text "${text}")
  string(APPEND script "${text}")
endforeach()
# The page is shipped without the comments and the indentation of its sources.
string(REGEX REPLACE "\n +" "\n" script "${script}")
string(REGEX REPLACE "\n//[^\n]*" "" script "${script}")
file(READ ${FOLDER}/style.css style)
file(READ ${FOLDER}/page.html page)

# base64 of a hash given in hexadecimal, as a Content-Security-Policy wants it.
function(hash_of text result)
  string(SHA256 hex "${text}")
  set(digits ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  set(base64 "")
  foreach(at RANGE 0 60 6) # six hexadecimal digits are four of base64; the last group has four
    string(SUBSTRING "${hex}00" ${at} 6 group)
    math(EXPR number "0x${group}")
    foreach(shift 18 12 6 0)
      math(EXPR digit "(${number} >> ${shift}) & 63")
      string(SUBSTRING ${digits} ${digit} 1 digit)
      string(APPEND base64 ${digit})
    endforeach()
  endforeach()
  string(SUBSTRING "${base64}" 0 43 base64)
  set(${result} "${base64}=" PARENT_SCOPE)
endfunction()
hash_of("${script}" script_hash)
hash_of("${style}" style_hash)
string(REPLACE "{{script-hash}}" "sha256-${script_hash}" page "${page}")
string(REPLACE "{{style-hash}}" "sha256-${style_hash}" page "${page}")

# A function that returns the text, as an array of bytes, because string literals have a maximum
# length.
function(constant name text result)
  file(WRITE ${OUTPUT}.${name} "${text}")
  file(READ ${OUTPUT}.${name} hex HEX)
  file(REMOVE ${OUTPUT}.${name})
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
  set(${result} "constexpr char k_${name}[] = {${bytes}'\\0'};\n}  // namespace
std::string_view ${name}() { return {k_${name}, sizeof(k_${name}) - 1}; }\nnamespace {\n" PARENT_SCOPE)
endfunction()
constant(page_template "${page}" template_source)
constant(page_style "${style}" style_source)
constant(page_script "${script}" script_source)
file(WRITE ${OUTPUT} "// Made by cmake/embed_page.cmake.
#include \"tril/explain/page_parts.h\"

namespace tril {
namespace {
${template_source}${style_source}${script_source}}  // namespace
}  // namespace tril
")
