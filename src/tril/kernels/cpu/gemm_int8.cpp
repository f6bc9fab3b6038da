// int8 products. The integer tiles are written by hand for each instruction set, because the
// instructions differ; the rest uses Highway, as everywhere.
#include "tril/kernels/gemm_int8.h"

#include <bit>
#include <cstring>

#include "tril/base/cpu.h"
#include "tril/kernels/cpu/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/gemm_int8.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/chain-inl.h"

#ifndef TRIL_KERNELS_CPU_GEMM_INT8_TILES_
#define TRIL_KERNELS_CPU_GEMM_INT8_TILES_

#if defined(__x86_64__)
#include <immintrin.h>
#define TRIL_AVX2 __attribute__((target("avx2,fma")))
#define TRIL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define TRIL_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#endif

namespace tril::kernels {
namespace {

constexpr int64_t kStepBytes = kPanelColumns * kInt8Terms;  // of a panel, for four terms
constexpr int kTileRows = 6;                                // as kMaxRows of chain-inl.h

// Sums of up to kTileRows rows against one panel: sums[r][column], over `steps` times four terms.
// a[r] is row r of the activations.
using Tile = void (*)(const uint8_t* const* a, const int8_t* panel, int64_t steps,
                      int32_t (*sums)[kPanelColumns]);

template <int kRows>
void tile_plain(const uint8_t* const* a, const int8_t* panel, int64_t steps,
                int32_t (*sums)[kPanelColumns]) {
  for (int r = 0; r < kRows; ++r) std::fill_n(sums[r], kPanelColumns, 0);
  for (int64_t step = 0; step < steps; ++step) {
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* x = a[r] + step * kInt8Terms;
      for (int64_t column = 0; column < kPanelColumns; ++column) {
        const int8_t* w = panel + step * kStepBytes + column * kInt8Terms;
        sums[r][column] += x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3];
      }
    }
  }
}

#if defined(__x86_64__)

inline int32_t four(const uint8_t* from) {
  int32_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

// Loops over a tile must be unrolled first; otherwise the sums are kept in memory.
#define TRIL_UNROLL _Pragma("GCC unroll 8")

// vpdpbusd: four products of an unsigned and a signed byte, summed into 32 bits without saturation.
template <int kRows>
TRIL_VNNI void tile_vnni(const uint8_t* const* a, const int8_t* panel, int64_t steps,
                         int32_t (*sums)[kPanelColumns]) {
  __m512i acc[kRows][4];
  const uint8_t* from[kRows];
  TRIL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    from[r] = a[r];
    TRIL_UNROLL
    for (int g = 0; g < 4; ++g) acc[r][g] = _mm512_setzero_si512();
  }
  for (int64_t step = 0; step < steps; ++step) {
    __m512i w[4];
    TRIL_UNROLL
    for (int g = 0; g < 4; ++g) w[g] = _mm512_loadu_si512(panel + g * 64);
    panel += kStepBytes;
    TRIL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512i x = _mm512_set1_epi32(four(from[r] + step * kInt8Terms));
      TRIL_UNROLL
      for (int g = 0; g < 4; ++g) acc[r][g] = _mm512_dpbusd_epi32(acc[r][g], x, w[g]);
    }
  }
  TRIL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TRIL_UNROLL
    for (int g = 0; g < 4; ++g) _mm512_storeu_si512(sums[r] + g * 16, acc[r][g]);
  }
}

