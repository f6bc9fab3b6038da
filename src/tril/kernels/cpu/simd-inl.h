// Sixteen virtual lanes: the vector type of every CPU kernel, and the only wrapper around Highway.
// Included once per instruction set by foreach_target.h.
//
// A Vec16 is one AVX-512 register, two AVX2 registers or four NEON registers. Lane i is lane i on
// all of them, sums over lanes follow one fixed tree, and fma() is fused everywhere, so a kernel
// written in Vec16 gives the same bits on every instruction set.
// No fast-math, no approximate reciprocals: add, mul, div, sqrt and fma are the IEEE operations.

#if defined(TRIL_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_CPU_SIMD_INL_H_
#undef TRIL_KERNELS_CPU_SIMD_INL_H_
#else
#define TRIL_KERNELS_CPU_SIMD_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"
#include "tril/base/dtype.h"
#include "tril/base/parallel.h"

#ifdef __FAST_MATH__
#error "fast-math makes other functions of these: see cmake/options.cmake"
#endif

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLanes = 16;
using FloatTag = hn::CappedTag<float, kLanes>;
using Part = hn::Vec<FloatTag>;
constexpr int kPartLanes = static_cast<int>(hn::MaxLanes(FloatTag()));
constexpr int kParts = kLanes / kPartLanes;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Vec16 {
  Part part[kParts];
};
struct Mask16 {
  hn::Mask<FloatTag> part[kParts];
};

// Applies f to each part of the given vectors.
template <class F, class... Vectors>
HWY_INLINE Vec16 each(const F& f, const Vectors&... vectors) {
  Vec16 result;
  for (int p = 0; p < kParts; ++p) result.part[p] = f(vectors.part[p]...);
  return result;
}

HWY_INLINE Vec16 set16(float x) {
  Vec16 result;
  for (Part& part : result.part) part = hn::Set(FloatTag(), x);
  return result;
}
HWY_INLINE Vec16 zero16() { return set16(0.0f); }

HWY_INLINE Vec16 load16(const float* HWY_RESTRICT from) {
  Vec16 result;
  for (int p = 0; p < kParts; ++p) result.part[p] = hn::LoadU(FloatTag(), from + p * kPartLanes);
  return result;
}
HWY_INLINE Vec16 load16(const BFloat16* HWY_RESTRICT from) {
  const hn::RebindToUnsigned<FloatTag> wide;
  const hn::Rebind<uint16_t, FloatTag> narrow;
  Vec16 result;
  for (int p = 0; p < kParts; ++p) {
    const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from) + p * kPartLanes);
    result.part[p] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
  }
  return result;
}
HWY_INLINE void store16(const Vec16& v, float* HWY_RESTRICT to) {
  for (int p = 0; p < kParts; ++p) hn::StoreU(v.part[p], FloatTag(), to + p * kPartLanes);
}

// The lanes [lo, hi); bounds beyond 0 and 16 are allowed.
HWY_INLINE Mask16 lanes(int64_t lo, int64_t hi) {
  const hn::RebindToSigned<FloatTag> tag;
  const auto low = hn::Set(tag, static_cast<int32_t>(std::clamp<int64_t>(lo, 0, kLanes)));
  const auto high = hn::Set(tag, static_cast<int32_t>(std::clamp<int64_t>(hi, 0, kLanes)));
  Mask16 result;
  for (int p = 0; p < kParts; ++p) {
    const auto lane = hn::Iota(tag, p * kPartLanes);
    result.part[p] =
        hn::RebindMask(FloatTag(), hn::And(hn::Not(hn::Lt(lane, low)), hn::Lt(lane, high)));
  }
  return result;
}

