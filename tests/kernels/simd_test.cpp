// The vector functions of simd-inl.h, which no kernel exports: this file is compiled once per
// instruction set, like a kernel.
#include <cmath>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd_test.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

void ExpOf(const float* x, int64_t count, float* y) {
  for_each_16(count, [&](const auto& load, const auto& store) HWY_ATTR { store(exp(load(x)), y); });
}
void ExpOneByOne(const float* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = exp(x[i]);
}
void ErfOf(const float* x, int64_t count, float* y) {
  for_each_16(count, [&](const auto& load, const auto& store) HWY_ATTR { store(erf(load(x)), y); });
}
void SigmoidOf(const float* x, int64_t count, float* y) {
  for_each_16(count,
              [&](const auto& load, const auto& store) HWY_ATTR { store(sigmoid(load(x)), y); });
}
// Sum and largest of each 16.
void FoldOf(const float* x, int64_t count, float* sums, float* largest) {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = sum(load16(x + i * kLanes));
    largest[i] = max(load16(x + i * kLanes));
  }
}
// 1 where the lane is in [lo, hi), else -1.
void LanesOf(int64_t lo, int64_t hi, float* y) {
  store16(select(lanes(lo, hi), set16(1.0f), set16(-1.0f)), y);
}
void CopyOf(const float* x, int64_t count, float* y) { store16(load16(x, count), y, count); }
void LoadOf(const float* x, int64_t count, float* y) { store16(load16(x, count), y); }
void TransposeOf(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                 int64_t to_step) {
  transpose_16(from, stride, rows, columns, to, to_step);
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/kernel_support.h"
#include "tril/base/math.h"
#include "tril/kernels/activation.h"
#include "tril/kernels/cross_entropy.h"

namespace tril::kernels {

HWY_EXPORT(ExpOf);
HWY_EXPORT(ExpOneByOne);
HWY_EXPORT(ErfOf);
HWY_EXPORT(SigmoidOf);
HWY_EXPORT(FoldOf);
HWY_EXPORT(LanesOf);
HWY_EXPORT(CopyOf);
HWY_EXPORT(LoadOf);
HWY_EXPORT(TransposeOf);

namespace {

using testing::Guarded;
using testing::random_floats;
using testing::same_bits;
using testing::same_float;

std::vector<float> exp_of(std::span<const float> x) {
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(ExpOf)(x.data(), static_cast<int64_t>(x.size()), y.data());
  return y;
}
std::vector<float> erf_of(std::span<const float> x) {
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(ErfOf)(x.data(), static_cast<int64_t>(x.size()), y.data());
  return y;
}
float exp_of(float x) { return exp_of(std::span<const float>(&x, 1))[0]; }
float erf_of(float x) { return erf_of(std::span<const float>(&x, 1))[0]; }

// The distance between the floats around a value; that of the subnormals at the bottom.
double unit_in_last_place(double value) {
  return std::ldexp(1.0, std::max(std::ilogb(value) - 23, -149));
}

struct Worst {
  double error = 0.0;  // in units in the last place
  float at = 0.0f;
};

// f against libm in double over every `stride`-th float of [from, to], both of one sign and
// |from| <= |to|. A stride that is prime visits every pattern of last bits.
template <class F, class Exact>
Worst worst_error(const F& f, const Exact& exact, float from, float to, uint32_t stride) {
  Worst worst;
  std::vector<float> x;
  const auto flush = [&] {
    const std::vector<float> y = f(std::span<const float>(x));
    for (size_t i = 0; i < x.size(); ++i) {
      const double right = exact(static_cast<double>(x[i]));
      const double error = std::fabs(static_cast<double>(y[i]) - right) / unit_in_last_place(right);
      if (!(error <= worst.error)) worst = {error, x[i]};
    }
    x.clear();
  };
  for (uint64_t bits = std::bit_cast<uint32_t>(from); bits <= std::bit_cast<uint32_t>(to);
       bits += stride) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    if (x.size() == 4096) flush();
  }
  flush();
  return worst;
}

constexpr auto kExp = [](std::span<const float> x) { return exp_of(x); };
constexpr auto kErf = [](std::span<const float> x) { return erf_of(x); };
constexpr uint32_t kStride = 101;

TEST(Exp, IsWithinItsBound) {
  const auto exact = [](double x) { return std::exp(x); };
  // Up to the largest whose result is finite, down to results of half the smallest subnormal.
  for (const auto& [from, to] : {std::pair{0.0f, 0x1.62e42ep+6f}, std::pair{-0.0f, -103.97f}}) {
    const Worst worst = worst_error(kExp, exact, from, to, kStride);
    EXPECT_LE(worst.error, testing::kExpUnits) << "at " << worst.at;
    EXPECT_GE(worst.error, 0.5) << "no rounding is better than half a unit: nothing was measured";
    RecordProperty(from < to ? "positive" : "negative", std::to_string(worst.error));
  }
}

TEST(Exp, HasExactEnds) {
  EXPECT_TRUE(same_float(exp_of(0.0f), 1.0f));
  EXPECT_TRUE(same_float(exp_of(-0.0f), 1.0f));
  EXPECT_TRUE(same_float(exp_of(-INFINITY), 0.0f));
  EXPECT_TRUE(same_float(exp_of(-1000.0f), 0.0f));
  EXPECT_TRUE(same_float(exp_of(-104.0f), 0.0f));
  EXPECT_EQ(exp_of(INFINITY), INFINITY);
  EXPECT_EQ(exp_of(0x1.62e430p+6f), INFINITY);  // the first whose result overflows
  EXPECT_LT(exp_of(0x1.62e42ep+6f), INFINITY);
  EXPECT_TRUE(std::isnan(exp_of(NAN)));
}

TEST(Exp, KeepsSubnormals) {
  EXPECT_TRUE(same_float(exp_of(-103.0f), 0x1p-149f));
  const float y = exp_of(-95.0f);
  EXPECT_GT(y, 0.0f);
  EXPECT_LT(y, 0x1p-126f);
}

TEST(Exp, ScalarAndVectorFormAgree) {
  Random random(1);
  std::vector<float> x = random_floats(random, 1001);
  for (float& value : x) value *= 110.0f;
  EXPECT_TRUE(testing::same_everywhere([&](const Parallel&) {
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(ExpOneByOne)(x.data(), static_cast<int64_t>(x.size()), y.data());
    EXPECT_TRUE(same_bits(y, exp_of(x)));
    return y;
  }));
}

TEST(Erf, IsWithinItsBound) {
  const auto exact = [](double x) { return std::erf(x); };
  for (const auto& [from, to] : {std::pair{0x1p-149f, 6.0f}, std::pair{-0x1p-149f, -6.0f}}) {
    const Worst worst = worst_error(kErf, exact, from, to, kStride);
    EXPECT_LE(worst.error, testing::kErfUnits) << "at " << worst.at;
    EXPECT_GE(worst.error, 0.5) << "no rounding is better than half a unit: nothing was measured";
    RecordProperty(from < to ? "positive" : "negative", std::to_string(worst.error));
  }
}

TEST(Erf, HasExactEndsAndIsOdd) {
  EXPECT_TRUE(same_float(erf_of(0.0f), 0.0f));
  EXPECT_TRUE(same_float(erf_of(-0.0f), -0.0f));
  EXPECT_EQ(erf_of(4.0f), 1.0f);
  EXPECT_EQ(erf_of(INFINITY), 1.0f);
  EXPECT_EQ(erf_of(-INFINITY), -1.0f);
  EXPECT_TRUE(std::isnan(erf_of(NAN)));
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const float x = random.uniform(-5.0f, 5.0f);
    EXPECT_TRUE(same_float(erf_of(-x), -erf_of(x)));
  }
}

struct Golden {
  float x;
  uint32_t bits;
};

TEST(Exp, HasGoldenBits) {
  const Golden golden[] = {
      {-103.0f, 0x00000001u}, {-95.0f, 0x00000f64u},         {-87.0f, 0x00b33687u},
      {-20.5f, 0x30abd1d8u},  {-5.0f, 0x3bdcc9ffu},          {-1.0f, 0x3ebc5ab2u},
      {-0.1f, 0x3f67a36du},   {0x1p-12f, 0x3f800800u},       {0.5f, 0x3fd3094cu},
      {1.0f, 0x402df854u},    {0x1.62e430p-1f, 0x40000000u}, {10.0f, 0x46ac14eeu},
      {50.0f, 0x638c881fu},   {88.5f, 0x7f4cdcc4u},
  };
  for (const Golden& g : golden) EXPECT_EQ(std::bit_cast<uint32_t>(exp_of(g.x)), g.bits) << g.x;
}

TEST(Erf, HasGoldenBits) {
  const Golden golden[] = {
      {-3.5f, 0xbf7ffff4u},          {-1.5f, 0xbf7752abu},      {-1.0f, 0xbf57bb3eu},
      {-0.9f, 0xbf4c022du},          {-0x1p-140f, 0x80000242u}, {0x1p-20f, 0x35906ebau},
      {0.1f, 0x3de652f5u},           {0.5f, 0x3f053f7bu},       {0.75f, 0x3f360e4cu},
      {0x1.fffffep-1f, 0x3f57bb3du}, {1.0f, 0x3f57bb3eu},       {1.25f, 0x3f6c432fu},
      {2.0f, 0x3f7ecd71u},           {2.75f, 0x3f7ff968u},      {3.9f, 0x3f7fffffu},
  };
  for (const Golden& g : golden) EXPECT_EQ(std::bit_cast<uint32_t>(erf_of(g.x)), g.bits) << g.x;
}

// Over all exponents, NaN and infinities included.
TEST(VectorFunctions, HaveTheSameBitsOnEveryTarget) {
  Random random(3);
  std::vector<float> x;
  for (int i = 0; i < 20000; ++i) x.push_back(std::bit_cast<float>(random.bits()));
  for (int i = 0; i < 20000; ++i) x.push_back(random.uniform(-110.0f, 95.0f));
  for (int i = 0; i < 20000; ++i) x.push_back(random.uniform(-5.0f, 5.0f));
  const auto size = static_cast<int64_t>(x.size());
  EXPECT_TRUE(testing::same_everywhere([&](const Parallel&) { return exp_of(x); }));
  EXPECT_TRUE(testing::same_everywhere([&](const Parallel&) { return erf_of(x); }));
  EXPECT_TRUE(testing::same_everywhere([&](const Parallel&) {
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(SigmoidOf)(x.data(), size, y.data());
    return y;
  }));
}

RC_GTEST_PROP(Lanes, FoldByHalving, ()) {
  Random random = testing::seeded();
  const auto count = *rc::gen::inRange<int64_t>(0, 20);
  const std::vector<float> x = random_floats(random, 16 * count);
  std::vector<float> expected;
  for (int64_t i = 0; i < count; ++i) {
    const auto sixteen = std::span<const float>(x).subspan(16 * i, 16);
    expected.push_back(testing::lane_sum(sixteen));
    expected.push_back(*std::max_element(sixteen.begin(), sixteen.end()));
  }
  TRIL_HOLDS(testing::same_everywhere([&](const Parallel&) {
    std::vector<float> sums(count), largest(count), joined;
    HWY_DYNAMIC_DISPATCH(FoldOf)(x.data(), count, sums.data(), largest.data());
    for (int64_t i = 0; i < count; ++i) joined.insert(joined.end(), {sums[i], largest[i]});
    EXPECT_TRUE(same_bits(joined, expected));
    return joined;
  }));
}

TEST(Lanes, MasksAndPartialLoadsTouchNothingElse) {
  std::vector<float> x(16);
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i + 1);
  for (int64_t lo = -2; lo <= 18; ++lo) {
    for (int64_t hi = -2; hi <= 18; ++hi) {
      std::vector<float> expected;
      for (int64_t i = 0; i < 16; ++i) expected.push_back(i >= lo && i < hi ? 1.0f : -1.0f);
      EXPECT_TRUE(testing::same_everywhere([&](const Parallel&) {
        std::vector<float> y(16);
        HWY_DYNAMIC_DISPATCH(LanesOf)(lo, hi, y.data());
        EXPECT_TRUE(same_bits(y, expected)) << lo << " to " << hi;
        return y;
      }));
    }
  }
  for (int64_t count = 0; count <= 16; ++count) {
    // Exactly as long as the count, so that a sanitizer sees a read beyond it.
    const std::vector<float> some(x.begin(), x.begin() + count);
    std::vector<float> padded = some;
    padded.resize(16);
    EXPECT_TRUE(testing::same_everywhere([&](const Parallel&) {
      Guarded copy(count);
      HWY_DYNAMIC_DISPATCH(CopyOf)(some.data(), count, copy.data());
      EXPECT_TRUE(same_bits(copy.take(), some));
      std::vector<float> y(16, -1.0f);
      HWY_DYNAMIC_DISPATCH(LoadOf)(some.data(), count, y.data());
      EXPECT_TRUE(same_bits(y, padded));
      return y;
    }));
  }
}

