#include "tril/kernels/cross_entropy.h"

#include "kernels/gradient_check.h"
#include "kernels/rows_support.h"
#include "tril/base/math.h"
#include "tril/kernels/cuda/launches.h"
#include "tril/kernels/reference/cross_entropy.h"
#include "tril/ops/on_cuda.h"

namespace tril::cross_entropy_test {
namespace {

using testing::context_here;
using testing::doubles_of;
using testing::gamma;
using testing::Guarded;
using testing::kUnit;
using testing::random_floats;
using testing::rows_of;
using testing::same_bits;

struct Case {
  int64_t rows = 0, vocab = 0;
  float smoothing = 0.0f;
  float factor = 1.0f;
  std::vector<int32_t> labels;
  std::vector<float> logits;

  // Every fifth label or so is -1.
  Case(Random& random, int64_t row_count, int64_t vocab_size, float range, float smooth)
      : rows(row_count), vocab(vocab_size), smoothing(smooth) {
    logits = random_floats(random, rows * vocab);
    for (float& value : logits) value *= range;
    for (int64_t row = 0; row < rows; ++row) {
      labels.push_back(random.below(5) == 0
                           ? -1
                           : static_cast<int32_t>(random.below(static_cast<uint32_t>(vocab))));
    }
    factor = random.uniform(-1.0f, 1.0f);
  }
  kernels::CrossEntropy args() const {
    return {.rows = rows,
            .vocab = vocab,
            .smoothing = smoothing,
            .labels = labels.data(),
            .logits = logits.data()};
  }
  reference::CrossEntropyCase<double> reference() const {
    return {rows, vocab, static_cast<double>(smoothing), labels};
  }
  Case part(int64_t first, int64_t count) const {
    Case result = *this;
    result.rows = count;
    result.logits = rows_of(logits, vocab, first, count);
    result.labels.assign(labels.begin() + first, labels.begin() + first + count);
    return result;
  }
};

struct Result {
  std::vector<float> normalisers, log_probs, norms, losses, dlogits;

