// The projection and its loss in slices of rows have the bits of computing everything at once.
#include <algorithm>
#include <array>
#include <cmath>

#include "support/testing.h"
#include "tril/autograd/functions.h"
#include "tril/kernels/cross_entropy.h"
#include "tril/kernels/gemm.h"
#include "tril/kernels/reference/cross_entropy.h"

namespace tril::loss_test {
namespace {

using testing::doubles_of;
using testing::floats_of;
using testing::random_floats;
using testing::random_tensor;
using testing::same_bits;

// An output projection with all that its products need on the context's device.
ops::LinearWeight projection(Context& context, int64_t out, int64_t in,
                             const std::vector<float>& weight, const std::vector<float>& bias) {
  ops::LinearWeight linear =
      ops::linear_weight(testing::tensor_of(context.arena, {out, in}, weight),
                         bias.empty() ? Tensor() : testing::tensor_of(context.arena, {out}, bias));
  if (context.device() == Device::cpu) return linear;
  testing::pack(context, linear, context.arena);
  return linear;
}

struct AllAtOnce {
  float loss = 0.0f;
  Tensor dx, dweight, dbias;
};

// Keeps every logit of the batch.
AllAtOnce all_at_once(Context& context, const Tensor& x, const ops::LinearWeight& output,
                      const std::vector<int32_t>& labels, const LossOptions& options) {
  const Tensor logits = ops::linear(context, x, output);
  const kernels::CrossEntropy args{.rows = x.rows(),
                                   .vocab = output.out,
                                   .smoothing = options.smoothing,
                                   .factor = options.factor,
                                   .labels = labels.data(),
                                   .logits = logits.data()};
  std::vector<float> norms(labels.size()), losses(labels.size());
  kernels::cross_entropy_forward(context.parallel, args, norms.data(), losses.data());
  const float one = 1.0f;
  kernels::cross_entropy_backward(context.parallel, args, norms.data(), &one, logits.data());
  return {kernels::total_loss(losses.data(), x.rows(), options.factor),
          ops::linear_input_gradient(context, logits, output),
          ops::linear_weight_gradient(context, logits, x),
          ops::linear_bias_gradient(context, logits)};
}

TEST(ProjectedLoss, InSlicesHasTheBitsOfAllAtOnce) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "these are the CPU's slices";
  Random random(1);
  for (const int64_t rows : {1, 7, 511, 512, 513, 1024, 1300}) {
    Arena arena;
    Context context(2);
    const int64_t width = rows == 1024 ? 129 : 19;  // wide and narrow inputs are read differently
    const Tensor x = random_tensor(arena, {rows, width}, random);
    const ops::LinearWeight output = ops::linear_weight(random_tensor(arena, {37, width}, random),
                                                        random_tensor(arena, {37}, random));
    std::vector<int32_t> labels;
    for (int64_t row = 0; row < rows; ++row) {
      labels.push_back(static_cast<int32_t>(random.below(38)) - 1);
    }
    const LossOptions options{.smoothing = 0.1f, .factor = 0.37f};
    const AllAtOnce expected = all_at_once(context, x, output, labels, options);
    EXPECT_EQ(ops::projected_loss(context, x, output, labels, options, ops::LossGradients::none)
                  .loss.data()[0],
              expected.loss);
    Tape tape(context);
    for (const Tensor& input : {x, output.weight, output.bias}) tape.watch(input);
    const Tensor loss = autograd::projected_loss(context, x, output, labels, options);
    EXPECT_EQ(loss.data()[0], expected.loss);
    const Gradients gradients = tape.backward(loss);
    EXPECT_TRUE(same_bits(gradients.of(x), expected.dx)) << rows;
    EXPECT_TRUE(same_bits(gradients.of(output.weight), expected.dweight)) << rows;
    EXPECT_TRUE(same_bits(gradients.of(output.bias), expected.dbias)) << rows;
  }
}

// A batch and its projection; inputs, weight and bias are numbers that the type represents exactly.
struct Batch {
  int64_t rows, in, out;
  std::vector<float> x, weight, bias;
  std::vector<int32_t> labels;
  LossOptions options{.smoothing = 0.1f, .factor = 0.37f};

