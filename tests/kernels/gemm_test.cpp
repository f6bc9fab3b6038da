#include "tril/kernels/gemm.h"

#include "kernels/gradient_check.h"
#include "kernels/kernel_support.h"
#include "tril/kernels/reference/linear.h"

namespace tril::gemm_test {
namespace {

using kernels::Gemm;
using kernels::kPanelColumns;
using kernels::kTokenSlice;
using testing::gamma;
using testing::Guarded;
using testing::kUnit;
using testing::random_floats;
using testing::rows_of;
using testing::same_bits;

// Linear layers are tested on every device in linear_test.cpp.
constexpr const char* kOnCpu = "packed panels are the CPU's";

struct Product {
  int64_t m = 0, n = 0, k = 0;
  std::vector<float> a, b, bias;  // [m, k], [k, n], [n] or empty
  kernels::Summation summation = kernels::Summation::one_chain;
  bool a_transposed = false;  // a is [k, m]

  Product(Random& random, int64_t rows, int64_t columns, int64_t terms)
      : m(rows), n(columns), k(terms) {
    a = random_floats(random, m * k);
    b = random_floats(random, k * n);
    bias = random_floats(random, n);
  }
};

std::vector<float> run(const Parallel& parallel, const Product& p) {
  Guarded panels(kernels::panel_size(p.k, p.n));
  kernels::pack_panels(parallel, p.b.data(), p.k, p.n, panels.data());
  const std::vector<float> packed = panels.take();
  Guarded c(p.m * p.n);
  kernels::gemm(parallel, {.m = p.m,
                           .n = p.n,
                           .k = p.k,
                           .a = p.a.data(),
                           .panels = packed.data(),
                           .bias = p.bias.empty() ? nullptr : p.bias.data(),
                           .c = c.data(),
                           .summation = p.summation,
                           .a_transposed = p.a_transposed});
  return c.take();
}

// The order the contract promises, one scalar std::fma at a time.
std::vector<float> scalar_chains(const Product& p) {
  std::vector<float> c;
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      float total = 0.0f;
      float chain = 0.0f;
      bool first = true;
      const auto merge = [&] {
        total = first ? chain : total + chain;
        chain = 0.0f;
        first = false;
      };
      for (int64_t i = 0; i < p.k; ++i) {
        if (p.summation == kernels::Summation::token_slices && i > 0 && i % kTokenSlice == 0) {
          merge();
        }
        chain = std::fma(p.a[row * p.k + i], p.b[i * p.n + column], chain);
      }
      merge();
      if (!p.bias.empty()) {
        total += p.bias[column];
      } else if (p.summation == kernels::Summation::token_slices) {
        total += 0.0f;
      }
      c.push_back(total);
    }
  }
  return c;
}

Product any_product(Random& random) {
  Product p(random, *rc::gen::inRange<int64_t>(0, 60), *rc::gen::inRange<int64_t>(0, 150),
            *rc::gen::inRange<int64_t>(0, 150));
  if (*rc::gen::arbitrary<bool>()) p.bias.clear();
  return p;
}

RC_GTEST_PROP(GemmReference, GradientsAreThoseOfFiniteDifferences, ()) {
  Random random = testing::seeded();
  const reference::LinearSizes n{*rc::gen::inRange<int64_t>(0, 6), *rc::gen::inRange<int64_t>(0, 7),
                                 *rc::gen::inRange<int64_t>(1, 6)};
  const auto numbers = [&](int64_t count) {
    return testing::doubles_of(random_floats(random, count));
  };
  const std::vector<double> x = numbers(n.rows * n.in);
  const std::vector<double> w = numbers(n.out * n.in);
  const std::vector<double> b = numbers(n.out);
  const std::vector<double> dy = numbers(n.rows * n.out);
  const auto g = reference::linear_gradients<double>(n, x, w, dy);
  // Inputs are below 1, so no partial sum exceeds in + 1.
  const double noise = testing::rounding_noise(dy, static_cast<double>(n.in + 1), 2 * n.in + 1);
  const auto loss = [&](const std::vector<double>& x_at, const std::vector<double>& w_at,
                        const std::vector<double>& b_at) {
    return testing::weighted_sum(reference::linear<double>(n, x_at, w_at, b_at), dy);
  };
  TRIL_HOLDS(
      testing::gradient_matches([&](const auto& at) { return loss(at, w, b); }, x, g.dx, noise));
  TRIL_HOLDS(testing::gradient_matches([&](const auto& at) { return loss(x, at, b); }, w, g.dweight,
                                       noise));
  TRIL_HOLDS(
      testing::gradient_matches([&](const auto& at) { return loss(x, w, at); }, b, g.dbias, noise));
}

