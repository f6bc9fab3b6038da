// Operations on rows in steps that are kept as graphs (device/queue.h): what changes from step to
// step reaches the device, and a graph never runs for another step.
#include <functional>

#include "kernels/rows_support.h"
#include "tril/ops/optimizer.h"
#include "tril/ops/rows.h"

namespace tril::rows_steps_test {
namespace {

using testing::activations_of;
using testing::random_floats;
using testing::same_bits;

constexpr int64_t kRows = 6, kColumns = 48;
constexpr int kSteps = 7;  // more than it takes until a graph is kept

// Runs body(context) in a step, and returns the contents of its tensor.
template <class F>
std::vector<float> step(Context& context, const F& body) {
  Tensor result;
  context.queue.step([&] {
    context.reset();
    result = body();
  });
  return to_floats(result);
}

void expect_graphs(const Context& context) {
  EXPECT_TRUE(context.device() == Device::cpu || context.queue.graphs() > 0);
}

TEST(RowsInSteps, SeedsAndIdsAreThoseOfTheStep) {
  Random random(1);
  Arena arena(testing::device());
  Context context(1, testing::placement());
  Context direct(1, testing::placement());
  const Tensor table = testing::random_tensor(arena, {30, kColumns}, random);
  const Tensor weight = testing::random_tensor(arena, {kColumns}, random);
  for (int number = 0; number < kSteps; ++number) {
    std::vector<int32_t> ids, places;
    for (int64_t row = 0; row < kRows; ++row) {
      ids.push_back(static_cast<int32_t>(random.below(30)));
      places.push_back(static_cast<int32_t>(random.below(500)));
    }
    const auto body = [&](Context& on) {
      ops::Lookup lookup;
      lookup.ids = ids;
      lookup.table = table;
      const Tensor x = ops::embedding(on, lookup);
      const ops::DropoutKey key{.probability = 0.3f,
                                .seed = 5,
                                .step = static_cast<uint32_t>(number),
                                .site = 2,
                                .sentences = ids,
                                .positions = places};
      const ops::ResidualNorm normed =
          ops::residual_norm(on, ops::NormKind::rms, 1e-5f, x, x, key, weight, {});
      return ops::embedding_gradient(on, ids, 30, 2.0f, ops::dropout(on, key, normed.y).y);
    };
    const std::vector<float> in_step = step(context, [&] { return body(context); });
    direct.reset();
    EXPECT_TRUE(same_bits(in_step, to_floats(body(direct)))) << "step " << number;
  }
  expect_graphs(context);
}

// Steps of one size that differ in a constant, or in memory that is not the step's.
TEST(RowsInSteps, AGraphDoesNotRunForAnotherStep) {
  Random random(2);
  Context outer(1, testing::placement());  // whose memory lives longer than a step
  Context context(1, testing::placement());
  Context direct(1, testing::placement());
  const auto some = [&] {
    return activations_of(outer, {kRows, kColumns}, random_floats(random, kRows * kColumns));
  };
  const Tensor a = some(), b = some();
  const Tensor weight = testing::random_tensor(outer.arena, {kColumns}, random);
  const Tensor other_weight = testing::random_tensor(outer.arena, {kColumns}, random);
  using Body = std::function<Tensor(Context&)>;
  const auto norm = [](const Tensor& x, const Tensor& by, float epsilon) -> Body {
    return [=](Context& on) { return ops::norm(on, ops::NormKind::rms, epsilon, x, by, {}).y; };
  };
  const auto activation = [](ops::Activation kind, const Tensor& x) -> Body {
    return [=](Context& on) { return ops::activation(on, kind, x); };
  };
  const std::vector<Body> bodies = {
      activation(ops::Activation::relu, a),
      activation(ops::Activation::gelu, a),
      activation(ops::Activation::gelu, b),
      norm(a, weight, 1e-5f),
      norm(a, other_weight, 1e-5f),
      norm(b, other_weight, 1e-5f),
      norm(b, other_weight, 1.0f),
      [&](Context& on) { return ops::add(on, a, b); },
      [&](Context& on) { return ops::add(on, a, a); },
      [&](Context& on) { return ops::filled(on, {kRows}, 1.0f, on.activations); },
      [&](Context& on) { return ops::filled(on, {kRows}, 2.0f, on.activations); },
  };
  for (size_t which = 0; which < bodies.size(); ++which) {
    direct.reset();
    const std::vector<float> expected = to_floats(bodies[which](direct));
    for (int number = 0; number < kSteps; ++number) {
      const std::vector<float> result = step(context, [&] { return bodies[which](context); });
      EXPECT_TRUE(same_bits(result, expected)) << "step " << number << " of body " << which;
    }
  }
  expect_graphs(context);
}

// The rate of each update, and the optimiser's own count of them.
TEST(RowsInSteps, UpdatesGoOn) {
  Random random(3);
  const std::vector<float> start = random_floats(random, 5000);
  const std::vector<float> gradient = random_floats(random, 5000);
  enum class How { in_steps, directly };
  const auto updated = [&](How how) {
    Arena arena(testing::device());
    Context context(1, testing::placement());
    ops::UpdateTensor tensor;
    for (Tensor* part : {&tensor.weight, &tensor.first, &tensor.second, &tensor.gradient}) {
      *part = testing::tensor_of(arena, {5000}, start);
    }
    copy_into(testing::tensor_of(arena, {5000}, gradient), tensor.gradient);
    copy_into(testing::tensor_of(arena, {5000}, std::vector<float>(5000, 0.5f)), tensor.second);
    ops::AdamW adamw(context.device(), {});
    for (int number = 1; number <= kSteps; ++number) {
      const float rate = 1e-3f * static_cast<float>(number);
      const auto update = [&] {
        context.reset();
        adamw.update(context, {&tensor, 1}, rate);
      };
      if (how == How::in_steps) {
        context.queue.step(update);
      } else {
        update();
      }
    }
    EXPECT_EQ(adamw.last(context).steps, kSteps);
    if (how == How::in_steps) expect_graphs(context);
    return to_floats(tensor.weight);
  };
  EXPECT_TRUE(same_bits(updated(How::in_steps), updated(How::directly)));
}

}  // namespace
}  // namespace tril::rows_steps_test
