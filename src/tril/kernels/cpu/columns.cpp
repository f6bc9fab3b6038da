#include "tril/kernels/columns.h"

#include <algorithm>
#include <cstring>

#include "tril/kernels/gemm.h"

namespace tril::kernels {
namespace {

template <int64_t kBytes>
void gather(const Parallel& parallel, const char* panels, int64_t rows,
            std::span<const int32_t> columns, char* out) {
  constexpr int64_t kRowBytes = kPanelColumns * kBytes;
  const auto count = static_cast<int64_t>(columns.size());
  parallel((count + kPanelColumns - 1) / kPanelColumns, [=](int64_t panel) {
    const int64_t first = panel * kPanelColumns;
    const int64_t width = std::min(kPanelColumns, count - first);
    char* to = out + panel * rows * kRowBytes;
    if (width < kPanelColumns) std::memset(to, 0, static_cast<size_t>(rows * kRowBytes));
    // Column by column: each is a stream of equal steps, which the processor prefetches.
    for (int64_t j = 0; j < width; ++j) {
      const int64_t column = columns[static_cast<size_t>(first + j)];
      const char* from =
          panels + column / kPanelColumns * rows * kRowBytes + column % kPanelColumns * kBytes;
      for (int64_t row = 0; row < rows; ++row) {
        std::memcpy(to + row * kRowBytes + j * kBytes, from + row * kRowBytes, kBytes);
      }
    }
  });
}

}  // namespace

void gather_columns(const Parallel& parallel, const void* panels, int64_t unit_bytes, int64_t rows,
                    std::span<const int32_t> columns, void* out) {
  const auto* from = static_cast<const char*>(panels);
  auto* to = static_cast<char*>(out);
  if (unit_bytes == 2) {
    gather<2>(parallel, from, rows, columns, to);
  } else {
    gather<4>(parallel, from, rows, columns, to);
  }
}

}  // namespace tril::kernels