// A chain of k fused multiply-adds is off by at most gamma_k times the sum of |a b|; the bias adds
// one more rounding, of the result.
RC_GTEST_PROP(Gemm, IsTheReferenceWithinRounding, ()) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random = testing::seeded();
  const Product p = any_product(random);
  const reference::LinearSizes sizes{p.m, p.k, p.n};
  std::vector<double> weight(p.n * p.k), magnitude_of_weight(p.n * p.k);
  for (int64_t i = 0; i < p.k; ++i) {
    for (int64_t column = 0; column < p.n; ++column) {
      const double value = static_cast<double>(p.b[i * p.n + column]);
      weight[column * p.k + i] = value;
      magnitude_of_weight[column * p.k + i] = std::fabs(value);
    }
  }
  std::vector<double> a = testing::doubles_of(p.a);
  const std::vector<double> expected =
      reference::linear<double>(sizes, a, weight, testing::doubles_of(p.bias));
  for (double& value : a) value = std::fabs(value);
  std::vector<double> bound = reference::linear<double>(sizes, a, magnitude_of_weight);
  for (size_t i = 0; i < bound.size(); ++i) {
    const double sum_bound = gamma(p.k) * bound[i];
    bound[i] = sum_bound + kUnit * (std::fabs(expected[i]) + sum_bound);
  }
  TRIL_HOLDS(testing::within(run(Parallel(2), p), expected, bound));
}

RC_GTEST_PROP(Gemm, IsOneAscendingChain, ()) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random = testing::seeded();
  const Product p = any_product(random);
  TRIL_HOLDS(same_bits(run(Parallel(2), p), scalar_chains(p)));
}

// Past one stretch of 512 terms the chain continues where it stopped; with slices it restarts and
// the parts are added.
TEST(Gemm, LongChainsContinueAndSlicesMerge) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(1);
  for (const int64_t k : {511, 512, 513, 1024, 1025, 1700}) {
    Product p(random, 7, 19, k);
    EXPECT_TRUE(same_bits(run(Parallel(2), p), scalar_chains(p))) << "k = " << k;
    const std::vector<float> whole = run(Parallel(1), p);
    p.summation = kernels::Summation::token_slices;
    EXPECT_TRUE(same_bits(run(Parallel(2), p), scalar_chains(p))) << "sliced, k = " << k;
    // Past one slice that is another order: were it not, this test could not see slices missing.
    EXPECT_EQ(testing::equal_bits(whole, scalar_chains(p)), k <= kTokenSlice);
    p.bias.clear();
    EXPECT_TRUE(same_bits(run(Parallel(2), p), scalar_chains(p))) << "no bias, k = " << k;
  }
}

// A product that underflows keeps its sign, but a sum over tokens must not: otherwise the same
// token among others, whose terms are zero, would have a different gradient.
TEST(Gemm, ASumOverTokensIsNeverMinusZero) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(3);
  for (const int64_t k : {1, 5, 512, 700}) {
    Product p(random, 7, 70, k);
    p.bias.clear();
    p.a.assign(p.a.size(), -1e-30f);
    p.b.assign(p.b.size(), 1e-30f);
    EXPECT_TRUE(same_bits(run(Parallel(1), p), std::vector<float>(7 * 70, -0.0f))) << "k = " << k;
    p.summation = kernels::Summation::token_slices;
    EXPECT_TRUE(same_bits(run(Parallel(1), p), std::vector<float>(7 * 70, 0.0f))) << "k = " << k;
  }
}