  std::vector<float> all() const {
    std::vector<float> joined;
    for (const auto* part : {&normalisers, &log_probs, &norms, &losses, &dlogits}) {
      joined.insert(joined.end(), part->begin(), part->end());
    }
    return joined;
  }
};

// On CUDA logits may lie in longer rows, whose ends get gradients of zero.
enum class Rows { dense, padded };

Result run_on_cuda(Context& context, const Case& c, Rows lie) {
  Result result;
  const int64_t stride = lie == Rows::padded ? (c.vocab + 64) / 64 * 64 : c.vocab;
  std::vector<float> lying(static_cast<size_t>(c.rows * stride), NAN);
  for (int64_t row = 0; row < c.rows; ++row) {
    std::copy_n(c.logits.begin() + row * c.vocab, c.vocab, lying.begin() + row * stride);
  }
  const Tensor logits = testing::tensor_of(context.arena, {c.rows, stride}, lying);
  const int32_t* labels = context.uploaded(std::span<const int32_t>(c.labels));
  const float* factor = context.uploaded(c.factor);
  testing::mark_memory(context, 16 * c.rows * (stride + 64));
  const Tensor normalisers(context.arena, {c.rows}), norms(context.arena, {c.rows});
  const Tensor losses(context.arena, {c.rows}), log_probs(context.arena, {c.rows, c.vocab});
  const Tensor dlogits(context.arena, {c.rows, stride}, context.activations);
  ops::with_activation_type(context.activations, [&]<class T>(T) {
    namespace cuda = kernels::cuda;
    const float* x = logits.on_device();
    context.launch(cuda::softmax_normalisers, {.logits = x,
                                               .rows = c.rows,
                                               .vocab = c.vocab,
                                               .stride = stride,
                                               .norms = normalisers.on_device()});
    context.launch(cuda::subtract_rows, {.logits = x,
                                         .norms = normalisers.on_device(),
                                         .rows = c.rows,
                                         .vocab = c.vocab,
                                         .stride = stride,
                                         .out = log_probs.on_device()});
    context.launch(cuda::cross_entropy<T>, {.rows = c.rows,
                                            .vocab = c.vocab,
                                            .stride = stride,
                                            .smoothing = c.smoothing,
                                            .labels = labels,
                                            .logits = x,
                                            .factor = factor,
                                            .norms = norms.on_device(),
                                            .losses = losses.on_device(),
                                            .dlogits = dlogits.on_device<T>()});
  });
  using testing::taken;
  const std::vector<float> gradients = taken(dlogits);
  for (int64_t row = 0; row < c.rows; ++row) {
    const auto of_row = gradients.begin() + row * stride;
    result.dlogits.insert(result.dlogits.end(), of_row, of_row + c.vocab);
    for (int64_t j = c.vocab; j < stride; ++j) {
      EXPECT_TRUE(testing::same_float(gradients[row * stride + j], 0.0f))
          << "row " << row << ", past the vocabulary, " << j;
    }
  }
  result.normalisers = taken(normalisers);
  result.log_probs = taken(log_probs);
  result.norms = taken(norms);
  result.losses = taken(losses);
  return result;
}

Result run_on_cpu(const Parallel& parallel, const Case& c) {
  Guarded normalisers(c.rows), norms(c.rows), losses(c.rows);
  Guarded log_probs(c.rows * c.vocab), dlogits(c.rows * c.vocab);
  kernels::softmax_normalisers(parallel, c.logits.data(), c.rows, c.vocab, normalisers.data());
  kernels::subtract_rows(parallel, c.logits.data(), normalisers.data(), c.rows, c.vocab,
                         log_probs.data());
  kernels::cross_entropy_forward(parallel, c.args(), norms.data(), losses.data());
  kernels::cross_entropy_backward(parallel, c.args(), norms.data(), &c.factor, dlogits.data());
  return {normalisers.take(), log_probs.take(), norms.take(), losses.take(), dlogits.take()};
}

Result run(Context& context, const Case& c, Rows lie = Rows::padded) {
  if constexpr (kCudaBuilt) {
    if (context.device().type == DeviceType::cuda) return run_on_cuda(context, c, lie);
  }
  return run_on_cpu(context.parallel, c);
}
Result run(const Case& c, Rows lie = Rows::padded) { return run(context_here(), c, lie); }

Case any_case(Random& random) {
  return {random, *rc::gen::inRange<int64_t>(0, 30), *rc::gen::inRange<int64_t>(1, 150),
          *rc::gen::element(1.0f, 10.0f, 100.0f), *rc::gen::element(0.0f, 0.1f, 0.3f)};
}

RC_GTEST_PROP(CrossEntropyReference, GradientIsThatOfFiniteDifferences, ()) {
  Random random = testing::seeded();
  const Case c(random, *rc::gen::inRange<int64_t>(0, 4), *rc::gen::inRange<int64_t>(1, 9), 3.0f,
               *rc::gen::element(0.0f, 0.1f, 0.9f));
  const auto factor = static_cast<double>(c.factor);
  const std::vector<double> logits = doubles_of(c.logits);
  const std::vector<double> slopes(c.rows, factor);
  const auto loss = [&](const std::vector<double>& at) {
    return testing::weighted_sum(reference::cross_entropy<double>(c.reference(), at), slopes);
  };
  // Logits are within 3, so log p and the loss are below 6 + log 9 < 9: sums of vocab terms, each
  // with one exp, one log and four more operations.
  const double noise = testing::rounding_noise(slopes, 9.0, 4 * c.vocab + 8);
  TRIL_HOLDS(testing::gradient_matches(
      loss, logits, reference::cross_entropy_gradient<double>(c.reference(), logits, factor),
      noise));
}

// Errors of one row, to first order in u:
//   e^(x - top): u |x - top| for the difference, and one exp;
//   their sum: gamma_vocab of it; its logarithm turns a relative error into an absolute one;
//   the logarithm rounded to fp32, then the sum with top: u each.
// On CUDA a term is scaled to a larger top again and again: by its thread once a pack at most, and
// ten times when threads are joined. The differences of tops add up to what top - x is; each time
// there is one more exp and one more product.
double normaliser_error(std::span<const double> x) {
  const auto terms = static_cast<int64_t>(x.size());
  const int64_t scalings = testing::device() == Device::cpu ? 0 : terms / 8192 + 11;
  const double of_scaling = static_cast<double>(scalings) * (testing::exp_relative() + kUnit);
  const double top = *std::max_element(x.begin(), x.end());
  const double norm = reference::softmax_normaliser<double>(x);
  double sum = 0.0;
  double error = 0.0;
  for (const double value : x) {
    const double e = std::exp(value - top);
    sum += e;
    error += testing::exp_error_here(e, kUnit * (top - value)) + e * of_scaling +
             static_cast<double>(scalings) * testing::kSmallestFloat;
  }
  const double relative = error / sum + gamma(terms + scalings) * (1.0 + error / sum);
  return relative * (1.0 + relative) + kUnit * (std::fabs(norm - top) + std::fabs(norm)) +
         gamma(2) * relative;
}

RC_GTEST_PROP(CrossEntropy, IsTheReferenceWithinRounding, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const Result result = run(c, *rc::gen::element(Rows::dense, Rows::padded));
  const std::vector<double> logits = doubles_of(c.logits);
  const auto s = static_cast<double>(c.smoothing);
  const auto g = std::fabs(static_cast<double>(c.factor));
  const auto n = static_cast<double>(c.vocab);
  std::vector<double> norms, bound_norms, bound_probs, bound_losses, bound_dlogits;
  for (int64_t row = 0; row < c.rows; ++row) {
    const auto x = std::span<const double>(logits).subspan(row * c.vocab, c.vocab);
    const double norm = reference::softmax_normaliser<double>(x);
    const double d_norm = normaliser_error(x);
    norms.push_back(norm);
    bound_norms.push_back(d_norm);
    double mean_abs = 0.0;
    for (const double value : x) {
      mean_abs += std::fabs(value) / n;
      bound_probs.push_back(d_norm + kUnit * (std::fabs(value - norm) + d_norm));
    }
    const int32_t label = c.labels[row];
    if (label < 0) {
      bound_losses.push_back(0.0);
      bound_dlogits.insert(bound_dlogits.end(), c.vocab, 0.0);
      continue;
    }
    // Three summands: each with a product and a rounded factor, two subtractions; the mean besides
    // is a sum of vocab terms times a rounded 1/vocab.
    const double size = std::fabs(norm) + (1.0 - s) * std::fabs(x[label]) + s * mean_abs;
    bound_losses.push_back(d_norm + gamma(4) * (size + d_norm) + gamma(c.vocab + 2) * s * mean_abs);
    for (int64_t j = 0; j < c.vocab; ++j) {
      // p's argument is off by the norm's error and its own rounding; then up to two rounded
      // subtrahends, two differences and the factor.
      const double p = std::exp(x[j] - norm);
      const double d_p =
          testing::exp_error_here(p, d_norm + kUnit * (std::fabs(x[j] - norm) + d_norm));
      const double terms = p + d_p + s / n + (j == label ? 1.0 - s : 0.0);
      bound_dlogits.push_back(g * (d_p + gamma(4) * terms) + testing::kSmallestFloat);
    }
  }
  TRIL_HOLDS(testing::within(result.normalisers, norms, bound_norms));
  TRIL_HOLDS(testing::within(result.log_probs,
                             reference::log_probs<double>(c.rows, c.vocab, logits), bound_probs));
  TRIL_HOLDS(testing::within(result.losses, reference::cross_entropy<double>(c.reference(), logits),
                             bound_losses));
  const std::vector<double> dlogits = reference::cross_entropy_gradient<double>(
      c.reference(), logits, static_cast<double>(c.factor));
  TRIL_HOLDS(testing::within(result.dlogits, dlogits, testing::stored(dlogits, bound_dlogits)));
}

// The sum of a row's logits: by lanes, or on CUDA packs of eight by 1,024 threads.
float sum_of_logits(std::span<const float> x) {
  if (testing::device() == Device::cpu) return testing::lane_sum(x);
  std::vector<float> threads(1024);
  for (size_t i = 0; i < x.size(); ++i) threads[i / 8 % 1024] = threads[i / 8 % 1024] + x[i];
  return testing::folded(threads);
}

// Given the normaliser, the rest of the loss in the contract's order. (simd_test.cpp does the
// normaliser, with the vector exp at hand.)
RC_GTEST_PROP(CrossEntropy, LossFollowsItsOrderBitForBit, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const Result result = run(c);
  for (int64_t row = 0; row < c.rows; ++row) {
    const std::vector<float> x = rows_of(c.logits, c.vocab, row, 1);
    const int32_t label = c.labels[row];
    float expected = 0.0f;
    if (label >= 0) {
      RC_ASSERT(testing::same_float(result.norms[row], result.normalisers[row]));
      expected = result.norms[row] - x[label];
      if (c.smoothing > 0.0f) {
        const float mean = sum_of_logits(x) * (1.0f / static_cast<float>(c.vocab));
        expected = result.norms[row] - (1.0f - c.smoothing) * x[label] - c.smoothing * mean;
      } else {
        // Scoring and training give one number: the loss is the log-probability, negated.
        RC_ASSERT(testing::same_float(expected, -result.log_probs[row * c.vocab + label]) ||
                  expected == 0.0f);
      }
    }
    RC_ASSERT(testing::same_float(result.losses[row], expected));
  }
}

// e^0 is exactly 1, so equal logits give log(vocab) exactly as base/math.h has it.
TEST(CrossEntropy, EqualLogitsGiveTheLogarithmOfTheirNumber) {
  Random random(5);
  for (const int64_t vocab : {1, 2, 15, 16, 17, 100, 1000, 32000}) {
    Case c(random, 1, vocab, 1.0f, 0.0f);
    c.logits.assign(static_cast<size_t>(vocab), 0.5f);
    EXPECT_EQ(run(c).normalisers[0],
              0.5f + static_cast<float>(math::log(static_cast<double>(vocab))));
  }
}

TEST(CrossEntropy, ThreadsAndTargetsChangeNothing) {
  Random random(1);
  for (const auto& [rows, vocab] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 7}, {140, 149}, {9, 20011}, {1, 33}}) {
    for (const float smoothing : {0.0f, 0.1f}) {
      const Case c(random, rows, vocab, 10.0f, smoothing);
      EXPECT_TRUE(testing::same_again([&](Context& context) { return run(context, c).all(); }));
      EXPECT_TRUE(same_bits(run(c, Rows::dense).all(), run(c, Rows::padded).all()));
    }
  }
}

