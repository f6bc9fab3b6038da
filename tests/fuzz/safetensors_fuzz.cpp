// Any bytes are either tensors whose every element can be read, or one tril::Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tril/base/error.h"
#include "tril/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static tril::Arena arena;
  arena.reset();
  try {
    tril::SafetensorsInfo info;
    const std::string_view text(reinterpret_cast<const char*>(bytes), size);
    const auto tensors = tril::parse_safetensors(text, "fuzz", arena, &info);
    size_t total = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const tril::Tensor& tensor = tensors[i].tensor;
      total += static_cast<size_t>(tensor.size() * tril::size_of(tensor.dtype()));
      if (i > 0 && tensors[i - 1].name >= tensors[i].name) std::abort();
    }
    if (total > size) std::abort();
  } catch (const tril::Error& error) {
    // Names the file, and nothing in it ends the text early.
    if (std::strncmp(error.what(), "fuzz: ", 6) != 0) std::abort();
    if (error.code() != tril::ErrorCode::bad_format) std::abort();
  }
  return 0;
}
