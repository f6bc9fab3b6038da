// Linear layers as operations, on every device: one list of cases.
#include "tril/ops/linear.h"

#include "kernels/kernel_support.h"
#include "tril/kernels/reference/linear.h"
#include "tril/ops/linear_parts.h"
#include "tril/ops/rows.h"

namespace tril::linear_test {
namespace {

using ops::LinearOutput;
using ops::LinearWeight;
using ops::SliceOfSum;
using reference::LinearSizes;
using testing::activations;
using testing::activations_of;
using testing::doubles_of;
using testing::floats_of;
using testing::gamma;
using testing::kUnit;
using testing::random_floats;
using testing::rounded_to;
using testing::rows_of;
using testing::same_bits;
using testing::tensor_of;
using testing::unit;

bool in_bf16() { return activations() == DType::bf16; }

// How far a sum of `terms` products may be from the true one, relative to the sum of their absolute
// values. fp32: a chain of fused multiply-adds. bf16: products are exact; a step of the tensor
// cores adds 16 of them to the sum so far, each cut off at the last bit of the largest, and cuts
// the result off once more: less than 18 units in the last place, 36 roundings' worth.
double sum_error(int64_t terms) {
  return in_bf16() ? gamma(36 * ((terms + 15) / 16)) : gamma(terms);
}
// What rounding a result to the type of activations adds.
double rounding(double value) { return in_bf16() ? unit(DType::bf16) * std::fabs(value) : 0.0; }

std::vector<double> magnitudes(std::span<const float> values) {
  std::vector<double> out = doubles_of(values);
  for (double& value : out) value = std::fabs(value);
  return out;
}

// A layer, its input and the gradient of its output, all of numbers that activations represent
// exactly, so that rounding on the way to the device changes nothing.
struct Case {
  LinearSizes n;
  std::vector<float> x, weight, bias, dy;

  Case(Random& random, const LinearSizes& sizes) : n(sizes) {
    const auto numbers = [&](int64_t count) {
      return rounded_to(activations(), random_floats(random, count));
    };
    x = numbers(n.rows * n.in);
    weight = numbers(n.out * n.in);
    bias = numbers(n.out);
    dy = numbers(n.rows * n.out);
  }
};

enum class Bias { with, without };

// The same on the device, with the packed forms that a model would keep.
struct Layer {
  Context context;
  Arena arena;  // for what outlives a step
  LinearWeight linear;
  Tensor x, dy;