RC_GTEST_PROP(Transpose16, SwapsAndFillsWithZero, ()) {
  Random random = testing::seeded();
  const auto rows = *rc::gen::weightedOneOf<int64_t>(
      {{1, rc::gen::just<int64_t>(16)}, {1, rc::gen::inRange<int64_t>(0, 17)}});
  const auto columns = *rc::gen::inRange<int64_t>(0, 40);
  const auto stride = columns + *rc::gen::inRange<int64_t>(0, 5);
  const auto step = 16 + *rc::gen::inRange<int64_t>(0, 5);
  const std::vector<float> from = random_floats(random, rows * stride);
  std::vector<float> expected(columns * step, 7.0f);
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < 16; ++row) {
      expected[column * step + row] = row < rows ? from[row * stride + column] : 0.0f;
    }
  }
  TRIL_HOLDS(testing::same_everywhere([&](const Parallel&) {
    std::vector<float> to(columns * step, 7.0f);  // the gaps between the columns stay
    HWY_DYNAMIC_DISPATCH(TransposeOf)(from.data(), stride, rows, columns, to.data(), step);
    EXPECT_TRUE(same_bits(to, expected));
    return to;
  }));
}

// With the vector exp at hand, the normaliser of kernels/cross_entropy.h in its contract's order.
RC_GTEST_PROP(SoftmaxNormaliser, FollowsItsOrderBitForBit, ()) {
  Random random = testing::seeded();
  const auto vocab = *rc::gen::inRange<int64_t>(1, 300);
  std::vector<float> x = random_floats(random, vocab);
  for (float& value : x) value *= 20.0f;
  const float top = *std::max_element(x.begin(), x.end());
  std::vector<float> e = x;
  for (float& value : e) value = value - top;
  e = exp_of(e);
  const float expected =
      top + static_cast<float>(math::log(static_cast<double>(testing::lane_sum(e))));
  float norm = NAN;
  softmax_normalisers(Parallel(1), x.data(), 1, vocab, &norm);
  RC_ASSERT(same_float(norm, expected));
}

