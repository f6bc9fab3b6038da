// Any text is either an index whose files lie in its own folder, or one tril::Error.
#include <cstring>
#include <filesystem>

#include "scratch.h"
#include "tril/base/error.h"
#include "tril/io/foreign/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tril::fuzz::check;
  try {
    const auto index =
        tril::foreign::read_shard_index(tril::fuzz::view(data, size), ".safetensors", "fuzz");
    check(!index.empty());
    for (const auto& [tensor, file] : index) {
      const std::filesystem::path path = std::filesystem::path("/folder") / file;
      check(path.lexically_normal().parent_path() == "/folder");
      check(path.extension() == ".safetensors" && file.find('\0') == file.npos);
    }
  } catch (const tril::Error& error) {
    check(std::strncmp(error.what(), "fuzz: ", 6) == 0);
    check(error.code() == tril::ErrorCode::bad_format);
  }
  return 0;
}