// The first `count` lanes from memory, zero in the others; memory beyond them is not accessed.
HWY_INLINE Vec16 load16(const float* HWY_RESTRICT from, int64_t count) {
#if HWY_ARCH_X86
  const Mask16 mask = lanes(0, count);
  Vec16 result;
  for (int p = 0; p < kParts; ++p) {
    result.part[p] = hn::MaskedLoad(mask.part[p], FloatTag(), from + p * kPartLanes);
  }
  return result;
#else  // masked loads and stores access the whole vector there
  HWY_ALIGN float buffer[kLanes] = {};
  std::copy_n(from, count, buffer);
  return load16(buffer);
#endif
}
HWY_INLINE void store16(const Vec16& v, float* HWY_RESTRICT to, int64_t count) {
#if HWY_ARCH_X86
  const Mask16 mask = lanes(0, count);
  for (int p = 0; p < kParts; ++p) {
    hn::BlendedStore(v.part[p], mask.part[p], FloatTag(), to + p * kPartLanes);
  }
#else
  HWY_ALIGN float buffer[kLanes];
  store16(v, buffer);
  std::copy_n(buffer, count, to);
#endif
}

HWY_INLINE Vec16 operator+(const Vec16& a, const Vec16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}
HWY_INLINE Vec16 operator-(const Vec16& a, const Vec16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Sub(x, y); }, a, b);
}
HWY_INLINE Vec16 operator*(const Vec16& a, const Vec16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Mul(x, y); }, a, b);
}
HWY_INLINE Vec16 operator/(const Vec16& a, const Vec16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Div(x, y); }, a, b);
}
// a * b + c, rounded once.
HWY_INLINE Vec16 fma(const Vec16& a, const Vec16& b, const Vec16& c) {
  return each([](auto x, auto y, auto z) HWY_ATTR { return hn::MulAdd(x, y, z); }, a, b, c);
}
// c - a * b, rounded once.
HWY_INLINE Vec16 fnma(const Vec16& a, const Vec16& b, const Vec16& c) {
  return each([](auto x, auto y, auto z) HWY_ATTR { return hn::NegMulAdd(x, y, z); }, a, b, c);
}
HWY_INLINE Vec16 sqrt(const Vec16& a) {
  return each([](auto x) HWY_ATTR { return hn::Sqrt(x); }, a);
}
// b if either is NaN, as on x86.
HWY_INLINE Vec16 max(const Vec16& a, const Vec16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Max(x, y); }, a, b);
}
HWY_INLINE Vec16 select(const Mask16& mask, const Vec16& yes, const Vec16& no) {
  Vec16 result;
  for (int p = 0; p < kParts; ++p) {
    result.part[p] = hn::IfThenElse(mask.part[p], yes.part[p], no.part[p]);
  }
  return result;
}
HWY_INLINE Mask16 greater(const Vec16& a, const Vec16& b) {
  Mask16 result;
  for (int p = 0; p < kParts; ++p) result.part[p] = hn::Gt(a.part[p], b.part[p]);
  return result;
}

// Folds 16 lanes to 4 by joining lanes i and i+8, then i and i+4: the first levels of the fixed
// tree.
template <class Join>
HWY_INLINE auto fold_to_four(const Vec16& v, const Join& join) {
  if constexpr (kParts == 1) {
    const hn::Half<FloatTag> half;
    const hn::Half<decltype(half)> quarter;
    const auto eight = join(hn::LowerHalf(half, v.part[0]), hn::UpperHalf(half, v.part[0]));
    return join(hn::LowerHalf(quarter, eight), hn::UpperHalf(quarter, eight));
  } else if constexpr (kParts == 2) {
    const hn::Half<FloatTag> half;
    const auto eight = join(v.part[0], v.part[1]);
    return join(hn::LowerHalf(half, eight), hn::UpperHalf(half, eight));
  } else {
    return join(join(v.part[0], v.part[2]), join(v.part[1], v.part[3]));
  }
}

// The sum of the lanes by halving: i with i+8, i+4, i+2, i+1.
HWY_INLINE float sum(const Vec16& v) {
  HWY_ALIGN float four[4];
  hn::Store(fold_to_four(v, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }),
            hn::FixedTag<float, 4>(), four);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
// Exact, so the order does not matter.
HWY_INLINE float max(const Vec16& v) {
  HWY_ALIGN float four[4];
  hn::Store(fold_to_four(v, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); }),
            hn::FixedTag<float, 4>(), four);
  return std::max(std::max(four[0], four[2]), std::max(four[1], four[3]));
}

