#include "tril/kernels/gemm_bf16_dot.h"

#include <algorithm>
#include <cstring>

#include "tril/base/cpu.h"
#include "tril/kernels/cpu/blocks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tril::kernels {
namespace {

constexpr int kTileRows = 6;
constexpr int64_t kTaskRows = 8 * kTileRows;
constexpr int64_t kSerialWork = 1 << 16;
constexpr int64_t kStep = 2 * kPanelColumns;  // elements of a panel for two terms

#if defined(__x86_64__)

#define TRIL_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
// Loops over a tile must be unrolled first; otherwise the sums are kept in memory.
#define TRIL_UNROLL _Pragma("GCC unroll 8")

// Sums of kRows rows of `stride` elements against one panel: sums[r][column].
template <int kRows>
TRIL_BF16 void tile(const BFloat16* a, int64_t stride, const BFloat16* panel, int64_t pairs,
                    float (*sums)[kPanelColumns]) {
  __m512 acc[kRows][4];
  const BFloat16* from[kRows];
  TRIL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    from[r] = a + r * stride;
    TRIL_UNROLL
    for (int g = 0; g < 4; ++g) acc[r][g] = _mm512_setzero_ps();
  }
  for (int64_t pair = 0; pair < pairs; ++pair) {
    __m512bh w[4];
    TRIL_UNROLL
    for (int g = 0; g < 4; ++g) {
      w[g] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel + g * 32));
    }
    panel += kStep;
    TRIL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      int32_t both;
      std::memcpy(&both, from[r] + 2 * pair, sizeof both);
      const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
      TRIL_UNROLL
      for (int g = 0; g < 4; ++g) acc[r][g] = _mm512_dpbf16_ps(acc[r][g], x, w[g]);
    }
  }
  TRIL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TRIL_UNROLL
    for (int g = 0; g < 4; ++g) _mm512_storeu_ps(sums[r] + g * 16, acc[r][g]);
  }
}

TRIL_BF16 void round_row(const float* x, int64_t k, BFloat16* out) {
  for (int64_t i = 0; i < k; ++i) out[i] = to_bf16(x[i]);
}

using Tile = void (*)(const BFloat16* a, int64_t stride, const BFloat16* panel, int64_t pairs,
                      float (*sums)[kPanelColumns]);
constexpr Tile kTiles[kTileRows] = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};

// Rows [row, row + rows) against one panel.
void multiply_tile(const GemmBf16Dot& g, int64_t row, int64_t rows, int64_t panel) {
  const int64_t padded = bf16_padded(g.k);
  const int64_t first = panel * kPanelColumns;
  const int64_t width = std::min(kPanelColumns, g.n - first);
  alignas(64) float sums[kTileRows][kPanelColumns];
  kTiles[rows - 1](g.a + row * padded, padded, g.panels + panel * padded * kPanelColumns,
                   padded / 2, sums);
  for (int64_t r = 0; r < rows; ++r) {
    float* c = g.c + (row + r) * g.n + first;
    if (g.bias == nullptr) {
      std::copy_n(sums[r], width, c);
    } else {
      for (int64_t i = 0; i < width; ++i) c[i] = sums[r][i] + g.bias[first + i];
    }
  }
}

#else

void round_row(const float* x, int64_t k, BFloat16* out) {
  for (int64_t i = 0; i < k; ++i) out[i] = to_bf16(x[i]);
}

#endif

}  // namespace

bool has_bf16_dot() {
#if defined(__x86_64__)
  const Target target = current_target();
  return (target == Target::avx512 || target == Target::avx512_vnni) &&
         __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

void pack_bf16_pairs(const Parallel& parallel, const float* weight, int64_t n, int64_t k,
                     BFloat16* panels) {
  const int64_t padded = bf16_padded(k);
  parallel(panels_of(n), [=](int64_t panel) {
    BFloat16* to = panels + panel * padded * kPanelColumns;
    std::fill_n(to, padded * kPanelColumns, BFloat16{});
    const int64_t first = panel * kPanelColumns;
    for (int64_t row = first; row < std::min(n, first + kPanelColumns); ++row) {
      for (int64_t i = 0; i < k; ++i) {
        to[i / 2 * kStep + (row - first) * 2 + i % 2] = to_bf16(weight[row * k + i]);
      }
    }
  });
}

void unpack_bf16_row(const BFloat16* panels, int64_t k, int64_t row, float* out) {
  const BFloat16* from =
      panels + row / kPanelColumns * bf16_padded(k) * kPanelColumns + row % kPanelColumns * 2;
  for (int64_t i = 0; i < k; ++i) out[i] = to_f32(from[i / 2 * kStep + i % 2]);
}

void round_rows(const Parallel& parallel, const float* x, int64_t m, int64_t k, BFloat16* out) {
  constexpr int64_t kWork = 1 << 14;
  const int64_t padded = bf16_padded(k);
  const int64_t block = std::max<int64_t>(1, kWork / std::max<int64_t>(1, k));
  parallel((m + block - 1) / block, [=](int64_t task) {
    for (int64_t row = task * block; row < std::min(m, (task + 1) * block); ++row) {
      round_row(x + row * k, k, out + row * padded);
      if (padded > k) out[row * padded + k] = BFloat16{};
    }
  });
}

void gemm_bf16_dot(const Parallel& parallel, std::span<const GemmBf16Dot> products) {
#if defined(__x86_64__)
  for_gemm_blocks(
      parallel, products, kTaskRows, kSerialWork, [](const GemmBf16Dot& g, const GemmBlock& block) {
        for (int64_t panel = block.panel_begin; panel < block.panel_end; ++panel) {
          for (int64_t row = block.row_begin, rows = 0; row < block.row_end; row += rows) {
            rows = std::min<int64_t>(kTileRows, block.row_end - row);
            multiply_tile(g, row, rows, panel);
          }
        }
      });
#else
  static_cast<void>(parallel);
  static_cast<void>(products);
#endif
}

}  // namespace tril::kernels