RC_GTEST_PROP(CrossEntropy, ARowDependsOnThatRowOnly, ()) {
  Random random = testing::seeded();
  const Case c(random, *rc::gen::inRange<int64_t>(1, 40), *rc::gen::inRange<int64_t>(1, 150), 10.0f,
               0.1f);
  const auto first = *rc::gen::inRange<int64_t>(0, c.rows);
  const auto count = *rc::gen::inRange<int64_t>(1, c.rows - first + 1);
  const Result whole = run(c);
  const Result part = run(context_here(1), c.part(first, count), Rows::dense);
  TRIL_HOLDS(same_bits(part.normalisers, rows_of(whole.normalisers, 1, first, count)));
  TRIL_HOLDS(same_bits(part.log_probs, rows_of(whole.log_probs, c.vocab, first, count)));
  TRIL_HOLDS(same_bits(part.losses, rows_of(whole.losses, 1, first, count)));
  TRIL_HOLDS(same_bits(part.dlogits, rows_of(whole.dlogits, c.vocab, first, count)));
}

TEST(CrossEntropy, PaddingRowsAreExactlyZeroWhateverTheyHold) {
  Random random(2);
  for (const float smoothing : {0.0f, 0.1f}) {
    Case c(random, 6, 37, 5.0f, smoothing);
    c.labels = {3, -1, 36, -1, 0, 1};
    for (int64_t j = 0; j < c.vocab; ++j) c.logits[c.vocab + j] = NAN;
    c.logits[3 * c.vocab] = INFINITY;
    const Result result = run(c);
    for (const int64_t row : {1, 3}) {
      EXPECT_TRUE(testing::same_float(result.losses[row], 0.0f));
      EXPECT_TRUE(same_bits(rows_of(result.dlogits, c.vocab, row, 1), std::vector<float>(c.vocab)));
    }
    for (const int64_t row : {0, 2, 4, 5}) EXPECT_GT(result.losses[row], 0.0f);
  }
}