// e^x, within 1.05 units in the last place (tests/kernels/simd_test.cpp); subnormal results are
// kept, NaN stays NaN. x = n ln2 + r, e^r by polynomial, 2^n in two factors. Coefficients:
// scripts/fit_coefficients.py.
HWY_INLINE Part exp_part(Part x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  // The constants come first: on x86 the second operand is returned for NaN.
  x = hn::Min(hn::Set(d, 89.0f), hn::Max(hn::Set(d, -104.0f), x));
  const Part n = hn::Round(hn::Mul(x, hn::Set(d, 0x1.715476p+0f)));
  Part r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e400p-1f), x);  // ln2, high part: n times it is exact
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);      // ln2, the rest
  Part q = hn::Set(d, 0x1.6db414p-10f);
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.123b46p-7f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.55545ep-5f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.555490p-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.5f));
  const Part e = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
#if HWY_TARGET <= HWY_AVX3
  // One instruction does the rest, rounding once as well: the same bits.
  if constexpr (kParts == 1) return Part{_mm512_scalef_ps(e.raw, n.raw)};
#endif
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const Part first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const Part second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return hn::Mul(hn::Mul(e, first), second);
}
HWY_INLINE Vec16 exp(const Vec16& x) {
  return each([](auto v) HWY_ATTR { return exp_part(v); }, x);
}
HWY_INLINE float exp(float x) { return hn::GetLane(exp_part(hn::Set(FloatTag(), x))); }

// The error function, within 1.25 units in the last place: x + x p(x^2) below 1, 1 - e^g(|x|)
// above.
HWY_INLINE Part erf_part(Part x) {
  const FloatTag d;
  const Part square = hn::Mul(x, x);
  Part p = hn::Set(d, 0x1.4ae4d0p-14f);
  p = hn::MulAdd(p, square, hn::Set(d, -0x1.a485ecp-11f));
  p = hn::MulAdd(p, square, hn::Set(d, 0x1.5419f6p-8f));
  p = hn::MulAdd(p, square, hn::Set(d, -0x1.b7fbb4p-6f));
  p = hn::MulAdd(p, square, hn::Set(d, 0x1.ce2d20p-4f));
  p = hn::MulAdd(p, square, hn::Set(d, -0x1.81273ep-2f));
  p = hn::MulAdd(p, square, hn::Set(d, 0x1.06eba8p-3f));
  const Part small = hn::MulAdd(x, p, x);
  const Part t = hn::Min(hn::Set(d, 4.0f), hn::Abs(x));
  Part g = hn::Set(d, 0x1.057a88p-22f);
  g = hn::MulAdd(g, t, hn::Set(d, -0x1.a6cf38p-16f));
  g = hn::MulAdd(g, t, hn::Set(d, 0x1.e5937cp-12f));
  g = hn::MulAdd(g, t, hn::Set(d, -0x1.187d12p-8f));
  g = hn::MulAdd(g, t, hn::Set(d, 0x1.9fa244p-6f));
  g = hn::MulAdd(g, t, hn::Set(d, -0x1.bcf4cep-4f));
  g = hn::MulAdd(g, t, hn::Set(d, -0x1.441e8ap-1f));
  g = hn::MulAdd(g, t, hn::Set(d, -0x1.21314cp+0f));
  g = hn::MulAdd(g, t, hn::Set(d, 0x1.ab7152p-13f));
  const Part large = hn::CopySign(hn::Sub(hn::Set(d, 1.0f), exp_part(g)), x);
  return hn::IfThenElse(hn::Gt(hn::Set(d, 1.0f), hn::Abs(x)), small, large);
}
HWY_INLINE Vec16 erf(const Vec16& x) {
  return each([](auto v) HWY_ATTR { return erf_part(v); }, x);
}

// 1 / (1 + e^-x).
HWY_INLINE Vec16 sigmoid(const Vec16& x) { return set16(1.0f) / (set16(1.0f) + exp(zero16() - x)); }

