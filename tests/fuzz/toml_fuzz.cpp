// Any bytes are options, each of which can be written and read back, or one tril::Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tril/base/error.h"
#include "tril/io/json.h"
#include "tril/io/toml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto options =
        tril::parse_toml(std::string_view(reinterpret_cast<const char*>(data), size), "input");
    for (const tril::TomlOption& option : options) {
      std::string line = option.name + " = [";
      for (const std::string& value : option.values) {
        line += (line.ends_with('[') ? "" : ", ") + tril::json_quoted(value);
      }
      const auto again = tril::parse_toml(line + "] # again", "again");
      if (again.size() != 1 || again[0].values != option.values) std::abort();
    }
  } catch (const tril::Error& error) {
    if (error.code() != tril::ErrorCode::bad_format) std::abort();
  }
  return 0;
}