// Tiles have up to 6 rows and tasks 48; columns come in 16s and 64s.
TEST(Gemm, EveryNumberOfRowsGivesARowTheSameBits) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(2);
  const int64_t k = 37;
  for (const int64_t n : {1, 15, 16, 17, 47, 63, 64, 65, 130}) {
    const Product all(random, 50, n, k);
    const std::vector<float> expected = scalar_chains(all);
    for (int64_t rows = 1; rows <= 20; ++rows) {
      for (const int64_t first : {int64_t{0}, int64_t{1}, int64_t{23}, 50 - rows}) {
        Product part = all;
        part.m = rows;
        part.a = rows_of(all.a, k, first, rows);
        ASSERT_TRUE(same_bits(run(Parallel(1), part), rows_of(expected, n, first, rows)))
            << rows << " rows from " << first << ", " << n << " columns";
      }
    }
    EXPECT_TRUE(same_bits(run(Parallel(2), all), expected));
  }
}

// Above and below the size at which threads are woken.
TEST(Gemm, ThreadsAndTargetsChangeNothing) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(3);
  for (Product p : {Product(random, 5, 70, 40), Product(random, 131, 149, 67),
                    Product(random, 1, 700, 600), Product(random, 100, 130, 1030)}) {
    EXPECT_TRUE(
        testing::same_everywhere([&](const Parallel& parallel) { return run(parallel, p); }));
    p.summation = kernels::Summation::token_slices;
    EXPECT_TRUE(
        testing::same_everywhere([&](const Parallel& parallel) { return run(parallel, p); }));
  }
}

// bf16 is storage: the product is that of the rounded weights, in every bit.
TEST(Gemm, PanelsOfBFloat16AreTheSameChains) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(8);
  for (Product p : {Product(random, 5, 70, 40), Product(random, 131, 149, 67),
                    Product(random, 1, 700, 600), Product(random, 7, 64, 1030)}) {
    std::vector<float> panels(kernels::panel_size(p.k, p.n));
    kernels::pack_panels(Parallel(1), p.b.data(), p.k, p.n, panels.data());
    std::vector<BFloat16> rounded(panels.size());
    kernels::round_panels(Parallel(2), panels.data(), std::ssize(panels), rounded.data());
    const auto product = [&](const Parallel& parallel) {
      Guarded c(p.m * p.n);
      kernels::gemm(parallel, kernels::GemmOf<BFloat16>{.m = p.m,
                                                        .n = p.n,
                                                        .k = p.k,
                                                        .a = p.a.data(),
                                                        .panels = rounded.data(),
                                                        .bias = p.bias.data(),
                                                        .c = c.data()});
      return c.take();
    };
    EXPECT_TRUE(testing::same_everywhere(product));
    for (float& weight : p.b) weight = to_f32(to_bf16(weight));
    EXPECT_TRUE(same_bits(product(Parallel(1)), scalar_chains(p)));
    std::vector<float> column(p.k);
    kernels::unpack_column(rounded.data(), p.k, p.n - 1, column.data());
    for (int64_t i = 0; i < p.k; ++i) EXPECT_EQ(column[i], p.b[i * p.n + p.n - 1]);
  }
}

TEST(Gemm, SeveralProductsInOneGoAreTheSameAsOneByOne) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(10);
  const std::vector<Product> products = {Product(random, 100, 130, 67), Product(random, 100, 0, 67),
                                         Product(random, 100, 64, 600)};
  for (const int threads : {1, 2, 5}) {
    std::vector<std::vector<float>> panels;
    std::vector<Guarded> results;
    std::vector<Gemm> together;
    for (const Product& p : products) {
      panels.emplace_back(kernels::panel_size(p.k, p.n));
      kernels::pack_panels(Parallel(1), p.b.data(), p.k, p.n, panels.back().data());
      results.emplace_back(p.m * p.n);
    }
    for (size_t i = 0; i < products.size(); ++i) {
      const Product& p = products[i];
      together.push_back({.m = p.m,
                          .n = p.n,
                          .k = p.k,
                          .a = p.a.data(),
                          .panels = panels[i].data(),
                          .bias = p.bias.data(),
                          .c = results[i].data()});
    }
    kernels::gemm(Parallel(threads), together);
    for (size_t i = 0; i < products.size(); ++i) {
      EXPECT_TRUE(same_bits(results[i].take(), run(Parallel(1), products[i])));
    }
  }
}

