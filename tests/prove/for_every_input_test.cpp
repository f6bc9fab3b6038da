#include "tril/prove/for_every_input.h"

#include <cstdlib>
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
          << result.short_reach << " too little, " << result.missing << " rows missing, "
          << result.wrong_masks << " masks, " << result.distinct << " of "
          << result.expected_distinct << " distinct";
  if (result.first_difference) failure << "; " << to_string(*result.first_difference);
  if (result.first_leak) failure << "; " << to_string(*result.first_leak);
  if (result.first_wrong_mask) failure << "; " << to_string(*result.first_wrong_mask);
  if (result.first_short_reach) failure << "; " << to_string(*result.first_short_reach);
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
  options.source_length = 70;
  options.every_length = false;
  const EveryInputResult result =
      prove_for_every_input(two_layers(Family::encoder_decoder), options);
  EXPECT_TRUE(holds(result));
  EXPECT_EQ(result.passes, 1);
}

// Spans are 2,048 keys; their sums are merged.
TEST(EveryInput, HoldsAcrossSpans) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  if (std::getenv("TRIL_FULL") == nullptr) GTEST_SKIP() << "long: in --full";
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  EveryInputOptions options = short_options();
  options.length = 2100;
  options.every_length = false;
  EXPECT_TRUE(holds(prove_for_every_input(config, options)));
}

// The stepwise pass goes through what decoding goes through, from two tokens on.
TEST(EveryInput, DecodesFromACacheAloneAndInAFork) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options;
  options.every_length = false;
  for (options.length = 1; options.length <= 20; ++options.length) {
    const EveryInputResult result =
        prove_for_every_input(testing::tiny_config(Family::decoder_only), options);
    EXPECT_TRUE(holds(result));
    EXPECT_EQ(result.covers_decoding(), options.length >= 2) << options.length;
    EXPECT_EQ(result.copied_blocks, options.length >= 2 ? 1 : 0) << options.length;
  }
}

// A place in the decoder.
EveryInputPlace place(int64_t layer, std::string site, int64_t head, int64_t position,
                      int64_t length, int64_t reached = -1) {
  return {.layer = layer,
          .site = std::move(site),
          .head = head,
          .position = position,
          .length = length,
          .reached = reached};
}
EveryInputResult with(const TestHooks& hooks, Family family,
                      EveryInputOptions options = short_options()) {
  options.hooks = hooks;
  return prove_for_every_input(two_layers(family), options);
}
std::string shown(const std::optional<EveryInputPlace>& at) { return at ? to_string(*at) : "none"; }

TEST(EveryInput, AWidenedHeadIsNamed) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TestHooks hooks;
  hooks.widen_layer = 1;
  hooks.widen_head = 1;
  const EveryInputResult result = with(hooks, Family::encoder_decoder);
  EXPECT_GT(result.forbidden, 0);
  EveryInputPlace first = place(1, "attention", 1, 0, 1, 1);
  first.of_neighbour = true;  // in a pass of one token it is the neighbour that has a next one
  EXPECT_EQ(result.first_leak, first) << shown(result.first_leak);
  first.reached = -1;
  EXPECT_EQ(result.first_difference, first) << shown(result.first_difference);
}

TEST(EveryInput, AMaskThatIsOffByOneReachesTheNextToken) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TestHooks hooks;
  hooks.widen_head = TestHooks::kAllHeads;
  EveryInputOptions options = short_options();
  options.every_length = false;
  options.neighbour = 1;
  const EveryInputResult result = with(hooks, Family::decoder_only, options);
  EXPECT_EQ(result.first_leak, place(0, "attention", 0, 0, 5, 1)) << shown(result.first_leak);
}

TEST(EveryInput, AMaskThatIsTooNarrowIsNamed) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TestHooks hooks;
  hooks.narrow_position = 2;
  hooks.narrow_layer = 1;
  const EveryInputResult result = with(hooks, Family::encoder_decoder);
  EXPECT_EQ(result.differing, 0);  // both passes have the same mask
  EXPECT_EQ(result.forbidden, 0);
  EXPECT_EQ(result.first_wrong_mask, place(1, "mask", -1, 2, 0)) << shown(result.first_wrong_mask);
  EXPECT_FALSE(result.holds());
}

