#include "tril/kernels/norm.h"

#include "kernels/gradient_check.h"
#include "kernels/rows_support.h"
#include "tril/kernels/cuda/rows.h"
#include "tril/kernels/gemm.h"
#include "tril/kernels/reference/norm.h"
#include "tril/ops/rows.h"

namespace tril::norm_test {
namespace {

using kernels::NormKind;
using testing::context_here;
using testing::doubles_of;
using testing::gamma;
using testing::here;
using testing::kUnit;
using testing::random_floats;
using testing::rows_of;
using testing::same_bits;

struct Case {
  NormKind kind = NormKind::layer;
  int64_t rows = 0, columns = 0;
  std::vector<float> x, weight, bias, dy;

  Case(Random& random, NormKind which, int64_t row_count, int64_t column_count)
      : kind(which), rows(row_count), columns(column_count) {
    x = here(random_floats(random, rows * columns));
    weight = random_floats(random, columns);
    if (kind == NormKind::layer) bias = random_floats(random, columns);
    dy = here(random_floats(random, rows * columns));
  }
  kernels::Norm args() const {
    return {.kind = kind,
            .rows = rows,
            .columns = columns,
            .weight = weight.data(),
            .bias = bias.empty() ? nullptr : bias.data()};
  }
  reference::NormSizes<double> sizes() const {
    return {kind, rows, columns, static_cast<double>(args().epsilon)};
  }
  Case part(int64_t first, int64_t count) const {
    Case result = *this;
    result.rows = count;
    result.x = rows_of(x, columns, first, count);
    result.dy = rows_of(dy, columns, first, count);
    return result;
  }
};

struct Result {
  std::vector<float> y, stats, dx, dweight, dbias;