TEST(Gemm, ReadsALeftOperandDownItsColumns) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(9);
  for (Product p :
       {Product(random, 5, 70, 40), Product(random, 131, 149, 67), Product(random, 17, 64, 1030)}) {
    for (const auto summation : {kernels::Summation::one_chain, kernels::Summation::token_slices}) {
      p.summation = summation;
      const std::vector<float> expected = run(Parallel(1), p);
      Product q = p;
      q.a_transposed = true;
      kernels::transpose(Parallel(1), p.a.data(), p.m, p.k, q.a.data());
      EXPECT_TRUE(same_bits(run(Parallel(1), q), expected));
      EXPECT_TRUE(
          testing::same_everywhere([&](const Parallel& parallel) { return run(parallel, q); }));
    }
  }
}

TEST(Gemm, WithoutTermsIsTheBiasOrZero) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(4);
  Product p(random, 8, 70, 0);
  for (const auto summation : {kernels::Summation::one_chain, kernels::Summation::token_slices}) {
    p.summation = summation;
    const std::vector<float> c = run(Parallel(2), p);
    for (int64_t row = 0; row < p.m; ++row) {
      EXPECT_TRUE(same_bits(rows_of(c, p.n, row, 1), p.bias));
    }
  }
  p.bias.clear();
  EXPECT_TRUE(same_bits(run(Parallel(2), p), std::vector<float>(p.m * p.n)));
}

TEST(Gemm, NanStaysInItsRowAndColumn) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(5);
  Product p(random, 14, 70, 33);
  const std::vector<float> clean = run(Parallel(1), p);
  p.a[7 * p.k + 32] = NAN;
  p.b[5 * p.n + 69] = NAN;
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

TEST(Gemm, KeepsSubnormals) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(6);
  Product p(random, 1, 1, 1);
  p.a = {0x1p-100f};
  p.b = {0x1p-45f};
  p.bias.clear();
  EXPECT_TRUE(testing::same_float(run(Parallel(1), p)[0], 0x1p-145f));
}

// panels[p][k][64], columns past n zero; the same from b and from its transpose.
RC_GTEST_PROP(Panels, HoldTheColumnsBothWays, ()) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random = testing::seeded();
  const auto k = *rc::gen::inRange<int64_t>(0, 80);
  const auto n = *rc::gen::inRange<int64_t>(0, 150);
  const std::vector<float> b = random_floats(random, k * n);
  std::vector<float> expected(kernels::panel_size(k, n));
  std::vector<float> transposed(k * n);
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t column = 0; column < n; ++column) {
      const float value = b[i * n + column];
      expected[(column / kPanelColumns * k + i) * kPanelColumns + column % kPanelColumns] = value;
      transposed[column * k + i] = value;
    }
  }
  const int64_t size = kernels::panel_size(k, n);
  TRIL_HOLDS(testing::same_everywhere([&](const Parallel& parallel) {
    Guarded panels(size);
    kernels::pack_panels(parallel, b.data(), k, n, panels.data());
    EXPECT_TRUE(same_bits(panels.take(), expected));
    return panels.take();
  }));
  TRIL_HOLDS(testing::same_everywhere([&](const Parallel& parallel) {
    Guarded panels(size);
    kernels::pack_panels_transposed(parallel, transposed.data(), k, n, panels.data());
    EXPECT_TRUE(same_bits(panels.take(), expected));
    return panels.take();
  }));
}