// What T5 has: a learnt bias, whose entries are leaves, and scales. One that is shifted or left out
// in a step is another formula, by whichever kernels.
TEST(EveryInput, AShiftedBiasAndSkippedScalesAreOtherFormulas) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TransformerConfig config = two_layers(Family::encoder_decoder);
  config.position = PositionType::relative;
  config.relative_buckets = 4;  // two distances each way, and all others
  config.relative_distance = 3;
  config.attention_scale = 1.0;
  config.output_scale = 0.25;
  for (const OperationOrder order :
       {OperationOrder::cpu, OperationOrder::cuda_fp32, OperationOrder::cuda_bf16}) {
    EveryInputOptions options = short_options();
    options.order = order;
    EXPECT_TRUE(holds(prove_for_every_input(config, options)));
    options.hooks.shift_bias = true;
    EXPECT_GT(prove_for_every_input(config, options).differing, 0);
    options.hooks = {};
    options.hooks.skip_scales = true;
    EXPECT_GT(prove_for_every_input(config, options).differing, 0);
  }
}

TEST(EveryInput, NoMaskLeaksEverywhere) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  options.masking = Masking::none;
  const EveryInputResult result = with({}, Family::decoder_only, options);
  EXPECT_GT(result.differing, 0);
  EXPECT_EQ(result.first_leak, place(0, "attention", 0, 0, 0, 1)) << shown(result.first_leak);
}

// What leaks nothing but is another expression: it differs, and the first place is named.
TEST(EveryInput, OtherOrdersAreOtherExpressions) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const auto first_with = [](const TestHooks& hooks, const EveryInputOptions& options) {
    const EveryInputResult result = with(hooks, Family::encoder_decoder, options);
    EXPECT_FALSE(result.holds());
    EXPECT_GT(result.differing, 0);
    EXPECT_TRUE(result.first_difference);
    return result.first_difference.value_or(EveryInputPlace{});
  };
  TestHooks hooks;
  hooks.shift_cache = true;
  EveryInputOptions alone = short_options();
  alone.neighbour = 1;
  const EveryInputPlace shifted = first_with(hooks, alone);
  EXPECT_EQ(shifted, place(0, "attention", 0, 2, 3)) << to_string(shifted);
  hooks = {};
  hooks.split_sums = true;
  const EveryInputPlace split = first_with(hooks, short_options());
  EXPECT_EQ(split.site, "query") << to_string(split);
  // A single row is met in every length that a proof takes, beside the usual neighbour too.
  for (const int64_t length : {3, 4, 5, 6}) {
    EveryInputOptions options;
    options.length = length;
    options.every_length = false;
    EXPECT_EQ(first_with(hooks, options).site, "query") << length;
  }
  // Several blocks are needed to tell these.
  EveryInputOptions options = short_options();
  options.length = 70;
  options.every_length = false;
  hooks = {};
  hooks.order_by_batch = true;
  EveryInputPlace first = first_with(hooks, options);
  EXPECT_EQ(first, place(0, "attention", 0, 64, 70)) << to_string(first);
  hooks = {};
  hooks.skip_rescaling = true;
  first = first_with(hooks, options);
  EXPECT_EQ(first, place(0, "attention", 0, 64, 70)) << to_string(first);
}

TEST(EveryInput, AForbiddenKeyTimesZeroLeaks) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TestHooks hooks;
  hooks.multiply_forbidden = true;
  const EveryInputResult result = with(hooks, Family::decoder_only);
  EXPECT_GT(result.differing, 0);
  ASSERT_TRUE(result.first_leak);
  EXPECT_EQ(result.first_leak->layer, 0);
  EXPECT_EQ(result.first_leak->head, 0);
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