  std::vector<float> all() const {
    std::vector<float> joined;
    for (const auto* part : {&y, &stats, &dx, &dweight, &dbias}) {
      joined.insert(joined.end(), part->begin(), part->end());
    }
    return joined;
  }
};

Result run(Context& context, const Case& c) {
  const Shape shape = {c.rows, c.columns};
  const int64_t bytes = 16 * (c.rows + 2) * (c.columns + 8);
  const float epsilon = c.args().epsilon;
  const Tensor x = testing::activations_of(context, shape, c.x);
  const Tensor dy = testing::activations_of(context, shape, c.dy);
  const Tensor weight = testing::tensor_of(context.arena, {c.columns}, c.weight);
  const Tensor bias =
      c.bias.empty() ? Tensor() : testing::tensor_of(context.arena, {c.columns}, c.bias);
  testing::mark_memory(context, bytes);
  const ops::NormResult normed = ops::norm(context, c.kind, epsilon, x, weight, bias);
  Result result{testing::taken(normed.y), testing::taken(normed.stats), {}, {}, {}};
  testing::mark_memory(context, bytes);
  const ops::NormGradients gradients =
      ops::norm_gradients(context, c.kind, epsilon, x, weight, bias, normed.stats, dy);
  result.dx = testing::taken(gradients.dx);
  result.dweight = testing::taken(gradients.dweight);
  if (bias.defined()) result.dbias = testing::taken(gradients.dbias);
  return result;
}
Result run(const Case& c) { return run(context_here(), c); }

// The sum over rows of f(row, sum so far): slices of kTokenSlice rows, added ascending. On CUDA
// slices of norm_slice() rows in eight chains, and the slices in 32.
template <class F>
float sum_over_rows(int64_t rows, const F& f) {
  const bool cpu = testing::device() == Device::cpu;
  const int64_t slice_rows = cpu ? kernels::kTokenSlice : kernels::cuda::norm_slice(rows);
  const int64_t chains = cpu ? 1 : 8;
  std::vector<float> totals(cpu ? 1 : 32);
  for (int64_t begin = 0; begin < rows; begin += slice_rows) {
    float slice = 0.0f;
    for (int64_t chain = 0; chain < chains; ++chain) {
      float sum = 0.0f;
      const int64_t end = std::min(rows, begin + slice_rows);
      for (int64_t row = begin + chain; row < end; row += chains) sum = f(row, sum);
      slice += sum;
    }
    totals[static_cast<size_t>(begin / slice_rows) % totals.size()] += slice;
  }
  float total = 0.0f;
  for (const float of_chain : totals) total += of_chain;
  return total;
}

// The contract's order, one scalar operation at a time.
Result scalar(const Case& c) {
  Result out;
  const float inverse = 1.0f / static_cast<float>(c.columns);
  std::vector<float> z(c.rows * c.columns);
  for (int64_t row = 0; row < c.rows; ++row) {
    const std::vector<float> x = rows_of(c.x, c.columns, row, 1);
    const float mean = c.kind == NormKind::layer ? testing::row_sum(x) * inverse : 0.0f;
    std::vector<float> centred = x;
    for (float& value : centred) value = value - mean;
    const float r =
        1.0f / std::sqrt(testing::row_dot(centred, centred) * inverse + c.args().epsilon);
    out.stats.insert(out.stats.end(), {mean, r});
    std::vector<float> g(c.columns);
    for (int64_t i = 0; i < c.columns; ++i) {
      z[row * c.columns + i] = centred[i] * r;
      g[i] = c.dy[row * c.columns + i] * c.weight[i];
      const float normed = z[row * c.columns + i];
      out.y.push_back(c.bias.empty() ? normed * c.weight[i]
                                     : std::fma(normed, c.weight[i], c.bias[i]));
    }
    const float mean_g = c.kind == NormKind::layer ? testing::row_sum(g) * inverse : 0.0f;
    const float mean_gz = testing::row_dot(g, rows_of(z, c.columns, row, 1)) * inverse;
    for (int64_t i = 0; i < c.columns; ++i) {
      out.dx.push_back(std::fma(-z[row * c.columns + i], mean_gz, g[i] - mean_g) * r);
    }
  }
  for (int64_t i = 0; i < c.columns; ++i) {
    out.dweight.push_back(sum_over_rows(c.rows, [&](int64_t row, float sum) {
      return std::fma(c.dy[row * c.columns + i], z[row * c.columns + i], sum);
    }));
    if (c.bias.empty()) continue;
    out.dbias.push_back(sum_over_rows(
        c.rows, [&](int64_t row, float sum) { return sum + c.dy[row * c.columns + i]; }));
  }
  out.y = here(out.y);
  out.dx = here(out.dx);
  return out;
}

NormKind any_kind() { return *rc::gen::element(NormKind::layer, NormKind::rms); }

Case any_case(Random& random) {
  return {random, any_kind(), *rc::gen::inRange<int64_t>(0, 40), testing::any_columns()};
}

RC_GTEST_PROP(NormReference, GradientsAreThoseOfFiniteDifferences, ()) {
  Random random = testing::seeded();
  // With one column a layer norm is constant: its gradient is all cancellation, so this starts at
  // two.
  const Case c(random, any_kind(), *rc::gen::inRange<int64_t>(0, 4),
               *rc::gen::inRange<int64_t>(2, 8));
  const std::vector<double> x = doubles_of(c.x);
  const std::vector<double> w = doubles_of(c.weight);
  const std::vector<double> b = doubles_of(c.bias);
  const std::vector<double> dy = doubles_of(c.dy);
  const auto g = reference::norm_gradients<double>(c.sizes(), x, w, dy);
  // |z| <= sqrt(columns), so |y| <= sqrt(columns) + 1. A rounding of x - mean, both below 1, is
  // multiplied by r; the steps taken change r by less than its double.
  double largest = std::sqrt(static_cast<double>(c.columns)) + 1.0;
  for (int64_t row = 0; row < c.rows; ++row) {
    const auto of_row = std::span<const double>(x).subspan(row * c.columns, c.columns);
    largest = std::max(largest, 4.0 * reference::normalised_row<double>(c.sizes(), of_row).r);
  }
  const double noise = testing::rounding_noise(dy, largest, 3 * c.columns + 8);
  const auto loss = [&](const std::vector<double>& x_at, const std::vector<double>& w_at,
                        const std::vector<double>& b_at) {
    return testing::weighted_sum(reference::norm<double>(c.sizes(), x_at, w_at, b_at), dy);
  };
  TRIL_HOLDS(
      testing::gradient_matches([&](const auto& at) { return loss(at, w, b); }, x, g.dx, noise));
  TRIL_HOLDS(testing::gradient_matches([&](const auto& at) { return loss(x, at, b); }, w, g.dweight,
                                       noise));
  if (c.kind == NormKind::layer) {
    TRIL_HOLDS(testing::gradient_matches([&](const auto& at) { return loss(x, w, at); }, b, g.dbias,
                                         noise));
  }
}

// Rounding errors of one row, to first order in the unit u, with n columns:
//   mean:   gamma_(n+1) mean|x|: n terms, times a rounded 1/n                       =: dm
//   x - mean = c:  dm + u |c|                                                       =: dc
//   v = mean of c²:  gamma_(n+2) v + mean(2 |c| dc + dc²)                           =: dv
//   r = 1/sqrt(v + epsilon):  r (dv / 2(v + epsilon) + 3u)  (sum, root, division)   =: dr
//   z = c r:  |c| dr + r dc + u |z|                                                 =: dz
// One more gamma_2 on the products of errors leaves room for the second order.
struct RowError {
  reference::NormalisedRow<double> exact;
  double dr = 0.0;
  std::vector<double> dz;