// Without it: bytes are widened to 16 bits, whose products vpmaddwd sums in pairs into 32 bits. A
// column then has two adjacent sums. Half a panel at a time, so that they fit into registers.
template <int kRows>
TRIL_AVX512 void tile_avx512(const uint8_t* const* a, const int8_t* panel, int64_t steps,
                             int32_t (*sums)[kPanelColumns]) {
  for (int half = 0; half < 2; ++half) {
    __m512i acc[kRows][4];  // eight columns each
    TRIL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TRIL_UNROLL
      for (int g = 0; g < 4; ++g) acc[r][g] = _mm512_setzero_si512();
    }
    for (int64_t step = 0; step < steps; ++step) {
      const int8_t* at = panel + step * kStepBytes + half * (kStepBytes / 2);
      __m512i w[4];
      TRIL_UNROLL
      for (int g = 0; g < 4; ++g) {
        w[g] =
            _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + g * 32)));
      }
      TRIL_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512i x = _mm512_cvtepu8_epi16(_mm256_set1_epi32(four(a[r] + step * kInt8Terms)));
        TRIL_UNROLL
        for (int g = 0; g < 4; ++g) {
          acc[r][g] = _mm512_add_epi32(acc[r][g], _mm512_madd_epi16(x, w[g]));
        }
      }
    }
    TRIL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TRIL_UNROLL
      for (int g = 0; g < 4; ++g) {
        const __m512i other = _mm512_srli_epi64(acc[r][g], 32);
        const __m512i total = _mm512_add_epi32(acc[r][g], other);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums[r] + half * 32 + g * 8),
                            _mm512_cvtepi64_epi32(total));
      }
    }
  }
}

// The same with 256 bits: four columns per register, 16 columns at a time.
template <int kRows>
TRIL_AVX2 void tile_avx2(const uint8_t* const* a, const int8_t* panel, int64_t steps,
                         int32_t (*sums)[kPanelColumns]) {
  const __m256i evens = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  for (int part = 0; part < 8; ++part) {
    __m256i acc[kRows][2];
    TRIL_UNROLL
    for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
    for (int64_t step = 0; step < steps; ++step) {
      const int8_t* at = panel + step * kStepBytes + part * (kStepBytes / 8);
      __m256i w[2];
      TRIL_UNROLL
      for (int g = 0; g < 2; ++g) {
        w[g] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at + g * 16)));
      }
      TRIL_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m256i x = _mm256_cvtepu8_epi16(_mm_set1_epi32(four(a[r] + step * kInt8Terms)));
        TRIL_UNROLL
        for (int g = 0; g < 2; ++g) {
          acc[r][g] = _mm256_add_epi32(acc[r][g], _mm256_madd_epi16(x, w[g]));
        }
      }
    }
    TRIL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TRIL_UNROLL
      for (int g = 0; g < 2; ++g) {
        const __m256i total = _mm256_add_epi32(acc[r][g], _mm256_srli_epi64(acc[r][g], 32));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(sums[r] + part * 8 + g * 4),
                         _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(total, evens)));
      }
    }
  }
}

#endif

struct Tiles {
  Tile of_rows[kTileRows];
};
#define TRIL_TILES(name)                                     \
  {                                                          \
    { name<1>, name<2>, name<3>, name<4>, name<5>, name<6> } \
  }
const Tiles& tiles() {
  static constexpr Tiles kPlain = TRIL_TILES(tile_plain);
#if defined(__x86_64__)
  static constexpr Tiles kVnni = TRIL_TILES(tile_vnni);
  static constexpr Tiles kAvx512 = TRIL_TILES(tile_avx512);
  static constexpr Tiles kAvx2 = TRIL_TILES(tile_avx2);
  switch (current_target()) {
    case Target::avx512_vnni: return kVnni;
    case Target::avx512: return kAvx512;
    case Target::avx2: return kAvx2;
    default: return kPlain;
  }
#else
  return kPlain;
#endif
}

}  // namespace
}  // namespace tril::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

static_assert(kTileRows == kMaxRows);
constexpr int64_t kTaskRows = 8 * kTileRows;
// Multiplications below which waking another thread costs more than it saves.
constexpr int64_t kSerialWork = 1 << 17;
constexpr int32_t kZero = 128;  // the stored value of zero

using IntTag = hn::RebindToSigned<FloatTag>;