  explicit Layer(const Case& c, Bias wanted = Bias::with)
      : context(2, testing::placement()), arena(testing::device()) {
    const Tensor bias = wanted == Bias::with ? tensor_of(arena, {c.n.out}, c.bias) : Tensor();
    linear = ops::linear_weight(tensor_of(arena, {c.n.out, c.n.in}, c.weight), bias);
    testing::pack(context, linear, arena);
    x = activations_of(context, {c.n.rows, c.n.in}, c.x);
    dy = activations_of(context, {c.n.rows, c.n.out}, c.dy);
  }
};

Case any_case(Random& random, int64_t least = 0) {
  return Case(random, {*rc::gen::inRange<int64_t>(least, 200), *rc::gen::inRange<int64_t>(1, 150),
                       *rc::gen::inRange<int64_t>(1, 150)});
}

RC_GTEST_PROP(Linear, IsTheReferenceWithinRounding, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const auto wanted = *rc::gen::element(Bias::with, Bias::without);
  const std::vector<double> bias =
      wanted == Bias::with ? doubles_of(c.bias) : std::vector<double>();
  const std::vector<double> expected =
      reference::linear<double>(c.n, doubles_of(c.x), doubles_of(c.weight), bias);
  std::vector<double> of_sum =
      reference::linear<double>(c.n, magnitudes(c.x), magnitudes(c.weight));
  std::vector<double> of_result = of_sum;
  for (size_t i = 0; i < of_sum.size(); ++i) {
    of_sum[i] *= sum_error(c.n.in);
    of_sum[i] += kUnit * (std::fabs(expected[i]) + of_sum[i]);  // adding the bias
    of_result[i] = of_sum[i] + rounding(std::fabs(expected[i]) + of_sum[i]);
  }
  Layer layer(c, wanted);
  const Tensor y = ops::linear(layer.context, layer.x, layer.linear);
  RC_ASSERT(y.dtype() == activations());
  TRIL_HOLDS(testing::within(floats_of(y), expected, of_result));
  const Tensor sums = ops::linear(layer.context, layer.x, layer.linear, LinearOutput::sums);
  RC_ASSERT(sums.dtype() == DType::f32);
  TRIL_HOLDS(testing::within(floats_of(sums), expected, of_sum));
}

// Activations are the sums rounded once, including the bias; room after a row does not change it.
TEST(Linear, RoundsTheSumsOnce) {
  Random random(1);
  for (const LinearSizes& n :
       {LinearSizes{5, 64, 64}, LinearSizes{70, 72, 136}, LinearSizes{33, 37, 101},
        LinearSizes{130, 512, 200}, LinearSizes{257, 128, 61}}) {
    Layer layer(Case(random, n));
    const auto run = [&](LinearOutput output) {
      return ops::linear(layer.context, layer.x, layer.linear, output);
    };
    const std::vector<float> sums = floats_of(run(LinearOutput::sums));
    EXPECT_TRUE(
        same_bits(floats_of(run(LinearOutput::activation)), rounded_to(activations(), sums)))
        << n.rows << " rows, " << n.in << " to " << n.out;
    const Tensor padded = run(LinearOutput::padded_sums);
    EXPECT_EQ(padded.columns() % (testing::device() == Device::cpu ? 1 : 64), 0);
    const std::vector<float> wide = floats_of(padded);
    for (int64_t row = 0; row < n.rows; ++row) {
      const std::span<const float> there = std::span(wide).subspan(row * padded.columns(), n.out);
      ASSERT_TRUE(same_bits(there, rows_of(sums, n.out, row, 1))) << "row " << row;
    }
  }
}

// Sizes at which one kernel hands over to the next, or a tile ends.
std::vector<int64_t> telling_rows() {
  std::vector<int64_t> rows;
  for (int64_t i = 1; i <= 20; ++i) rows.push_back(i);
  rows.insert(rows.end(), {31,  32,  33,  63,  64,  65,  66,  96,  97,  127,
                           128, 129, 191, 192, 193, 255, 256, 257, 299, 300});
  return rows;
}

// Rows [first, first + count) alone have the bits they have among all. Rows of 37 or 101 elements
// begin at every alignment there is.
template <class F>
void expect_rows_alone(const Tensor& input, int64_t columns, const std::vector<int64_t>& counts,
                       std::string_view what, const F& compute) {
  const std::vector<float> all = floats_of(compute(input));
  for (const int64_t count : counts) {
    for (const int64_t first : {int64_t{0}, int64_t{1}, input.rows() - count}) {
      if (first < 0 || first + count > input.rows()) continue;
      const Tensor part = compute(input.slice(first, first + count));
      ASSERT_TRUE(same_bits(floats_of(part), rows_of(all, columns, first, count)))
          << what << ": " << count << " rows from " << first << ", " << columns << " columns";
    }
  }
}

TEST(Linear, EveryNumberOfRowsGivesARowTheSameBits) {
  Random random(2);
  for (const LinearSizes& n :
       {LinearSizes{300, 64, 64}, LinearSizes{300, 128, 192}, LinearSizes{300, 200, 72},
        LinearSizes{300, 37, 101}, LinearSizes{300, 513, 130}}) {
    Layer layer(Case(random, n));
    for (const auto output : {LinearOutput::activation, LinearOutput::sums}) {
      expect_rows_alone(layer.x, n.out, telling_rows(), "forward", [&](const Tensor& x) {
        return ops::linear(layer.context, x, layer.linear, output);
      });
    }
    expect_rows_alone(layer.dy, n.in, telling_rows(), "input gradient", [&](const Tensor& dy) {
      return ops::linear_input_gradient(layer.context, dy, layer.linear);
    });
  }
}

TEST(Linear, AllNumbersOfRowsTo300) {
  Random random(3);
  const LinearSizes n{300, 64, 128};
  Layer layer(Case(random, n));
  std::vector<int64_t> counts(300);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<int64_t>(i) + 1;
  expect_rows_alone(layer.x, n.out, counts, "forward",
                    [&](const Tensor& x) { return ops::linear(layer.context, x, layer.linear); });
}

// As one product or as two operations, with every number of rows; NaN stays.
TEST(Linear, ReluOfAProductHasTheBitsOfBoth) {
  Random random(12);
  for (const LinearSizes& n : {LinearSizes{300, 64, 64}, LinearSizes{300, 128, 512},
                               LinearSizes{300, 200, 72}, LinearSizes{70, 37, 101}}) {
    Case c(random, n);
    c.x[static_cast<size_t>(5 * n.in + 3)] = NAN;
    Layer layer(c);
    if (!ops::has_linear_relu(layer.context, layer.linear))
      GTEST_SKIP() << "one after the other here";
    for (const int64_t rows : {1, 7, 17, 64, 65, 70, 129, 300}) {
      if (rows > n.rows) continue;
      const Tensor x = layer.x.slice(0, rows);
      const Tensor y = ops::linear(layer.context, x, layer.linear);
      const std::vector<float> expected =
          floats_of(ops::activation(layer.context, ops::Activation::relu, y));
      const std::vector<float> together =
          floats_of(ops::linear_relu(layer.context, x, layer.linear));
      EXPECT_GT(std::count(together.begin(), together.end(), 0.0f), 0);
      for (size_t i = 0; i < expected.size(); ++i) {
        if (static_cast<int64_t>(i) / n.out == 5) {
          EXPECT_TRUE(std::isnan(together[i])) << rows << " rows, column " << i % n.out;
        } else {
          ASSERT_TRUE(same_bits({&together[i], 1}, {&expected[i], 1}))
              << rows << " rows, " << n.out << " outputs, element " << i;
        }
      }
    }
  }
}

// As one product or as two operations.
TEST(Linear, InputGradientsAddedToWhatIsThereHaveTheBitsOfASum) {
  Random random(13);
  for (const LinearSizes& n : {LinearSizes{300, 64, 64}, LinearSizes{130, 512, 128},
                               LinearSizes{70, 200, 72}, LinearSizes{33, 37, 101}}) {
    Layer layer(Case(random, n));
    const LinearWeight* const weights[] = {&layer.linear};
    for (const int64_t rows : {1, 17, 64, 65, 129, 300}) {
      if (rows > n.rows) continue;
      const Tensor dy = layer.dy.slice(0, rows);
      const std::vector<float> before =
          rounded_to(activations(), random_floats(random, rows * n.in));
      const Tensor dx = activations_of(layer.context, {rows, n.in}, before);
      const Tensor expected = activations_of(layer.context, {rows, n.in}, before);
      ops::add_linear_input_gradient(layer.context, dy, weights, dx);
      ops::add_into(layer.context, ops::linear_input_gradient(layer.context, dy, layer.linear),
                    expected);
      EXPECT_TRUE(same_bits(floats_of(dx), floats_of(expected)))
          << rows << " rows, " << n.in << " columns";
    }
  }
}

// With the forms that are kept, and with those made for one use; together, and one by one.
TEST(Linear, PackedOrNotTogetherOrAloneIsTheSame) {
  Random random(4);
  const Case c(random, {40, 72, 100});
  Layer layer(c);
  const std::vector<float> expected = floats_of(ops::linear(layer.context, layer.x, layer.linear));
  LinearWeight plain = ops::linear_weight(layer.linear.weight, layer.linear.bias);
  EXPECT_TRUE(same_bits(floats_of(ops::linear(layer.context, layer.x, plain)), expected));
  const Case d(random, {40, 72, 33});
  Layer other(d);
  const LinearWeight second = ops::linear_weight(tensor_of(layer.arena, {33, 72}, d.weight),
                                                 tensor_of(layer.arena, {33}, d.bias));
  const LinearWeight* const weights[] = {&layer.linear, &second};
  Tensor y[2];
  ops::linears(layer.context, layer.x, weights, y);
  EXPECT_TRUE(same_bits(floats_of(y[0]), expected));
  EXPECT_TRUE(same_bits(y[1], ops::linear(layer.context, layer.x, second)));
}

RC_GTEST_PROP(Linear, GradientsAreThoseOfTheReferenceWithinRounding, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const auto expected = reference::linear_gradients<double>(c.n, doubles_of(c.x),
                                                            doubles_of(c.weight), doubles_of(c.dy));
  auto bound = reference::linear_gradients<double>(c.n, magnitudes(c.x), magnitudes(c.weight),
                                                   magnitudes(c.dy));
  for (size_t i = 0; i < bound.dx.size(); ++i) {
    bound.dx[i] *= sum_error(c.n.out);
    bound.dx[i] += rounding(std::fabs(expected.dx[i]) + bound.dx[i]);
  }
  // Tokens may be split into parts, whose sums are added: at most as many more roundings as tokens.
  for (double& value : bound.dweight) value *= sum_error(c.n.rows) + gamma(c.n.rows);
  for (double& value : bound.dbias) value *= gamma(c.n.rows + 1);
  Layer layer(c);
  TRIL_HOLDS(
      testing::within(floats_of(ops::linear_input_gradient(layer.context, layer.dy, layer.linear)),
                      expected.dx, bound.dx));
  const Tensor dw = ops::linear_weight_gradient(layer.context, layer.dy, layer.x);
  RC_ASSERT(dw.dtype() == DType::f32);
  TRIL_HOLDS(testing::within(floats_of(dw), expected.dweight, bound.dweight));
  const Tensor db = ops::linear_bias_gradient(layer.context, layer.dy);
  TRIL_HOLDS(testing::within(floats_of(db), expected.dbias, bound.dbias));
  // Again, the same bits.
  TRIL_HOLDS(same_bits(ops::linear_weight_gradient(layer.context, layer.dy, layer.x), dw));
  TRIL_HOLDS(same_bits(ops::linear_bias_gradient(layer.context, layer.dy), db));
}

// Slice by slice is the sum of the slices' own gradients, in fp32.
TEST(Linear, FurtherSlicesAreAdded) {
  Random random(5);
  const LinearSizes n{512 + 200, 72, 96};
  Layer layer(Case(random, n));
  const auto added = [](std::vector<float> a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = a[i] + b[i];
    return a;
  };
  const Tensor dw(layer.context.arena, {n.out, n.in});
  const Tensor db(layer.context.arena, {n.out});
  std::vector<float> dw_sum, db_sum;
  for (const int64_t begin : {0, 512}) {
    const Tensor dy = layer.dy.slice(begin, std::min<int64_t>(n.rows, begin + 512));
    const Tensor x = layer.x.slice(begin, std::min<int64_t>(n.rows, begin + 512));
    const auto slice = begin == 0 ? SliceOfSum::first : SliceOfSum::further;
    ops::linear_weight_gradient_into(layer.context, dy, x, slice, dw);
    ops::linear_bias_gradient_into(layer.context, dy, slice, db);
    const auto dw_part = floats_of(ops::linear_weight_gradient(layer.context, dy, x));
    const auto db_part = floats_of(ops::linear_bias_gradient(layer.context, dy));
    dw_sum = begin == 0 ? dw_part : added(dw_sum, dw_part);
    db_sum = begin == 0 ? db_part : added(db_sum, db_part);
  }
  EXPECT_TRUE(same_bits(floats_of(db), db_sum));
  // In bf16 a sum that begins with an existing value may have a different order. All numbers are
  // below 1.
  if (!in_bf16()) {
    EXPECT_TRUE(same_bits(floats_of(dw), dw_sum));
  } else {
    const auto terms = static_cast<double>(n.rows);
    const std::vector<double> near(dw_sum.size(),
                                   2.0 * (sum_error(n.rows) + gamma(n.rows)) * terms);
    EXPECT_TRUE(testing::within(floats_of(dw), doubles_of(dw_sum), near));
  }
}

// A token whose gradient is too small for any number has the same one alone and among tokens that
// have none.
TEST(Linear, AVanishingGradientIsZeroInAnyBatch) {
  if (in_bf16()) GTEST_SKIP() << "of fp32";
  Random random(8);
  for (const int64_t rows : {1, 7, 600}) {
    Case c(random, {rows, 20, 70});
    c.dy.assign(c.dy.size(), 0.0f);
    std::fill_n(c.x.begin(), 20, 1e-30f);
    std::fill_n(c.dy.begin(), 70, -1e-30f);
    Layer layer(c);
    const Tensor dw = ops::linear_weight_gradient(layer.context, layer.dy, layer.x);
    EXPECT_TRUE(same_bits(floats_of(dw), std::vector<float>(20 * 70, 0.0f))) << rows << " rows";
  }
}

// Rows of dy with zeros after the outputs, as the loss makes them on CUDA.
TEST(Linear, GradientsTakeRowsWithRoomBehindThem) {
  if (testing::device() == Device::cpu) GTEST_SKIP() << "on the CPU rows are dense";
  Random random(6);
  for (const LinearSizes& n : {LinearSizes{100, 64, 101}, LinearSizes{300, 72, 61}}) {
    const Case c(random, n);
    Layer layer(c);
    const int64_t width = (n.out + 63) / 64 * 64;
    std::vector<float> wide(n.rows * width);
    for (int64_t i = 0; i < n.rows * n.out; ++i) wide[i / n.out * width + i % n.out] = c.dy[i];
    const Tensor dy = activations_of(layer.context, {n.rows, width}, wide);
    EXPECT_TRUE(same_bits(ops::linear_input_gradient(layer.context, dy, layer.linear),
                          ops::linear_input_gradient(layer.context, layer.dy, layer.linear)));
    const Tensor dw(layer.context.arena, {n.out, n.in});
    ops::linear_weight_gradient_into(layer.context, dy, layer.x, SliceOfSum::first, dw);
    const auto expected = reference::linear_gradients<double>(
        n, doubles_of(c.x), doubles_of(c.weight), doubles_of(c.dy));
    auto bound = reference::linear_gradients<double>(n, magnitudes(c.x), magnitudes(c.weight),
                                                     magnitudes(c.dy));
    for (double& value : bound.dweight) value *= sum_error(n.rows) + gamma(n.rows);
    EXPECT_TRUE(testing::within(floats_of(dw), expected.dweight, bound.dweight));
    const Tensor db(layer.context.arena, {n.out});
    ops::linear_bias_gradient_into(layer.context, dy, SliceOfSum::first, db);
    EXPECT_TRUE(same_bits(db, ops::linear_bias_gradient(layer.context, layer.dy)));
  }
}

TEST(Linear, NanStaysInItsRowAndColumn) {
  Random random(7);
  for (const int64_t rows : {14, 90}) {
    Case c(random, {rows, 72, 70});
    const std::vector<float> clean = [&] {
      Layer layer(c);
      return floats_of(ops::linear(layer.context, layer.x, layer.linear));
    }();
    c.x[7 * c.n.in + 32] = NAN;
    c.weight[69 * c.n.in + 5] = NAN;
    Layer layer(c);
    const std::vector<float> y = floats_of(ops::linear(layer.context, layer.x, layer.linear));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < c.n.out; ++column) {
        const float value = y[row * c.n.out + column];
        if (row == 7 || column == 69) {
          EXPECT_TRUE(std::isnan(value)) << row << ", " << column;
        } else {
          EXPECT_TRUE(testing::same_float(value, clean[row * c.n.out + column]))
              << row << ", " << column;
        }
      }
    }
  }
}