  RowError(const Case& c, int64_t row) {
    const std::vector<double> x = doubles_of(rows_of(c.x, c.columns, row, 1));
    const auto n = static_cast<double>(c.columns);
    exact = reference::normalised_row<double>(c.sizes(), x);
    double mean_abs = 0.0;
    for (const double value : x) mean_abs += std::fabs(value) / n;
    const double dm = c.kind == NormKind::layer ? gamma(c.columns + 1) * mean_abs : 0.0;
    double v = 0.0;
    double dv = 0.0;
    std::vector<double> dc;
    for (const double value : x) {
      const double centred = std::fabs(value - exact.mean);
      dc.push_back(dm + kUnit * (centred + dm));
      v += centred * centred / n;
      dv += (2.0 * centred + dc.back()) * dc.back() / n;
    }
    dv += gamma(c.columns + 2) * (v + dv);
    dr = exact.r * (dv / (2.0 * (v + c.sizes().epsilon)) + gamma(3)) * (1.0 + gamma(2));
    for (size_t i = 0; i < x.size(); ++i) {
      const double centred = std::fabs(x[i] - exact.mean);
      dz.push_back((centred * dr + (exact.r + dr) * dc[i]) * (1.0 + gamma(2)) +
                   kUnit * std::fabs(exact.z[i]));
    }
  }
};

RC_GTEST_PROP(Norm, IsTheReferenceWithinRounding, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const Result result = run(c);
  const std::vector<double> x = doubles_of(c.x);
  const std::vector<double> w = doubles_of(c.weight);
  const std::vector<double> expected = reference::norm<double>(c.sizes(), x, w, doubles_of(c.bias));
  const auto gradients = reference::norm_gradients<double>(c.sizes(), x, w, doubles_of(c.dy));
  std::vector<double> bound, bound_dx, bound_dweight(c.columns), bound_dbias(c.columns);
  for (int64_t row = 0; row < c.rows; ++row) {
    const RowError error(c, row);
    const auto n = static_cast<double>(c.columns);
    // Means of g and of g z: n terms of one product each, 1/n, and what z is off by.
    double mean_g = 0.0, mean_gz = 0.0, sum_g = 0.0, sum_gz = 0.0, sum_g_dz = 0.0;
    std::vector<double> g;
    for (int64_t i = 0; i < c.columns; ++i) {
      g.push_back(static_cast<double>(c.dy[row * c.columns + i]) * w[i]);
      mean_g += g[i] / n;
      mean_gz += g[i] * error.exact.z[i] / n;
      sum_g += std::fabs(g[i]) / n;
      sum_gz += std::fabs(g[i] * error.exact.z[i]) / n;
      sum_g_dz += std::fabs(g[i]) * error.dz[i] / n;
    }
    if (c.kind == NormKind::rms) mean_g = sum_g = 0.0;
    const double d_mean_g = gamma(c.columns + 2) * sum_g;
    const double d_mean_gz = gamma(c.columns + 2) * (sum_gz + sum_g_dz) + sum_g_dz;
    for (int64_t i = 0; i < c.columns; ++i) {
      const double z = error.exact.z[i];
      const double dz = error.dz[i];
      const double slope = std::fabs(static_cast<double>(c.dy[row * c.columns + i]));
      // y: the product with w and the sum with b in one rounding (or one product without b).
      bound.push_back(std::fabs(w[i]) * dz +
                      kUnit * (std::fabs(expected[row * c.columns + i]) + std::fabs(w[i]) * dz));
      // dx = r (g - mean g - z mean gz): four roundings of at most the sum of magnitudes.
      const double size = std::fabs(g[i]) + std::fabs(mean_g) + std::fabs(z * mean_gz);
      const double inner = d_mean_g + std::fabs(z) * d_mean_gz + dz * std::fabs(mean_gz) +
                           dz * d_mean_gz + gamma(4) * size;
      bound_dx.push_back(error.exact.r * inner + error.dr * (size + inner));
      bound_dweight[i] += slope * dz + gamma(c.rows + 1) * slope * (std::fabs(z) + dz);
      bound_dbias[i] += gamma(c.rows) * slope;
    }
  }
  TRIL_HOLDS(testing::within(result.y, expected, testing::stored(expected, bound)));
  TRIL_HOLDS(testing::within(result.dx, gradients.dx, testing::stored(gradients.dx, bound_dx)));
  TRIL_HOLDS(testing::within(result.dweight, gradients.dweight, bound_dweight));
  if (c.kind == NormKind::layer) {
    TRIL_HOLDS(testing::within(result.dbias, gradients.dbias, bound_dbias));
  }
}

RC_GTEST_PROP(Norm, FollowsItsOrderBitForBit, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  TRIL_HOLDS(same_bits(run(c).all(), scalar(c).all()));
}

// More rows than one slice of tokens and than one task.
TEST(Norm, ThreadsAndTargetsChangeNothing) {
  Random random(1);
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    for (const int64_t rows : {3, 512, 513, 1100, 4300}) {
      const Case c(random, kind, rows, 83);
      EXPECT_TRUE(same_bits(run(c).all(), scalar(c).all())) << rows << " rows";
      EXPECT_TRUE(testing::same_again([&](Context& context) { return run(context, c).all(); }));
    }
  }
}

// Rows of every way to keep them, around its limits; and enough rows for slices of slices.
TEST(Norm, FollowsItsOrderForEveryWidth) {
  Random random(5);
  for (const int64_t columns :
       {8, 64, 248, 256, 264, 504, 512, 520, 1016, 1024, 1032, 1030, 2056}) {
    const Case c(random, NormKind::layer, 70, columns);
    const Result result = run(c);
    const Result expected = scalar(c);
    EXPECT_TRUE(same_bits(result.y, expected.y)) << "y, " << columns << " columns";
    EXPECT_TRUE(same_bits(result.stats, expected.stats)) << "stats, " << columns << " columns";
    EXPECT_TRUE(same_bits(result.dx, expected.dx)) << "dx, " << columns << " columns";
    EXPECT_TRUE(same_bits(result.dweight, expected.dweight)) << "dweight, " << columns;
    EXPECT_TRUE(same_bits(result.dbias, expected.dbias)) << "dbias, " << columns;
  }
  const Case many(random, NormKind::layer, 64 * 40 + 5, 24);
  EXPECT_TRUE(same_bits(run(many).all(), scalar(many).all()));
}

RC_GTEST_PROP(Norm, ARowDependsOnThatRowOnly, ()) {
  Random random = testing::seeded();
  const Case c(random, any_kind(), *rc::gen::inRange<int64_t>(1, 40), testing::any_columns());
  const Result whole = run(c);
  const auto first = *rc::gen::inRange<int64_t>(0, c.rows);
  const auto count = *rc::gen::inRange<int64_t>(1, c.rows - first + 1);
  const Result part = run(context_here(1), c.part(first, count));
  TRIL_HOLDS(same_bits(part.y, rows_of(whole.y, c.columns, first, count)));
  TRIL_HOLDS(same_bits(part.stats, rows_of(whole.stats, 2, first, count)));
  TRIL_HOLDS(same_bits(part.dx, rows_of(whole.dx, c.columns, first, count)));
}

TEST(Norm, NanStaysInItsRow) {
  Random random(2);
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    Case c(random, kind, 5, 37);
    const Result clean = run(c);
    c.x[2 * c.columns + 36] = NAN;
    const Result result = run(c);
    for (const int64_t row : {0, 1, 3, 4}) {
      EXPECT_TRUE(
          same_bits(rows_of(result.y, c.columns, row, 1), rows_of(clean.y, c.columns, row, 1)));
      EXPECT_TRUE(
          same_bits(rows_of(result.dx, c.columns, row, 1), rows_of(clean.dx, c.columns, row, 1)));
    }
    for (const float value : rows_of(result.y, c.columns, 2, 1)) EXPECT_TRUE(std::isnan(value));
  }
}