// The factor that turns a row into integers, and the scale that turns them back.
struct RowScale {
  float inverse;
  float scale;
};
// Compares the bits of magnitudes, which are ordered like the numbers, with infinity and NaN above
// all.
RowScale scale_of(const float* row, int64_t count) {
  const IntTag tag;
  const auto magnitude = hn::Set(tag, 0x7fffffff);
  auto largest = hn::Zero(tag);
  for_each_16(count, [&](const auto& load, const auto&) HWY_ATTR {
    const Vec16 x = load(row);
    for (const Part& part : x.part) {
      largest = hn::Max(largest, hn::And(hn::BitCast(tag, part), magnitude));
    }
  });
  const int32_t bits = hn::GetLane(hn::MaxOfLanes(tag, largest));
  // The NaN that x86's own operations make: where all are equal, their order does not matter.
  if (bits >= 0x7f800000) return {0.0f, std::bit_cast<float>(0xffc00000u)};
  const auto value = std::bit_cast<float>(bits);
  if (value < kInt8Smallest) return {0.0f, 0.0f};
  return {127.0f / value, value / 127.0f};
}

// The nearest integer, ties to even, from -127 to 127.
HWY_INLINE auto rounded(Part x, float factor) {
  return hn::NearestInt(hn::Mul(x, hn::Set(FloatTag(), factor)));
}

void PackInt8(const Parallel& parallel, const float* weight, int64_t n, int64_t k,
              const Int8Weight& packed) {
  const int64_t padded = int8_padded(k);
  parallel((n + kPanelColumns - 1) / kPanelColumns, [=](int64_t panel) {
    int8_t* to = packed.panels + panel * padded * kPanelColumns;
    std::fill_n(to, padded * kPanelColumns, int8_t{0});
    const int64_t first = panel * kPanelColumns;
    for (int64_t row = first; row < std::min(n, first + kPanelColumns); ++row) {
      const RowScale scale = scale_of(weight + row * k, k);
      packed.scales[row] = scale.scale;
      packed.sums[row] = 0;
      if (scale.inverse == 0.0f) continue;  // NaN times zero would not be an integer
      int8_t* column = to + (row - first) * kInt8Terms;
      int32_t sum = 0;
      HWY_ALIGN int32_t values[kLanes];
      for (int64_t begin = 0; begin < k; begin += kLanes) {
        const int64_t count = std::min<int64_t>(kLanes, k - begin);
        const Vec16 x = load16(weight + row * k + begin, count);
        for (int p = 0; p < kParts; ++p) {
          hn::Store(rounded(x.part[p], scale.inverse), IntTag(), values + p * kPartLanes);
        }
        for (int64_t i = 0; i < count; ++i) {
          const int64_t term = begin + i;
          column[term / kInt8Terms * kStepBytes + term % kInt8Terms] =
              static_cast<int8_t>(values[i]);
          sum += values[i];
        }
      }
      packed.sums[row] = sum;
    }
  });
}

void QuantizeRows(const Parallel& parallel, const float* x, int64_t m, int64_t k, uint8_t* out,
                  float* scales) {
  const hn::Rebind<uint8_t, FloatTag> bytes;
  const int64_t padded = int8_padded(k);
  for_row_blocks(parallel, m, k, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x + row * k;
      uint8_t* to = out + row * padded;
      const RowScale scale = scale_of(from, k);
      scales[row] = scale.scale;
      if (scale.inverse == 0.0f) {  // NaN times zero would not be an integer
        std::fill_n(to, padded, static_cast<uint8_t>(kZero));
        continue;
      }
      HWY_ALIGN uint8_t last[kLanes];
      for (int64_t i = 0; i < k; i += kLanes) {
        const bool whole = i + kLanes <= k;
        const Vec16 values = whole ? load16(from + i) : load16(from + i, k - i);
        uint8_t* at = whole ? to + i : last;
        for (int p = 0; p < kParts; ++p) {
          const auto moved =
              hn::Add(rounded(values.part[p], scale.inverse), hn::Set(IntTag(), kZero));
          hn::StoreU(hn::DemoteTo(bytes, moved), bytes, at + p * kPartLanes);
        }
        if (!whole) std::copy_n(last, padded - i, to + i);  // zeros past the end
      }
    }
  });
}