// One by one, as parts of a batch with different weights.
TEST(Linear, RowsByWeightAreThoseOfTheirOwnProducts) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "only forms of the CPU have parts";
  Random random(8);
  const Case c(random, {20, 64, 40});
  Layer layer(c);
  const ops::RowsByWeight parts[] = {
      {0, 3, &layer.linear}, {3, 3, &layer.linear}, {3, 20, &layer.linear}};
  Tensor y[3];
  ops::linear_by_rows(layer.context, layer.x, parts, y);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        same_bits(y[i], ops::linear(layer.context, layer.x.slice(parts[i].begin, parts[i].end),
                                    layer.linear, LinearOutput::sums)));
  }
}

TEST(Linear, SaysWhatDoesNotFit) {
  Random random(9);
  Layer layer(Case(random, {4, 8, 6}));
  const auto wrong_columns =
      testing::raised_by([&] { ops::linear(layer.context, layer.dy, layer.linear); });
  EXPECT_EQ(wrong_columns.code, ErrorCode::shape_mismatch);
  EXPECT_EQ(wrong_columns.text, "linear: the input has 6 columns, the weight [6, 8] expects 8");
  const auto wrong_gradient =
      testing::raised_by([&] { ops::linear_input_gradient(layer.context, layer.x, layer.linear); });
  EXPECT_EQ(wrong_gradient.code, ErrorCode::shape_mismatch);
  if (testing::device() == Device::cpu) return;
  Arena host;
  const auto elsewhere = testing::raised_by([&] {
    ops::linear(layer.context, Tensor(host, {4, 8}, activations()), layer.linear);
  });
  EXPECT_EQ(elsewhere.text, "linear: the input is in the memory of cpu, expected cuda");
  LinearWeight bytes = layer.linear;
  bytes.form = &ops::form_for(Placement(), Compute::int8);
  const auto refused = testing::raised_by([&] { ops::linear(layer.context, layer.x, bytes); });
  EXPECT_EQ(refused.code, ErrorCode::unsupported);
  const int32_t chosen[] = {1};
  const auto part =
      testing::raised_by([&] { ops::part_of(layer.context, layer.linear, chosen, host); });
  EXPECT_EQ(part.code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace tril::linear_test