// A product that underflows leaves no sign in a sum over tokens.
TEST(Norm, AVanishingGradientIsZeroInAnyBatch) {
  Random random(5);
  for (const int64_t rows : {1, 3, 600}) {
    Case c(random, NormKind::rms, rows, 37);
    c.dy.assign(c.dy.size(), 0.0f);
    std::fill_n(c.x.begin(), 37, 1e-10f);
    std::fill_n(c.dy.begin(), 37, -1e-38f);
    EXPECT_TRUE(same_bits(run(c).dweight, std::vector<float>(37, 0.0f))) << rows << " rows";
  }
}

TEST(Norm, WorksInPlace) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "operations on a device give new memory";
  Random random(3);
  const Case c(random, NormKind::layer, 9, 37);
  std::vector<float> x = c.x;
  std::vector<float> stats(2 * c.rows);
  kernels::norm_forward(Parallel(2), c.args(), x.data(), x.data(), stats.data());
  EXPECT_TRUE(same_bits(x, run(c).y));
}

// A constant row has no variance: y is the bias, not NaN.
TEST(Norm, AConstantRowGivesTheBias) {
  Random random(4);
  Case c(random, NormKind::layer, 1, 32);
  c.x.assign(32, 0.75f);
  const Result result = run(c);
  EXPECT_TRUE(same_bits(result.y, here(c.bias)));
  EXPECT_EQ(result.stats[0], 0.75f);
}

}  // namespace
}  // namespace tril::norm_test