TEST(CrossEntropy, NanStaysInItsRow) {
  Random random(3);
  Case c(random, 5, 37, 5.0f, 0.1f);
  c.labels = {1, 2, 3, 4, 5};
  const Result clean = run(c);
  // In every place of the row, also where the largest is looked for.
  for (int64_t at = 0; at < c.vocab; ++at) {
    Case dirty = c;
    dirty.logits[2 * c.vocab + at] = NAN;
    const Result result = run(dirty);
    for (const int64_t row : {0, 1, 3, 4}) {
      EXPECT_TRUE(testing::same_float(result.losses[row], clean.losses[row]));
      EXPECT_TRUE(same_bits(rows_of(result.dlogits, c.vocab, row, 1),
                            rows_of(clean.dlogits, c.vocab, row, 1)));
    }
    EXPECT_TRUE(std::isnan(result.normalisers[2])) << "NaN at " << at;
    EXPECT_TRUE(std::isnan(result.losses[2])) << "NaN at " << at;
  }
}

// A logit of -infinity is a word that cannot be: probability zero, no NaN.
TEST(CrossEntropy, MinusInfinityIsProbabilityZero) {
  Random random(6);
  Case c(random, 1, 3, 1.0f, 0.0f);
  c.labels = {0};
  c.factor = 1.0f;
  c.logits = {1.0f, -INFINITY, 1.0f};
  const Result result = run(c);
  EXPECT_EQ(result.norms[0], 1.0f + static_cast<float>(math::log(2.0)));
  EXPECT_EQ(result.losses[0], result.norms[0] - 1.0f);
  EXPECT_EQ(result.dlogits[1], 0.0f);
  EXPECT_FALSE(std::isnan(result.dlogits[0]) || std::isnan(result.dlogits[2]));
  // Whole packs of them, before and after the only possible word.
  Case many(random, 1, 3000, 1.0f, 0.0f);
  many.labels = {1700};
  many.logits.assign(3000, -INFINITY);
  many.logits[1700] = -2.0f;
  EXPECT_EQ(run(many).norms[0], -2.0f);
  EXPECT_EQ(run(many).losses[0], 0.0f);
}