  Batch(Random& random, int64_t row_count, int64_t width, int64_t vocab)
      : rows(row_count), in(width), out(vocab) {
    const DType type = testing::activations();
    x = testing::rounded_to(type, random_floats(random, rows * in));
    weight = testing::rounded_to(type, random_floats(random, out * in));
    bias = testing::rounded_to(type, random_floats(random, out));
    for (int64_t row = 0; row < rows; ++row) {
      labels.push_back(static_cast<int32_t>(random.below(static_cast<uint32_t>(out + 1))) - 1);
    }
  }
};

struct Gradient {
  std::vector<double> value, bound;
  explicit Gradient(int64_t size)
      : value(static_cast<size_t>(size)), bound(static_cast<size_t>(size)) {}
};

// The loss and its gradients in double, and bounds for the computed ones.
struct Expected {
  double loss = 0.0, loss_bound = 0.0;
  Gradient dx, dweight, dbias;

  // A logit is a sum of `in` products and a bias. The loss of a row changes by at most twice what
  // its logits do; a sum of `out` exponentials, none off by more than 2^-20, and a dozen more
  // roundings add to it. Its gradient is p minus the label's share, and p has the same relative
  // error; it is then rounded to the type. In the sums that follow, each term has the error of its
  // factor, and the sum that of gamma of its length and of rounding it to the type.
  explicit Expected(const Batch& b) : dx(b.rows * b.in), dweight(b.out * b.in), dbias(b.out) {
    const double unit = testing::unit(testing::activations());
    const double of_softmax = testing::gamma(b.out + 32) + 0x1p-20;
    const auto factor = static_cast<double>(b.options.factor);
    const std::vector<double> x = doubles_of(b.x), weight = doubles_of(b.weight);
    for (int64_t row = 0; row < b.rows; ++row) {
      if (b.labels[static_cast<size_t>(row)] < 0) continue;
      std::vector<double> logits;
      double off = 0.0;
      for (int64_t j = 0; j < b.out; ++j) {
        double sum = static_cast<double>(b.bias[static_cast<size_t>(j)]);
        double size = std::fabs(sum);
        for (int64_t i = 0; i < b.in; ++i) {
          const double term =
              x[static_cast<size_t>(row * b.in + i)] * weight[static_cast<size_t>(j * b.in + i)];
          sum += term;
          size += std::fabs(term);
        }
        logits.push_back(sum);
        off = std::max(off, testing::gamma(b.in + 2) * size);
      }
      const reference::CrossEntropyCase<double> c{
          1, b.out, static_cast<double>(b.options.smoothing),
          std::span(b.labels).subspan(static_cast<size_t>(row), 1)};
      const double of_row = reference::cross_entropy<double>(c, logits)[0];
      loss += factor * of_row;
      loss_bound += factor * (2.0 * off + of_softmax * (4.0 + std::fabs(of_row)));
      const auto dlogits = reference::cross_entropy_gradient<double>(c, logits, factor);
      for (int64_t j = 0; j < b.out; ++j) {
        const double d = dlogits[static_cast<size_t>(j)];
        const double error = factor * (2.0 * off + of_softmax) + unit * std::fabs(d);
        add(row, j, d, error, b, x, weight);
      }
    }
    loss_bound += testing::gamma(2) * std::fabs(loss);
    for (size_t i = 0; i < dx.value.size(); ++i) dx.bound[i] += unit * std::fabs(dx.value[i]);
  }