// Calls f(load, store) for each 16 elements of a row of `count`, the last ones perhaps fewer.
// load(p) and store(v, p) act on p + offset.
template <class F>
HWY_INLINE void for_each_16(int64_t count, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    f([i](const float* p) HWY_ATTR { return load16(p + i); },
      [i](const Vec16& v, float* p) HWY_ATTR { store16(v, p + i); });
  }
  if (i < count) {
    const int64_t rest = count - i;
    f([i, rest](const float* p) HWY_ATTR { return load16(p + i, rest); },
      [i, rest](const Vec16& v, float* p) HWY_ATTR { store16(v, p + i, rest); });
  }
}

// Runs f(begin, end) over parts of [0, rows), each of about 16k elements of work.
template <class F>
void for_row_blocks(const Parallel& parallel, int64_t rows, int64_t columns, const F& f) {
  constexpr int64_t kWork = 1 << 14;
  const int64_t block = std::max<int64_t>(1, kWork / std::max<int64_t>(1, columns));
  parallel((rows + block - 1) / block,
           [&](int64_t task) { f(task * block, std::min(rows, (task + 1) * block)); });
}

// kWidth floats gathered in groups of four, `stride` apart, the first at `from`.
template <int kWidth>
HWY_INLINE auto load_fours(const float* HWY_RESTRICT from, int64_t stride) {
  if constexpr (kWidth == 4) {
    return hn::LoadU(hn::FixedTag<float, 4>(), from);
  } else {
    return hn::Combine(hn::FixedTag<float, kWidth>(),
                       load_fours<kWidth / 2>(from + kWidth / 8 * stride, stride),
                       load_fours<kWidth / 2>(from, stride));
  }
}

// Transposes 16 rows × 4 columns: to[c * to_step + r] = from[r * stride + c].
HWY_INLINE void transpose_16x4(const float* HWY_RESTRICT from, int64_t stride,
                               float* HWY_RESTRICT to, int64_t to_step) {
  const FloatTag d;
  const hn::Repartition<double, FloatTag> dd;
  for (int p = 0; p < kParts; ++p) {
    // Block b of v[i] holds the four columns of row 4b + i (counted within this part), so
    // transposing 4 × 4 inside each block puts a whole column into one register.
    Part v[4];
    for (int i = 0; i < 4; ++i) {
      v[i] = load_fours<kPartLanes>(from + (p * kPartLanes + i) * stride, 4 * stride);
    }
    const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, v[0], v[1]));
    const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, v[2], v[3]));
    const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, v[0], v[1]));
    const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, v[2], v[3]));
    float* out = to + p * kPartLanes;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, out);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, out + to_step);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, high01, high23)), d, out + 2 * to_step);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23)), d, out + 3 * to_step);
  }
}

// to[c * to_step + r] = from[r * stride + c] for `rows` <= 16 and any `columns`; lanes past `rows`
// become zero.
HWY_INLINE void transpose_16(const float* HWY_RESTRICT from, int64_t stride, int64_t rows,
                             int64_t columns, float* HWY_RESTRICT to, int64_t to_step) {
  // Fewer than 16 rows are first copied to 16, some columns at a time.
  constexpr int64_t kStretch = 64;
  const int64_t in_fours = columns / 4 * 4;
  for (int64_t begin = 0; begin < in_fours; begin += kStretch) {
    const int64_t end = std::min(in_fours, begin + kStretch);
    HWY_ALIGN float whole[kLanes * kStretch];
    const float* rows_from = from + begin;
    int64_t rows_stride = stride;
    if (rows < kLanes) {
      for (int64_t row = 0; row < kLanes; ++row) {
        float* at = whole + row * kStretch;
        if (row < rows) {
          std::copy_n(from + row * stride + begin, end - begin, at);
        } else {
          std::fill_n(at, end - begin, 0.0f);
        }
      }
      rows_from = whole;
      rows_stride = kStretch;
    }
    for (int64_t column = begin; column < end; column += 4) {
      transpose_16x4(rows_from + (column - begin), rows_stride, to + column * to_step, to_step);
    }
  }
  for (int64_t column = in_fours; column < columns; ++column) {
    float* out = to + column * to_step;
    for (int64_t row = 0; row < rows; ++row) out[row] = from[row * stride + column];
    for (int64_t row = rows; row < kLanes; ++row) out[row] = 0.0f;
  }
}

}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
