#include "tril/kernels/dropout.h"

#include "kernels/gradient_check.h"
#include "kernels/rows_support.h"
#include "tril/kernels/reference/dropout.h"
#include "tril/ops/rows.h"

namespace tril::dropout_test {
namespace {

using testing::context_here;
using testing::here;
using testing::random_floats;
using testing::rows_of;
using testing::same_bits;

struct Case {
  kernels::Dropout args;
  std::vector<int32_t> sentences, positions;
  std::vector<float> x;

  Case(Random& random, int64_t rows, int64_t columns, float probability) {
    args = {.rows = rows,
            .columns = columns,
            .probability = probability,
            .seed = random.bits(),
            .step = random.bits(),
            .site = random.below(65536)};
    args.seed = args.seed << 32 | random.bits();
    x = here(random_floats(random, rows * columns));
    for (int64_t row = 0; row < rows; ++row) {
      sentences.push_back(static_cast<int32_t>(random.below(1u << 30)));
      positions.push_back(static_cast<int32_t>(random.below(500)));
    }
  }
  // Points into this case's own vectors, so that a case may be copied.
  kernels::Dropout bound() const {
    kernels::Dropout result = args;
    result.sentences = sentences.data();
    result.positions = positions.data();
    return result;
  }
};

struct Result {
  std::vector<float> y;
  std::vector<uint8_t> kept;
};
ops::Dropped dropped(Context& context, const Case& c) {
  const Shape shape = {c.args.rows, c.args.columns};
  const Tensor x = testing::activations_of(context, shape, c.x);
  testing::mark_memory(context, 8 * shape.size());
  return ops::dropout(context,
                      {.probability = c.args.probability,
                       .seed = c.args.seed,
                       .step = c.args.step,
                       .site = c.args.site,
                       .sentences = c.sentences,
                       .positions = c.positions},
                      x);
}
Result run_all(Context& context, const Case& c) {
  const ops::Dropped result = dropped(context, c);
  std::vector<uint8_t> kept(static_cast<size_t>(result.kept.size()));
  copy(Device::cpu, kept.data(), context.device(), result.kept.raw(), result.kept.size());
  return {testing::taken(result.y), kept};
}
std::vector<float> run(Context& context, const Case& c) { return run_all(context, c).y; }
std::vector<float> run(const Case& c) { return run(context_here(), c); }

std::vector<bool> kept(const Case& c) {
  std::vector<bool> mask;
  Case ones = c;
  ones.x.assign(c.x.size(), 1.0f);
  for (const float value : run(ones)) mask.push_back(value != 0.0f);
  return mask;
}

Case any_case(Random& random) {
  const auto columns = *rc::gen::oneOf(rc::gen::inRange<int64_t>(1, 700),
                                       rc::gen::element<int64_t>(64, 128, 256, 512, 1024, 2048));
  return {random, *rc::gen::inRange<int64_t>(0, 30), columns, random.uniform(0.0f, 0.9f)};
}

// Linear in x with a mask that does not see x, so the gradient is the same function on dy.
RC_GTEST_PROP(DropoutReference, GradientIsTheSameFunction, ()) {
  Random random = testing::seeded();
  const Case c(random, *rc::gen::inRange<int64_t>(0, 4), *rc::gen::inRange<int64_t>(1, 7),
               random.uniform(0.0f, 0.9f));
  const std::vector<double> x = testing::doubles_of(c.x);
  const std::vector<double> dy =
      testing::doubles_of(random_floats(random, static_cast<int64_t>(x.size())));
  // One product of at most 1 / (1 - 0.9).
  const double noise = testing::rounding_noise(dy, 10.0, 3);
  TRIL_HOLDS(testing::gradient_matches(
      [&](const auto& at) {
        return testing::weighted_sum(reference::dropout<double>(c.bound(), at), dy);
      },
      x, reference::dropout<double>(c.bound(), dy), noise));
}

RC_GTEST_PROP(Dropout, IsTheReferenceBitForBit, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const Result result = run_all(context_here(), c);
  TRIL_HOLDS(same_bits(result.y, here(reference::dropout<float>(c.bound(), c.x))));
  const int64_t row_bytes = kernels::dropout_row_bytes(c.args.columns);
  for (int64_t row = 0; row < c.args.rows; ++row) {
    for (int64_t f = 0; f < c.args.columns; ++f) {
      const bool kept = (result.kept[row * row_bytes + f / 8] >> f % 8 & 1) != 0;
      if (kept != reference::dropout_keeps(c.bound(), row, f)) {
        RC_FAIL("the bit of row " + std::to_string(row) + ", feature " + std::to_string(f));
      }
    }
  }
  // And within the roundings of 1 - p, the quotient and the product of the exact one.
  const std::vector<double> expected =
      reference::dropout<double>(c.bound(), testing::doubles_of(c.x));
  std::vector<double> bound;
  for (const double value : expected) bound.push_back(testing::gamma(3) * std::fabs(value));
  TRIL_HOLDS(testing::within(result.y, expected, testing::stored(expected, bound)));
}

// If p is not a multiple of 2^-16 the fraction just below it is dropped too, and the one above
// kept: p = 0.1f is 6553.6 / 2^16.
TEST(Dropout, DropsTheLastFractionBelowP) {
  Random random(0);
  Case c(random, 1, 1, 0.1f);
  c.args.seed = 1;
  c.args.step = 0;
  c.args.site = 0;
  c.sentences = {0};
  for (const uint32_t u : {6553u, 6554u}) {
    uint32_t position = 0;
    while ((philox(1, {0, 0, position, 0})[0] & 0xFFFFu) != u) ++position;
    c.positions = {static_cast<int32_t>(position)};
    EXPECT_EQ(reference::dropout_keeps(c.bound(), 0, 0), u == 6554u);
    EXPECT_EQ(run(c)[0] != 0.0f, u == 6554u);
  }
}

// The backward pass: for any dy the stored bits give the same as the random numbers.
RC_GTEST_PROP(Dropout, ByItsBitsIsTheSameFunction, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const std::vector<float> other = here(random_floats(random, static_cast<int64_t>(c.x.size())));
  const std::vector<float> expected = here(reference::dropout<float>(c.bound(), other));
  TRIL_HOLDS(testing::same_again([&](Context& context) {
    const Tensor kept = dropped(context, c).kept;
    const Tensor dy = testing::activations_of(context, {c.args.rows, c.args.columns}, other);
    testing::mark_memory(context, 4 * dy.size());
    const std::vector<float> dx =
        testing::taken(ops::dropout_gradient(context, c.args.probability, kept, dy));
    EXPECT_TRUE(same_bits(dx, expected));
    return dx;
  }));
}

TEST(Dropout, ThreadsAndTargetsChangeNothing) {
  Random random(1);
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 5}, {700, 131}, {7, 9001}}) {
    const Case c(random, rows, columns, 0.1f);
    EXPECT_TRUE(testing::same_again([&](Context& context) { return run(context, c); }));
  }
}

