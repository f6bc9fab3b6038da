#include "tril/kernels/gemm.h"

#include "tril/kernels/cpu/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/gemm.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/chain-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kGroupsPerPanel = kPanelColumns / kLanes;
// Terms of a chain computed at once: a stretch of a panel (128 KiB) stays in the second-level cache
// while all rows of a task use it. Stored sums are exact, so this changes no bit.
constexpr int64_t kStretch = 512;
static_assert(kStretch == kTokenSlice, "a slice is a stretch that starts at zero");
constexpr int64_t kTaskRows = 8 * kMaxRows;
// Multiply-adds below which waking another thread costs more than it saves.
constexpr int64_t kSerialWork = 1 << 16;

void PackPanels(const Parallel& parallel, const float* b, int64_t k, int64_t n, float* panels) {
  parallel((n + kPanelColumns - 1) / kPanelColumns, [=](int64_t panel) {
    const int64_t first = panel * kPanelColumns;
    const int64_t width = std::min(kPanelColumns, n - first);
    float* to = panels + panel * k * kPanelColumns;
    for (int64_t row = 0; row < k; ++row) {
      const float* from = b + row * n + first;
      float* out = to + row * kPanelColumns;
      for (int64_t column = 0; column < width; ++column) out[column] = from[column];
      for (int64_t column = width; column < kPanelColumns; ++column) out[column] = 0.0f;
    }
  });
}

void PackPanelsTransposed(const Parallel& parallel, const float* b, int64_t k, int64_t n,
                          float* panels) {
  const int64_t groups = (n + kPanelColumns - 1) / kPanelColumns * kGroupsPerPanel;
  parallel(groups, [=](int64_t group) {
    const int64_t first = group * kLanes;
    const int64_t rows = std::clamp<int64_t>(n - first, 0, kLanes);
    float* to =
        panels + group / kGroupsPerPanel * k * kPanelColumns + group % kGroupsPerPanel * kLanes;
    transpose_16(b + std::min(first, n) * k, k, rows, k, to, kPanelColumns);
  });
}

HWY_INLINE void load_columns(const float* from, int64_t count, Vec16& to) {
  if (count == kLanes) {
    to = load16(from);
  } else {
    to = load16(from, count);
  }
}

// One tile of rows against one panel, over the terms [begin, end).
template <int kRows, class Element>
HWY_INLINE void gemm_tile(const GemmOf<Element>& g, int64_t row, int64_t panel, int64_t begin,
                          int64_t end) {
  const int64_t a_row = g.a_transposed ? 1 : g.k;
  const int64_t a_step = g.a_transposed ? g.m : 1;
  const float* a = g.a + row * a_row + begin * a_step;
  const Element* b = g.panels + (panel * g.k + begin) * kPanelColumns;
  const bool continues = begin > 0 && g.summation == Summation::one_chain;
  const bool merges = g.adds || (begin > 0 && g.summation == Summation::token_slices);
  const int64_t width = std::min(kPanelColumns, g.n - panel * kPanelColumns);
  const int64_t groups = (width + kLanes - 1) / kLanes;
  for (int64_t group = 0; group < groups;) {
    group += with_groups<kRows>(groups - group, [&](auto count) HWY_ATTR {
      constexpr int kGroups = decltype(count)::value;
      const int64_t column = group * kLanes;
      float* c = g.c + row * g.n + panel * kPanelColumns + column;
      const int64_t in_last = std::min<int64_t>(kLanes, width - column - (kGroups - 1) * kLanes);
      Accumulators<kRows, kGroups> sums;
      sums.clear();
      if (continues) {
        for (int i = 0; i < kGroups; ++i) {
          const int64_t in_group = i + 1 == kGroups ? in_last : kLanes;
          for (int r = 0; r < kRows; ++r) {
            load_columns(c + r * g.n + i * kLanes, in_group, sums.at[r][i]);
          }
        }
      }
      const Element* from[kGroups];
      for (int i = 0; i < kGroups; ++i) from[i] = b + column + i * kLanes;
      // The results' memory is prefetched first, so that it arrives while the products are
      // computed.
      if (!continues) {
        for (int r = 0; r < kRows; ++r) {
          for (int i = 0; i < kGroups; ++i) __builtin_prefetch(c + r * g.n + i * kLanes, 0, 2);
        }
      }
      chain<kRows, kGroups>(a, a_row, a_step, from, kPanelColumns, end - begin, sums);
      for (int i = 0; i < kGroups; ++i) {
        const int64_t in_group = i + 1 == kGroups ? in_last : kLanes;
        const float* bias = g.bias == nullptr || end < g.k
                                ? nullptr
                                : g.bias + panel * kPanelColumns + column + i * kLanes;
        // A sum over tokens is added to zero, so that it is never -0.
        const bool has_addend = bias != nullptr || g.summation == Summation::token_slices;
        Vec16 addend = zero16();
        if (bias != nullptr) load_columns(bias, in_group, addend);
        for (int r = 0; r < kRows; ++r) {
          float* to = c + r * g.n + i * kLanes;
          if (merges) {
            Vec16 before;
            load_columns(to, in_group, before);
            sums.at[r][i] = before + sums.at[r][i];
          }
          if (has_addend) sums.at[r][i] = sums.at[r][i] + addend;
          if (in_group == kLanes) {
            store16(sums.at[r][i], to);
          } else {
            store16(sums.at[r][i], to, in_group);
          }
        }
      }
    });
  }
}

