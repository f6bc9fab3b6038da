#include "tril/kernels/gemm_bf16_dot.h"

#include "kernels/kernel_support.h"

namespace tril::gemm_bf16_dot_test {
namespace {

using testing::gamma;
using testing::Guarded;
using testing::random_floats;
using testing::rows_of;
using testing::same_bits;

struct Product {
  int64_t m = 0, n = 0, k = 0;
  std::vector<float> a, weight, bias;  // [m, k], [n, k], [n] or empty

  Product(Random& random, int64_t rows, int64_t columns, int64_t terms)
      : m(rows), n(columns), k(terms) {
    a = random_floats(random, m * k);
    weight = random_floats(random, n * k);
    bias = random_floats(random, n);
  }
};

std::vector<BFloat16> pack(const Product& p) {
  std::vector<BFloat16> panels(kernels::bf16_pair_panel_size(p.k, p.n), {0x7fc0});
  kernels::pack_bf16_pairs(Parallel(2), p.weight.data(), p.n, p.k, panels.data());
  return panels;
}

std::vector<float> run(const Parallel& parallel, const Product& p) {
  const std::vector<BFloat16> panels = pack(p);
  std::vector<BFloat16> rows(p.m * kernels::bf16_padded(p.k), {0x7fc0});
  kernels::round_rows(parallel, p.a.data(), p.m, p.k, rows.data());
  Guarded c(p.m * p.n);
  const kernels::GemmBf16Dot product{.m = p.m,
                                     .n = p.n,
                                     .k = p.k,
                                     .a = rows.data(),
                                     .panels = panels.data(),
                                     .bias = p.bias.empty() ? nullptr : p.bias.data(),
                                     .c = c.data()};
  kernels::gemm_bf16_dot(parallel, {&product, 1});
  return c.take();
}

class GemmBf16Dot : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::has_bf16_dot()) GTEST_SKIP() << "this processor has no bf16 dot products";
  }
};

// Products of two bf16 numbers are exact in fp32, so a sum of k of them, in whatever order and with
// or without rounding between the two of a pair, is within gamma(k); the bias is one more.
TEST_F(GemmBf16Dot, IsWithinTheRoundingsOfTheSumOfRoundedOperands) {
  Random random(1);
  for (const Product& p :
       {Product(random, 1, 1, 1), Product(random, 5, 70, 40), Product(random, 13, 149, 67),
        Product(random, 6, 64, 513), Product(random, 50, 130, 8)}) {
    const std::vector<float> got = run(Parallel(2), p);
    std::vector<double> expected;
    std::vector<double> bound;
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        double sum = p.bias[column];
        double magnitude = std::fabs(sum);
        for (int64_t i = 0; i < p.k; ++i) {
          const double term = static_cast<double>(to_f32(to_bf16(p.a[row * p.k + i]))) *
                              static_cast<double>(to_f32(to_bf16(p.weight[column * p.k + i])));
          sum += term;
          magnitude += std::fabs(term);
        }
        expected.push_back(sum);
        bound.push_back(gamma(p.k + 1) * magnitude);
      }
    }
    EXPECT_TRUE(testing::within(got, expected, bound)) << p.m << " " << p.n << " " << p.k;
  }
}

TEST_F(GemmBf16Dot, ARowDependsOnNeitherCompanyNorThreads) {
  Random random(2);
  for (const Product& p : {Product(random, 131, 149, 67), Product(random, 14, 700, 600)}) {
    const std::vector<float> all = run(Parallel(1), p);
    for (const int threads : {2, 5}) EXPECT_TRUE(same_bits(run(Parallel(threads), p), all));
    for (const int64_t row : {int64_t{0}, int64_t{5}, int64_t{6}, p.m - 1}) {
      Product alone = p;
      alone.m = 1;
      alone.a = rows_of(p.a, p.k, row, 1);
      EXPECT_TRUE(same_bits(run(Parallel(2), alone), rows_of(all, p.n, row, 1)));
    }
  }
}

TEST_F(GemmBf16Dot, WithoutTermsIsTheBiasOrZero) {
  Random random(3);
  Product p(random, 8, 70, 0);
  const std::vector<float> c = run(Parallel(2), p);
  for (int64_t row = 0; row < p.m; ++row) {
    EXPECT_TRUE(same_bits(rows_of(c, p.n, row, 1), p.bias));
  }
  p.bias.clear();
  EXPECT_TRUE(same_bits(run(Parallel(2), p), std::vector<float>(p.m * p.n)));
}

TEST_F(GemmBf16Dot, NanStaysInItsRowAndColumn) {
  Random random(4);
  Product p(random, 14, 70, 33);
  const std::vector<float> clean = run(Parallel(1), p);
  p.a[7 * p.k + 32] = NAN;
  p.weight[69 * p.k + 5] = NAN;
  const std::vector<float> c = run(Parallel(1), p);
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      const float value = c[row * p.n + column];
      if (row == 7 || column == 69) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_TRUE(testing::same_float(value, clean[row * p.n + column]));
      }
    }
  }
}

// Packing needs no such processor.
TEST(Bf16Pairs, GiveTheRowsBack) {
  Random random(5);
  for (const Product& p : {Product(random, 1, 130, 67), Product(random, 1, 64, 8)}) {
    const std::vector<BFloat16> panels = pack(p);
    std::vector<float> row(p.k);
    for (int64_t n = 0; n < p.n; ++n) {
      kernels::unpack_bf16_row(panels.data(), p.k, n, row.data());
      for (int64_t i = 0; i < p.k; ++i) {
        EXPECT_EQ(row[i], to_f32(to_bf16(p.weight[n * p.k + i])));
      }
    }
    // The padding is zero, because it is multiplied too.
    EXPECT_EQ(panels.back().bits, p.n % 64 == 0 ? to_bf16(p.weight.back()).bits : 0);
  }
}

}  // namespace
}  // namespace tril::gemm_bf16_dot_test