RC_GTEST_PROP(Transpose, SwapsRowsAndColumns, ()) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random = testing::seeded();
  const auto rows = *rc::gen::inRange<int64_t>(0, 100);
  const auto columns = *rc::gen::inRange<int64_t>(0, 60);
  const std::vector<float> in = random_floats(random, rows * columns);
  std::vector<float> expected(rows * columns);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      expected[column * rows + row] = in[row * columns + column];
    }
  }
  TRIL_HOLDS(testing::same_everywhere([&](const Parallel& parallel) {
    Guarded out(rows * columns);
    kernels::transpose(parallel, in.data(), rows, columns, out.data());
    EXPECT_TRUE(same_bits(out.take(), expected));
    return out.take();
  }));
}

std::vector<float> scalar_column_sums(std::span<const float> in, int64_t rows, int64_t columns) {
  std::vector<float> out;
  for (int64_t column = 0; column < columns; ++column) {
    float total = 0.0f;
    for (int64_t begin = 0; begin < rows; begin += kTokenSlice) {
      float slice = 0.0f;
      for (int64_t row = begin; row < std::min(rows, begin + kTokenSlice); ++row) {
        slice += in[row * columns + column];
      }
      total += slice;
    }
    out.push_back(total);
  }
  return out;
}

TEST(ColumnSums, AddSlicesOf512RowsAscending) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random(7);
  for (const int64_t rows : {0, 1, 5, 511, 512, 513, 1024, 1300}) {
    for (const int64_t columns : {1, 16, 67, 150}) {
      const std::vector<float> in = random_floats(random, rows * columns);
      const auto sums = [&](const Parallel& parallel) {
        Guarded out(columns);
        kernels::column_sums(parallel, in.data(), rows, columns, out.data());
        return out.take();
      };
      EXPECT_TRUE(same_bits(sums(Parallel(2)), scalar_column_sums(in, rows, columns)))
          << rows << " × " << columns;
      EXPECT_TRUE(testing::same_everywhere(sums));
      // A sum of `rows` terms, against the reference's db with x of no columns.
      const auto reference =
          reference::linear_gradients<double>({rows, 0, columns}, {}, {}, testing::doubles_of(in));
      std::vector<double> bound(columns);
      for (int64_t i = 0; i < rows * columns; ++i) {
        bound[i % columns] += gamma(rows) * std::fabs(static_cast<double>(in[i]));
      }
      EXPECT_TRUE(testing::within(sums(Parallel(1)), reference.dbias, bound));
    }
  }
}

// The three products of a linear layer and its gradients, as ops/ composes them from this kernel.
RC_GTEST_PROP(Gemm, MakesALinearLayerAndItsGradients, ()) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  Random random = testing::seeded();
  const reference::LinearSizes n{*rc::gen::inRange<int64_t>(1, 150),
                                 *rc::gen::inRange<int64_t>(1, 50),
                                 *rc::gen::inRange<int64_t>(1, 50)};
  const std::vector<float> x = random_floats(random, n.rows * n.in);
  const std::vector<float> w = random_floats(random, n.out * n.in);
  const std::vector<float> dy = random_floats(random, n.rows * n.out);
  const auto magnitude = [](std::span<const float> values) {
    std::vector<double> out;
    for (const float value : values) out.push_back(std::fabs(static_cast<double>(value)));
    return out;
  };
  const auto expected = reference::linear_gradients<double>(
      n, testing::doubles_of(x), testing::doubles_of(w), testing::doubles_of(dy));
  auto bound = reference::linear_gradients<double>(n, magnitude(x), magnitude(w), magnitude(dy));
  for (double& value : bound.dx) value *= gamma(n.out);
  for (double& value : bound.dweight) value *= gamma(n.rows);
  Product dx(random, n.rows, n.in, n.out);
  dx.a = dy;
  dx.b = w;
  dx.bias.clear();
  TRIL_HOLDS(testing::within(run(Parallel(2), dx), expected.dx, bound.dx));
  Product dw(random, n.out, n.in, n.rows);
  kernels::transpose(Parallel(1), dy.data(), n.rows, n.out, dw.a.data());
  dw.b = x;
  dw.bias.clear();
  dw.summation = kernels::Summation::token_slices;
  TRIL_HOLDS(testing::within(run(Parallel(2), dw), expected.dweight, bound.dweight));
}

}  // namespace
}  // namespace tril::gemm_test