TEST(CrossEntropy, WorksInPlace) {
  if (testing::device() != Device::cpu)
    GTEST_SKIP() << "on a device gradients have memory of their own";
  Random random(4);
  const Case c(random, 9, 37, 5.0f, 0.1f);
  const Result expected = run(c);
  Case in_place = c;
  kernels::cross_entropy_backward(Parallel(2), in_place.args(), expected.norms.data(), &c.factor,
                                  in_place.logits.data());
  EXPECT_TRUE(same_bits(in_place.logits, expected.dlogits));
  in_place = c;
  kernels::subtract_rows(Parallel(2), in_place.logits.data(), expected.normalisers.data(), c.rows,
                         c.vocab, in_place.logits.data());
  EXPECT_TRUE(same_bits(in_place.logits, expected.log_probs));
}

float total_of(Context& context, const std::vector<float>& losses, float factor) {
  const auto rows = static_cast<int64_t>(losses.size());
  if constexpr (kCudaBuilt) {
    if (context.device().type == DeviceType::cuda) {
      const Tensor there = testing::tensor_of(context.arena, {rows}, losses);
      const Tensor total(context.arena, {1});
      const float* by = context.uploaded(factor);
      context.launch(
          kernels::cuda::total_loss,
          {.losses = there.on_device(), .rows = rows, .factor = by, .total = total.on_device()});
      return to_floats(total)[0];
    }
  }
  return kernels::total_loss(losses.data(), rows, factor);
}

// The total is the factor times the rows' losses, added in double in ascending order; on CUDA by
// 1,024 threads.
TEST(CrossEntropy, TheTotalIsAnOrderedSum) {
  Random random(12);
  for (const int64_t rows : {0, 1, 29, 1024, 5000}) {
    const std::vector<float> losses = random_floats(random, rows);
    std::vector<double> chains(testing::device() == Device::cpu ? 1 : 1024);
    for (size_t row = 0; row < losses.size(); ++row) {
      chains[row % chains.size()] += static_cast<double>(losses[row]);
    }
    const double sum = chains.size() == 1 ? chains[0] : testing::folded(chains);
    EXPECT_EQ(total_of(context_here(), losses, 0.37f),
              static_cast<float>(sum * static_cast<double>(0.37f)))
        << rows << " rows";
  }
}

}  // namespace
}  // namespace tril::cross_entropy_test
