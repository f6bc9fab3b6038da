#include "tril/autograd/tape.h"

#include <memory>

#include "support/testing.h"
#include "tril/autograd/functions.h"

namespace tril::tape_test {
namespace {

using testing::floats_of;
using testing::raised_by;

Tensor vector_of(Context& context, std::vector<float> values) {
  return testing::activations_of(context, {1, static_cast<int64_t>(values.size())}, values);
}

TEST(Tape, AddsContributionsAndLeavesSharedMemoryAlone) {
  Context context(1, testing::placement());
  const Tensor x = vector_of(context, {1, 2});
  Recording tape(context);
  tape.watch(x);
  // d = (x + x) + x: x has three contributions, and the first two share one buffer with d.
  const Tensor sum = autograd::add(context, x, x);
  const Tensor d = autograd::add(context, sum, x);
  const Tensor seed = vector_of(context, {10, 100});
  const Gradients gradients = tape.backward(d, seed);
  EXPECT_EQ(floats_of(gradients.of(x)), (std::vector<float>{30, 300}));
  EXPECT_EQ(floats_of(gradients.of(sum)), (std::vector<float>{10, 100}));
  EXPECT_EQ(floats_of(seed), (std::vector<float>{10, 100}));
}

TEST(Tape, RecordsOnlyWhatDependsOnSomethingWatched) {
  Context context(1, testing::placement());
  const Tensor x = vector_of(context, {1, -2});
  const Tensor y = vector_of(context, {3, 4});
  Recording tape(context);
  tape.watch(x);
  const Tensor unrelated = autograd::add(context, y, y);
  EXPECT_FALSE(tape.tracks(unrelated));
  const Tensor out = autograd::activation(context, ops::Activation::relu, x);
  EXPECT_TRUE(tape.tracks(out));
  const Gradients gradients = tape.backward(out, y);
  EXPECT_EQ(floats_of(gradients.of(x)), (std::vector<float>{3, 0}));
  EXPECT_EQ(raised_by([&] { gradients.of(unrelated); }).text,
            "gradients: this tensor was neither watched nor computed under the tape");
}

TEST(Tape, GivesNoGradientWhereTheLossDoesNotDepend) {
  Context context(1, testing::placement());
  const Tensor x = vector_of(context, {1});
  const Tensor y = vector_of(context, {1});
  Recording tape(context);
  tape.watch(x);
  tape.watch(y);
  const Gradients gradients = tape.backward(autograd::add(context, x, x));
  EXPECT_TRUE(gradients.of(x).defined());
  EXPECT_FALSE(gradients.of(y).defined());
}

TEST(Tape, SaysWhatIsWrong) {
  Context context(1, testing::placement());
  const Tensor x = vector_of(context, {1, 2});
  Recording tape(context);
  EXPECT_EQ(raised_by([&] { Recording second(context); }).text,
            "tape: another tape is recording on this context");
  EXPECT_EQ(raised_by([&] { tape.backward(x); }).text,
            "backward: expected a scalar loss, got [1, 2]");
  EXPECT_EQ(raised_by([&] { tape.backward(x, x); }).text,
            "backward: the tensor depends on nothing that is watched");
  tape.watch(x);
  EXPECT_EQ(raised_by([&] {
              autograd::add(context, x.reshaped({2, 1}).slice(0, 1), vector_of(context, {1}));
            }).code,
            ErrorCode::unsupported);
  const Tensor out = autograd::add(context, x, x);
  tape.backward(out, x);
  EXPECT_EQ(raised_by([&] { tape.backward(out, x); }).text, "backward: a tape can be walked once");
}

// Replacing a finished tape by a new one, as in a loop with a unique_ptr.
TEST(Tape, AFinishedTapeDoesNotEndTheNextOne) {
  Context context(1, testing::placement());
  const Tensor x = vector_of(context, {1});
  auto tape = std::make_unique<Recording>(context);
  tape->watch(x);
  tape->backward(autograd::add(context, x, x));
  auto next = std::make_unique<Recording>(context);
  tape.reset();
  EXPECT_EQ(context.tape, next.get());
}

TEST(Tape, EndsWithItsScope) {
  Context context(1, testing::placement());
  {
    Recording tape(context);
    EXPECT_EQ(context.tape, &tape);
  }
  EXPECT_EQ(context.tape, nullptr);
  Recording again(context);
}

// Hundreds of tensors: the table grows and finds them all.
// A function of two outputs gets a gradient for each, or none for one that nothing depends on.
TEST(Tape, AFunctionMayHaveSeveralOutputs) {
  for (const bool uses_both : {false, true}) {
    Context context(1, testing::placement());
    Recording tape(context);
    const Tensor x = testing::activations_of(context, {2}, std::vector<float>{1.0f, 2.0f});
    tape.watch(x);
    const Tensor outputs[] = {testing::activations_of(context, {2}, std::vector<float>{1, 2}),
                              testing::activations_of(context, {2}, std::vector<float>{3, 4})};
    int defined = 0;
    tape.record_all(outputs, [&defined, x](Recording& t, std::span<const Tensor> gradients) {
      for (const Tensor& gradient : gradients) {
        if (!gradient.defined()) continue;
        ++defined;
        t.accumulate(x, gradient, Recording::Ownership::shared);
      }
    });
    const Tensor result = uses_both ? autograd::add(context, outputs[0], outputs[1]) : outputs[1];
    const Tensor seed = testing::activations_of(context, {2}, std::vector<float>{5.0f, 7.0f});
    const std::vector<float> dx = testing::floats_of(tape.backward(result, seed).of(x));
    EXPECT_EQ(defined, uses_both ? 2 : 1);
    const float times = uses_both ? 2.0f : 1.0f;
    EXPECT_EQ(dx, (std::vector<float>{5.0f * times, 7.0f * times}));
  }
}

TEST(Tape, HoldsManyTensors) {
  Context context(1, testing::placement());
  Random random(1);
  Recording tape(context);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 700; ++i) {
    inputs.push_back(vector_of(context, testing::random_floats(random, 3)));
    tape.watch(inputs.back());
  }
  Tensor sum = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) sum = autograd::add(context, sum, inputs[i]);
  const Gradients gradients = tape.backward(sum, vector_of(context, {1, 2, 3}));
  for (const Tensor& input : inputs) {
    ASSERT_EQ(floats_of(gradients.of(input)), (std::vector<float>{1, 2, 3}));
  }
}

}  // namespace
}  // namespace tril::tape_test