// A sentence's token gets the same mask in any batch and at any place.
RC_GTEST_PROP(Dropout, ARowDependsOnThatRowOnly, ()) {
  Random random = testing::seeded();
  const Case c(random, *rc::gen::inRange<int64_t>(1, 30), *rc::gen::inRange<int64_t>(1, 150), 0.5f);
  const auto row = *rc::gen::inRange<int64_t>(0, c.args.rows);
  Case alone = c;
  alone.args.rows = 1;
  alone.sentences = {c.sentences[row]};
  alone.positions = {c.positions[row]};
  alone.x = rows_of(c.x, c.args.columns, row, 1);
  TRIL_HOLDS(same_bits(run(context_here(1), alone), rows_of(run(c), c.args.columns, row, 1)));
}

// The number kept of n is binomial. Six standard deviations: twice in 10⁹ seeds by chance.
constexpr double kSigmas = 6.0;

RC_GTEST_PROP(Dropout, KeepsTheExpectation, ()) {
  Random random = testing::seeded();
  const float probability = *rc::gen::element(0.01f, 0.1f, 0.3f, 0.5f, 0.9f);
  const Case c(random, 40, 101, probability);
  const std::vector<bool> mask = kept(c);
  const auto n = static_cast<double>(mask.size());
  const auto p = static_cast<double>(probability);
  const auto count = static_cast<double>(std::count(mask.begin(), mask.end(), true));
  RC_ASSERT(std::fabs(count - n * (1.0 - p)) <= kSigmas * std::sqrt(n * p * (1.0 - p)));
}

// Every input of the mask matters: change one, and masks agree only as often as strangers do.
TEST(Dropout, EveryInputOfTheMaskMatters) {
  Random random(2);
  const float probability = 0.3f;
  const Case c(random, 60, 97, probability);
  std::vector<Case> others(5, c);
  others[0].args.seed ^= uint64_t{1} << 40;
  others[1].args.step += 1;
  others[2].args.site ^= 1;
  for (int32_t& sentence : others[3].sentences) ++sentence;
  for (int32_t& position : others[4].positions) position += 1000;
  const std::vector<bool> mask = kept(c);
  const auto n = static_cast<double>(mask.size());
  const auto p = static_cast<double>(probability);
  const double agree = p * p + (1.0 - p) * (1.0 - p);
  for (size_t which = 0; which < others.size(); ++which) {
    const std::vector<bool> other = kept(others[which]);
    double same = 0.0;
    for (size_t i = 0; i < mask.size(); ++i) same += mask[i] == other[i] ? 1.0 : 0.0;
    EXPECT_LE(std::fabs(same - n * agree), kSigmas * std::sqrt(n * agree * (1.0 - agree)))
        << "input " << which;
  }
}

TEST(Dropout, ProbabilityZeroIsTheIdentity) {
  Random random(3);
  const Case c(random, 9, 77, 0.0f);
  EXPECT_TRUE(same_bits(run(c), c.x));
}

TEST(Dropout, WorksInPlaceAndDropsNanToo) {
  Random random(4);
  Case c(random, 9, 77, 0.5f);
  const std::vector<float> clean = run(c);
  const std::vector<bool> mask = kept(c);
  std::vector<float> y = c.x;
  if (testing::device() == Device::cpu) {
    std::vector<uint8_t> bits(9 * kernels::dropout_row_bytes(77));
    kernels::dropout(Parallel(2), c.bound(), y.data(), y.data(), bits.data());
    EXPECT_TRUE(same_bits(y, clean));
  }
  for (size_t i = 100; i < 110; ++i) c.x[i] = NAN;
  y = run(c);
  for (size_t i = 0; i < y.size(); ++i) {
    if (mask[i] && i >= 100 && i < 110) {
      EXPECT_TRUE(std::isnan(y[i]));
    } else {
      EXPECT_TRUE(testing::same_float(y[i], clean[i]));
    }
  }
}

}  // namespace
}  // namespace tril::dropout_test