struct ValueAndSlope {
  float value, slope;
};

// The order of kernels/activation.h, one scalar operation at a time.
ValueAndSlope activation_in_order(Activation kind, float x) {
  switch (kind) {
    case Activation::relu: return {x < 0.0f ? 0.0f : x, x > 0.0f ? 1.0f : 0.0f};
    case Activation::gelu: {
      const float c = std::fma(erf_of(x * 0x1.6a09e6p-1f), 0.5f, 0.5f);
      const float d = exp_of((x * x) * -0.5f) * 0x1.988454p-2f;
      return {x * c, std::fma(x, d, c)};
    }
    case Activation::silu: {
      const float s = 1.0f / (1.0f + exp_of(0.0f - x));
      return {x * s, s * std::fma(x, 1.0f - s, 1.0f)};
    }
    case Activation::gelu_tanh: break;
  }
  const float q = std::min(x * x, 1024.0f);
  const float z = x * std::fma(q, 0x1.2444f2p-4f, 0x1.988454p+0f);
  const float e = exp_of(0.0f - std::fabs(z));
  const float more = 1.0f / (1.0f + e);
  const float less = e * more;
  const float s = z < 0.0f ? less : more;
  return {x * s, std::fma(x * std::fma(q, 0x1.b6676cp-3f, 0x1.988454p+0f), less * more, s)};
}