// Turns the integer sums of one row of a tile into floats, in the order of the contract.
HWY_INLINE void finish_row(const GemmInt8& g, const int32_t* sums, int64_t row, int64_t first,
                           int64_t width) {
  const IntTag tag;
  const Vec16 row_scale = set16(g.a_scales[row]);
  const auto finished = [&](const int32_t* sum, const int32_t* surplus,
                            const Vec16& scales) HWY_ATTR {
    Vec16 value;
    for (int p = 0; p < kParts; ++p) {
      const auto zero = hn::ShiftLeft<7>(hn::LoadU(tag, surplus + p * kPartLanes));
      value.part[p] =
          hn::ConvertTo(FloatTag(), hn::Sub(hn::LoadU(tag, sum + p * kPartLanes), zero));
    }
    return (value * row_scale) * scales;
  };
  float* c = g.c + row * g.n + first;
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    const int64_t at = first + i;
    Vec16 value = finished(sums + i, g.sums + at, load16(g.scales + at));
    if (g.bias != nullptr) value = value + load16(g.bias + at);
    store16(value, c + i);
  }
  if (i < width) {
    const int64_t at = first + i;
    const int64_t count = width - i;
    int32_t surplus[kLanes] = {};
    std::copy_n(g.sums + at, count, surplus);
    Vec16 value = finished(sums + i, surplus, load16(g.scales + at, count));
    if (g.bias != nullptr) value = value + load16(g.bias + at, count);
    store16(value, c + i, count);
  }
}

void GemmInt8Kernel(const Parallel& parallel, std::span<const GemmInt8> products,
                    const Tiles& tiles) {
  for_gemm_blocks(parallel, products, kTaskRows, kSerialWork,
                  [&](const GemmInt8& g, const GemmBlock& block) {
                    const int64_t padded = int8_padded(g.k);
                    alignas(64) int32_t sums[kTileRows][kPanelColumns];
                    for (int64_t panel = block.panel_begin; panel < block.panel_end; ++panel) {
                      const int64_t first = panel * kPanelColumns;
                      const int64_t width = std::min(kPanelColumns, g.n - first);
                      for (int64_t row = block.row_begin; row < block.row_end;) {
                        const int64_t rows = next_rows(block.row_end - row);
                        const uint8_t* a[kTileRows] = {};
                        for (int64_t r = 0; r < rows; ++r) a[r] = g.a + (row + r) * padded;
                        tiles.of_rows[rows - 1](a, g.panels + panel * padded * kPanelColumns,
                                                padded / kInt8Terms, sums);
                        for (int64_t r = 0; r < rows; ++r) {
                          finish_row(g, sums[r], row + r, first, width);
                        }
                        row += rows;
                      }
                    }
                  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(PackInt8);
HWY_EXPORT(QuantizeRows);
HWY_EXPORT(GemmInt8Kernel);

void pack_int8(const Parallel& parallel, const float* weight, int64_t n, int64_t k,
               const Int8Weight& packed) {
  HWY_DYNAMIC_DISPATCH(PackInt8)(parallel, weight, n, k, packed);
}
void quantize_rows(const Parallel& parallel, const float* x, int64_t m, int64_t k, uint8_t* out,
                   float* scales) {
  HWY_DYNAMIC_DISPATCH(QuantizeRows)(parallel, x, m, k, out, scales);
}
void gemm_int8(const Parallel& parallel, std::span<const GemmInt8> products) {
  HWY_DYNAMIC_DISPATCH(GemmInt8Kernel)(parallel, products, tiles());
}

void unpack_int8_row(const int8_t* panels, const float* scales, int64_t k, int64_t row,
                     float* out) {
  const int8_t* from = panels + row / kPanelColumns * int8_padded(k) * kPanelColumns +
                       row % kPanelColumns * kInt8Terms;
  for (int64_t i = 0; i < k; ++i) {
    const int64_t at = i / kInt8Terms * kStepBytes + i % kInt8Terms;
    out[i] = static_cast<float>(from[at]) * scales[row];
  }
}

}  // namespace tril::kernels
#endif