 private:
  void add(int64_t row, int64_t j, double d, double error, const Batch& b,
           const std::vector<double>& x, const std::vector<double>& weight) {
    const auto term = [&](Gradient& g, int64_t at, double by, int64_t terms) {
      g.value[static_cast<size_t>(at)] += d * by;
      g.bound[static_cast<size_t>(at)] +=
          (error + testing::gamma(terms + 2) * (std::fabs(d) + error)) * std::fabs(by);
    };
    for (int64_t i = 0; i < b.in; ++i) {
      term(dx, row * b.in + i, weight[static_cast<size_t>(j * b.in + i)], b.out);
      term(dweight, j * b.in + i, x[static_cast<size_t>(row * b.in + i)], b.rows);
    }
    term(dbias, j, 1.0, b.rows);
  }
};

struct Computed {
  float loss = 0.0f;
  std::vector<float> dx, dweight, dbias;
};
Computed computed(const Batch& b) {
  Context context(2, testing::placement());
  const Tensor x = testing::activations_of(context, {b.rows, b.in}, b.x);
  const ops::LinearWeight output = projection(context, b.out, b.in, b.weight, b.bias);
  const ops::LossResult result =
      ops::projected_loss(context, x, output, b.labels, b.options, ops::LossGradients::wanted);
  return {floats_of(result.loss)[0], floats_of(result.dx), floats_of(result.dweight),
          floats_of(result.dbias)};
}

TEST(ProjectedLoss, IsTheReferenceWithinRounding) {
  Random random(4);
  // One slice, several on the CPU, and several on CUDA; widths that are padded there.
  for (const auto& [rows, in, out] : std::vector<std::array<int64_t, 3>>{
           {0, 5, 9}, {1, 5, 9}, {17, 64, 128}, {700, 19, 37}, {8600, 8, 65}}) {
    const Batch batch(random, rows, in, out);
    const Expected expected(batch);
    const Computed result = computed(batch);
    const double loss = static_cast<double>(result.loss);
    EXPECT_LE(std::fabs(loss - expected.loss), expected.loss_bound) << rows << " rows";
    EXPECT_TRUE(testing::within(result.dx, expected.dx.value, expected.dx.bound)) << rows;
    EXPECT_TRUE(testing::within(result.dweight, expected.dweight.value, expected.dweight.bound))
        << rows << " rows, dweight";
    EXPECT_TRUE(testing::within(result.dbias, expected.dbias.value, expected.dbias.bound))
        << rows << " rows, dbias";
  }
}

// A row's gradient is the same in any batch.
TEST(ProjectedLoss, ARowDependsOnThatRowOnly) {
  Random random(5);
  const Batch batch(random, 8600, 24, 70);  // on CUDA two slices of 4,352 and 4,248 rows
  const std::vector<float> whole = computed(batch).dx;
  for (const int64_t first : {0, 1, 63, 511, 4350, 4352, 8599}) {
    Batch part = batch;
    part.rows = std::min<int64_t>(3, batch.rows - first);
    part.x.assign(batch.x.begin() + first * batch.in,
                  batch.x.begin() + (first + part.rows) * batch.in);
    part.labels.assign(batch.labels.begin() + first, batch.labels.begin() + first + part.rows);
    const std::vector<float> expected(whole.begin() + first * batch.in,
                                      whole.begin() + (first + part.rows) * batch.in);
    EXPECT_TRUE(same_bits(computed(part).dx, expected)) << "from row " << first;
  }
}

TEST(ProjectedLoss, PassesOnTheGradientOfTheLoss) {
  Random random(2);
  const Batch batch(random, 3, 8, 5);
  const auto gradient = [&](float of_loss) {
    Context context(1, testing::placement());
    const Tensor x = testing::activations_of(context, {batch.rows, batch.in}, batch.x);
    const ops::LinearWeight output = projection(context, batch.out, batch.in, batch.weight, {});
    Tape tape(context);
    tape.watch(x);
    const Tensor loss = autograd::projected_loss(context, x, output, batch.labels, {});
    const Tensor seed = testing::tensor_of(context.arena, {1}, std::vector<float>{of_loss});
    return floats_of(tape.backward(loss, seed).of(x));
  };
  const std::vector<float> once = gradient(1.0f);
  const std::vector<float> twice = gradient(2.0f);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(twice[i], 2.0f * once[i]);
}

// Only a slice of the logits is held at once, not all of them.
TEST(ProjectedLoss, NeverHoldsAllLogits) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "these are the CPU's slices";
  Random random(3);
  Arena arena;
  constexpr int64_t kRows = 8 * kernels::kTokenSlice;
  constexpr int64_t kVocab = 1000;
  const Tensor x = random_tensor(arena, {kRows, 4}, random);
  const ops::LinearWeight output = ops::linear_weight(random_tensor(arena, {kVocab, 4}, random));
  const std::vector<int32_t> labels(kRows, 3);
  Context context(1);
  ops::projected_loss(context, x, output, labels, {}, ops::LossGradients::wanted);
  // Logits of a slice and their transpose, and small things besides.
  EXPECT_LT(context.arena.peak_bytes(), 3 * kernels::kTokenSlice * kVocab * int64_t{sizeof(float)});
}

}  // namespace
}  // namespace tril::loss_test
