#include "tril/train/optimizer.h"

#include <cmath>
#include <limits>

#include "support/models.h"

namespace tril::optimizer_test {
namespace {

using testing::Batch;
using testing::floats_of;
using testing::pack;
using testing::raised_by;

TransformerConfig config() { return testing::tiny_config(testing::Family::decoder_only); }

class Optimizer : public ::testing::Test {
 protected:
  // One step on a fixed batch; the loss is scaled by `factor`. The norm of its gradient.
  double step(AdamWOptimizer& optimizer, float factor, float rate = 1e-2f) {
    session_.reset();
    Tape tape(session_);
    const Tensor hidden = model_.forward(batch_.target, {}, session_);
    const Tensor loss = model_.loss(hidden, batch_.labels, {.factor = factor}, session_);
    loss_ = floats_of(loss)[0];
    optimizer.step(tape.backward(loss), rate, session_);
    return optimizer.last(session_).norm;
  }
  std::vector<float> weights() const {
    std::vector<float> all;
    for (const auto& parameter : model_.parameters()) {
      const auto values = floats_of(parameter.tensor);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  Transformer model_{config(), 1, testing::placement()};
  Session session_{model_, 1};
  Batch batch_ = pack({{{}, {1, 2, 3, 4}}}, config());
  float loss_ = 0.0f;
};

TEST_F(Optimizer, LowersTheLoss) {
  AdamWOptimizer optimizer(model_, {});
  step(optimizer, 0.25f);
  const float first = loss_;
  for (int i = 0; i < 20; ++i) step(optimizer, 0.25f);
  EXPECT_LT(loss_, 0.5f * first);
  EXPECT_EQ(optimizer.last(session_).steps, 21);
}

// With clipping the size of the gradient no longer matters: a loss a million times larger makes the
// same step, up to the rounding of the factor.
TEST_F(Optimizer, ClipsTheWholeGradient) {
  AdamWOptimizer one(model_, {.clip_norm = 1e-3});
  const auto start = weights();
  const double norm = step(one, 1.0f);
  const auto after = weights();
  Transformer again(config(), 1, testing::placement());
  model_ = again;
  AdamWOptimizer two(model_, {.clip_norm = 1e-3});
  EXPECT_NEAR(step(two, 1048576.0f) / norm, 1048576.0, 1048576.0 * 1e-5);
  const auto other = weights();
  for (size_t i = 0; i < start.size(); ++i) {
    ASSERT_NEAR(after[i] - start[i], other[i] - start[i], 1e-2 * 1e-3) << i;
  }
}

TEST_F(Optimizer, AGradientThatIsNotFiniteChangesNothing) {
  AdamWOptimizer optimizer(model_, {});
  step(optimizer, 1.0f);
  const auto before = weights();
  for (const float factor :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
    EXPECT_FALSE(std::isfinite(step(optimizer, factor)));
  }
  EXPECT_TRUE(testing::same_bits(weights(), before));
  EXPECT_EQ(optimizer.last(session_).steps, 1);
}

TEST_F(Optimizer, RejectsOptionsThatMakeNoSense) {
  EXPECT_EQ(raised_by([&] { AdamWOptimizer(model_, {.beta1 = 1.0f}); }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(raised_by([&] { AdamWOptimizer(model_, {.epsilon = 0.0f}); }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(raised_by([&] { AdamWOptimizer(model_, {.clip_norm = -1.0}); }).code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tril::optimizer_test