RC_GTEST_PROP(ActivationKernels, FollowTheirOrderBitForBit, ()) {
  Random random = testing::seeded();
  const auto size = *rc::gen::inRange<int64_t>(1, 100);
  const auto range = *rc::gen::element(1.0f, 8.0f, 50.0f);
  std::vector<float> x = random_floats(random, size);
  for (float& value : x) value *= range;
  const std::vector<float> other = random_floats(random, size);
  const std::vector<float> dy = random_floats(random, size);
  for (size_t kind = 0; kind < std::size(Words<Activation>::kList); ++kind) {
    const auto of = static_cast<Activation>(kind);
    std::vector<float> y, dx, gated, dgate, dother;
    for (int64_t i = 0; i < size; ++i) {
      const auto [value, slope] = activation_in_order(of, x[i]);
      y.push_back(value);
      dx.push_back(dy[i] * slope);
      gated.push_back(value * other[i]);
      dgate.push_back((dy[i] * other[i]) * slope);
      dother.push_back(dy[i] * value);
    }
    std::vector<float> a(size), b(size);
    activation_forward(Parallel(1), of, size, x.data(), a.data());
    RC_ASSERT(same_bits(a, y));
    activation_backward(Parallel(1), of, size, x.data(), dy.data(), a.data());
    RC_ASSERT(same_bits(a, dx));
    gated_forward(Parallel(1), of, size, x.data(), other.data(), a.data());
    RC_ASSERT(same_bits(a, gated));
    gated_backward(Parallel(1), of, size, x.data(), other.data(), dy.data(), a.data(), b.data());
    RC_ASSERT(same_bits(a, dgate));
    RC_ASSERT(same_bits(b, dother));
  }
}

}  // namespace
}  // namespace tril::kernels
#endif