template <class Element>
void gemm_in_tiles(const Parallel& parallel, std::span<const GemmOf<Element>> products) {
  for_gemm_blocks(parallel, products, kTaskRows, kSerialWork,
                  [](const GemmOf<Element>& g, const GemmBlock& block) {
                    int64_t begin = 0;
                    do {  // at least once, even for k = 0, which must still write
                      const int64_t end = std::min(g.k, begin + kStretch);
                      for (int64_t panel = block.panel_begin; panel < block.panel_end; ++panel) {
                        for (int64_t row = block.row_begin; row < block.row_end;) {
                          const int64_t height = next_rows(block.row_end - row);
                          with_rows(height, [&](auto rows) HWY_ATTR {
                            gemm_tile<decltype(rows)::value>(g, row, panel, begin, end);
                          });
                          row += height;
                        }
                      }
                      begin = end;
                    } while (begin < g.k);
                  });
}

void GemmKernel(const Parallel& parallel, std::span<const Gemm> products) {
  gemm_in_tiles(parallel, products);
}
void GemmBFloat16(const Parallel& parallel, std::span<const GemmOf<BFloat16>> products) {
  gemm_in_tiles(parallel, products);
}

void TransposeKernel(const Parallel& parallel, const float* in, int64_t rows, int64_t columns,
                     float* out) {
  parallel((rows + kLanes - 1) / kLanes, [=](int64_t task) {
    const int64_t row = task * kLanes;
    const int64_t count = std::min<int64_t>(kLanes, rows - row);
    if (count == kLanes) {
      transpose_16(in + row * columns, columns, kLanes, columns, out + row, rows);
    } else {
      for (int64_t column = 0; column < columns; ++column) {
        for (int64_t r = 0; r < count; ++r) {
          out[column * rows + row + r] = in[(row + r) * columns + column];
        }
      }
    }
  });
}

void ColumnSums(const Parallel& parallel, const float* in, int64_t rows, int64_t columns,
                float* out) {
  constexpr int64_t kWidth = 4 * kLanes;
  parallel((columns + kWidth - 1) / kWidth, [=](int64_t task) {
    const int64_t end = std::min(columns, (task + 1) * kWidth);
    for (int64_t column = task * kWidth; column < end; column += kLanes) {
      const int64_t width = std::min<int64_t>(kLanes, end - column);
      Vec16 total = zero16();
      for (int64_t begin = 0; begin < rows; begin += kTokenSlice) {
        Vec16 slice = zero16();
        for (int64_t row = begin; row < std::min(rows, begin + kTokenSlice); ++row) {
          slice = slice + load16(in + row * columns + column, width);
        }
        total = begin == 0 ? slice : total + slice;
      }
      store16(total, out + column, width);
    }
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(PackPanels);
HWY_EXPORT(PackPanelsTransposed);
HWY_EXPORT(GemmKernel);
HWY_EXPORT(GemmBFloat16);
HWY_EXPORT(TransposeKernel);
HWY_EXPORT(ColumnSums);

void pack_panels(const Parallel& parallel, const float* b, int64_t k, int64_t n, float* panels) {
  HWY_DYNAMIC_DISPATCH(PackPanels)(parallel, b, k, n, panels);
}
void pack_panels_transposed(const Parallel& parallel, const float* b, int64_t k, int64_t n,
                            float* panels) {
  HWY_DYNAMIC_DISPATCH(PackPanelsTransposed)(parallel, b, k, n, panels);
}
void gemm(const Parallel& parallel, std::span<const Gemm> products) {
  HWY_DYNAMIC_DISPATCH(GemmKernel)(parallel, products);
}
void gemm(const Parallel& parallel, std::span<const GemmOf<BFloat16>> products) {
  HWY_DYNAMIC_DISPATCH(GemmBFloat16)(parallel, products);
}
void round_panels(const Parallel& parallel, const float* panels, int64_t size, BFloat16* rounded) {
  constexpr int64_t kBlock = 1 << 14;
  parallel((size + kBlock - 1) / kBlock, [=](int64_t task) {
    const int64_t end = std::min(size, (task + 1) * kBlock);
    for (int64_t i = task * kBlock; i < end; ++i) rounded[i] = to_bf16(panels[i]);
  });
}
void transpose(const Parallel& parallel, const float* in, int64_t rows, int64_t columns,
               float* out) {
  HWY_DYNAMIC_DISPATCH(TransposeKernel)(parallel, in, rows, columns, out);
}
void column_sums(const Parallel& parallel, const float* in, int64_t rows, int64_t columns,
                 float* out) {
  HWY_DYNAMIC_DISPATCH(ColumnSums)(parallel, in, rows, columns, out);
}

}  // namespace tril::kernels
#endif
