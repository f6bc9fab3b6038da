// A hand-written mask: read, or refused with an Error; its own statements are consistent.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tril/base/error.h"
#include "tril/lesson/mask_check.h"

namespace {
void demand(bool holds) {
  if (!holds) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const tril::MaskCheck check =
        tril::check_mask(std::string_view(reinterpret_cast<const char*>(data), size));
    demand(check.rows > 0 && check.columns > 0);
    demand(static_cast<int64_t>(check.looks.size()) == check.rows * check.columns);
    for (const auto& cell : check.leaks) {
      demand(check.sees(cell.row, cell.column) && cell.column > cell.row + check.offset());
    }
    for (const auto& cell : check.hidden) demand(!check.sees(cell.row, cell.column));
    demand(!check.causal() || (check.blind_row() < 0 && check.leaks_nothing()));
  } catch (const tril::Error&) {
  }
  return 0;
}
