#include "tril/prove/for_every_input.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/models.h"
#include "support/property.h"

namespace tril::for_every_input_test {
namespace {

using testing::Family;

constexpr const char* kOnCpu = "expressions have no device";

TransformerConfig two_layers(Family family) {
  TransformerConfig config = testing::tiny_config(family);
  config.decoder_layers = 2;
  return config;
}
EveryInputOptions short_options() {
  EveryInputOptions options;
  options.length = 5;
  options.source_length = 3;
  options.neighbour = 2;
  options.threads = 2;
  return options;
}

::testing::AssertionResult holds(const EveryInputResult& result) {
  if (result.holds()) return ::testing::AssertionSuccess();
  ::testing::AssertionResult failure = ::testing::AssertionFailure();
  failure << result.differing << " differ, " << result.forbidden << " reach too far, "
          << result.wrong_masks << " masks, " << result.distinct << " of "
          << result.expected_distinct << " distinct";
  if (result.first_difference) failure << "; " << to_string(*result.first_difference);
  if (result.first_leak) failure << "; " << to_string(*result.first_leak);
  return failure;
}

// Every norm, position, activation, window and kind of head.
RC_GTEST_PROP(EveryInput, HoldsForAnyConfiguration, ()) {
  if (testing::device() != Device::cpu) return;
  const TransformerConfig config = testing::random_config();
  EveryInputOptions options = short_options();
  options.length = *rc::gen::inRange(1, 8);
  options.compute =
      *rc::gen::element(Compute::fp32, Compute::bf16, Compute::int8, Compute::bf16_dot);
  if (config.decoder_only()) options.prefix = *rc::gen::inRange<int64_t>(0, options.length + 1);
  const EveryInputResult result = prove_for_every_input(config, options);
  const ::testing::AssertionResult verdict = holds(result);
  if (!verdict) RC_FAIL(std::string(verdict.message()));
}

TEST(EveryInput, HoldsForTheGoldenConfigurations) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::golden_folder())) {
    const std::string path = entry.path().string() + "/config.json";
    if (!std::filesystem::exists(path)) continue;
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_TRUE(holds(prove_for_every_input(config_from_json(text.str(), path), short_options())))
        << path;
    ++count;
  }
  EXPECT_GE(count, 10);
}

// Blocks of keys are 64: rows beyond see several, with rescaling in between.
TEST(EveryInput, HoldsAcrossBlocks) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  options.length = 131;
  options.every_length = false;
  const EveryInputResult result =
      prove_for_every_input(two_layers(Family::encoder_decoder), options);
  EXPECT_TRUE(holds(result));
  EXPECT_EQ(result.passes, 1);
}

TEST(EveryInput, AWidenedHeadIsNamed) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  options.hooks.widen_layer = 1;
  options.hooks.widen_head = 1;
  const EveryInputResult result =
      prove_for_every_input(two_layers(Family::encoder_decoder), options);
  EXPECT_GT(result.forbidden, 0);
  ASSERT_TRUE(result.first_leak && result.first_difference);
  EXPECT_EQ(result.first_leak->layer, 1);
  EXPECT_EQ(result.first_leak->head, 1);
  EXPECT_EQ(result.first_leak->site, "attention");
  EXPECT_EQ(result.first_leak->position, 0);
  EXPECT_EQ(result.first_leak->reached, 1);
  EXPECT_EQ(result.first_difference->layer, 1);
  EXPECT_EQ(result.first_difference->head, 1);
}

TEST(EveryInput, AMaskThatIsOffByOneReachesTheNextToken) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  options.hooks.widen_head = TestHooks::kAllHeads;
  const EveryInputResult result = prove_for_every_input(two_layers(Family::decoder_only), options);
  ASSERT_TRUE(result.first_leak);
  EXPECT_EQ(result.first_leak->layer, 0);
  EXPECT_EQ(result.first_leak->head, 0);
}

TEST(EveryInput, AMaskThatIsTooNarrowIsNamed) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  options.hooks.narrow_position = 2;
  options.hooks.narrow_layer = 1;
  const EveryInputResult result =
      prove_for_every_input(two_layers(Family::encoder_decoder), options);
  EXPECT_EQ(result.differing, 0);  // both passes have the same mask
  EXPECT_EQ(result.forbidden, 0);
  ASSERT_TRUE(result.first_wrong_mask);
  EXPECT_EQ(result.first_wrong_mask->layer, 1);
  EXPECT_EQ(result.first_wrong_mask->position, 2);
  EXPECT_FALSE(result.holds());
}

TEST(EveryInput, NoMaskLeaksEverywhere) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  options.masking = Masking::none;
  const EveryInputResult result = prove_for_every_input(two_layers(Family::decoder_only), options);
  EXPECT_GT(result.differing, 0);
  ASSERT_TRUE(result.first_leak);
  EXPECT_EQ(result.first_leak->layer, 0);
}

// What leaks nothing but is another expression: it differs, and the first place is named.
TEST(EveryInput, OtherOrdersAreOtherExpressions) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  const auto first_of = [&](const EveryInputOptions& given) {
    const EveryInputResult result =
        prove_for_every_input(two_layers(Family::encoder_decoder), given);
    EXPECT_FALSE(result.holds());
    EXPECT_GT(result.differing, 0);
    return result.first_difference.value_or(EveryInputPlace{});
  };
  options.hooks = {};
  options.hooks.shift_cache = true;
  EXPECT_EQ(first_of(options).site, "attention");
  options.hooks = {};
  options.hooks.split_sums = true;
  EXPECT_EQ(first_of(options).site, "query");
  // Several blocks are needed to tell these.
  options.length = 70;
  options.every_length = false;
  options.hooks = {};
  options.hooks.order_by_batch = true;
  const EveryInputPlace order = first_of(options);
  EXPECT_EQ(order.site, "attention");
  EXPECT_EQ(order.layer, 0);
  EXPECT_EQ(order.position, 64);  // the first row with a second block
  options.hooks = {};
  options.hooks.skip_rescaling = true;
  const EveryInputPlace rescaled = first_of(options);
  EXPECT_EQ(rescaled.site, "attention");
  EXPECT_EQ(rescaled.position, 64);
}

TEST(EveryInput, AForbiddenKeyTimesZeroLeaks) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  options.hooks.multiply_forbidden = true;
  const EveryInputResult result = prove_for_every_input(two_layers(Family::decoder_only), options);
  EXPECT_GT(result.differing, 0);
  ASSERT_TRUE(result.first_leak);
  EXPECT_EQ(result.first_leak->site, "attention");
}

TEST(EveryInput, HashesTellExpressionsApart) {
  const Expression a = weight_leaf(1, 0);
  const Expression b = weight_leaf(1, 1);
  const Expression c = weight_leaf(2, 0);
  std::vector<Expression> made = {a, b, c, constant_leaf(0.0f), constant_leaf(-0.0f)};
  for (const auto operation : {Operation::add, Operation::subtract, Operation::multiply}) {
    made.push_back(expression(operation, a, b));
    made.push_back(expression(operation, b, a));
  }
  made.push_back(expression(Operation::fma, a, b, c));
  made.push_back(expression(Operation::add, expression(Operation::multiply, a, b), c));
  made.push_back(expression(Operation::add, expression(Operation::add, a, b), c));
  made.push_back(expression(Operation::add, a, expression(Operation::add, b, c)));
  for (size_t i = 0; i < made.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(made[i].hash == made[j].hash) << i << " and " << j;
  }
}

}  // namespace
}  // namespace tril::for_every_input_test
