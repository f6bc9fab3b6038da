// Any text is either a mask that is the matrix it was read from, or one tril::Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tril/base/error.h"
#include "tril/tensor/mask.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const tril::Mask mask = tril::Mask::parse(text);
    std::string entries;
    for (const char entry : text) {
      if (entry == '0' || entry == '1') entries += entry;
    }
    const int64_t rows = static_cast<int64_t>(mask.rows().size());
    const int64_t keys = rows == 0 ? 0 : static_cast<int64_t>(entries.size()) / rows;
    tril::check_within(mask.rows(), keys);
    if (rows * keys != static_cast<int64_t>(entries.size())) std::abort();
    for (int64_t i = 0; i < rows * keys; ++i) {
      if (mask.sees(i / keys, i % keys) != (entries[static_cast<size_t>(i)] == '1')) std::abort();
    }
  } catch (const tril::Error& error) {
    if (error.code() != tril::ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
