#include "tril/prove/every_gradient.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/models.h"
#include "support/property.h"

namespace tril::every_gradient_test {
namespace {

using testing::Family;

constexpr const char* kOnCpu = "expressions have no device";

EveryInputOptions short_options() {
  EveryInputOptions options;
  options.length = 4;
  options.source_length = 3;
  options.neighbour = 2;
  options.threads = 2;
  return options;
}

::testing::AssertionResult holds(const EveryGradientResult& result) {
  if (result.holds()) return ::testing::AssertionSuccess();
  ::testing::AssertionResult failure = ::testing::AssertionFailure();
  failure << result.differing << " differ, " << result.forbidden << " reach too far, "
          << result.short_reach << " too little, " << result.missing << " rows missing, "
          << result.silent << " without gradient, " << result.with_gradient << " with gradient";
  if (result.first_difference) failure << "; " << to_string(*result.first_difference);
  if (result.first_leak) failure << "; " << to_string(*result.first_leak);
  if (result.first_short_reach) failure << "; " << to_string(*result.first_short_reach);
  if (!result.first_silent.empty()) failure << "; " << result.first_silent;
  return failure;
}

// Every norm, position, activation, window and kind of head, tied or not, and prefix LMs.
RC_GTEST_PROP(EveryGradient, HoldsForAnyConfiguration, ()) {
  if (testing::device() != Device::cpu) return;
  const TransformerConfig config = testing::trainable_config();
  EveryInputOptions options = short_options();
  options.length = *rc::gen::inRange(1, std::getenv("TRIL_FULL") != nullptr ? 7 : 4);
  if (config.decoder_only()) options.prefix = *rc::gen::inRange<int64_t>(0, options.length + 1);
  const ::testing::AssertionResult verdict = holds(prove_every_gradient(config, options));
  if (!verdict) RC_FAIL(std::string(verdict.message()));
}

TEST(EveryGradient, HoldsForTheGoldenConfigurations) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::golden_folder())) {
    const std::string path = entry.path().string() + "/config.json";
    if (!std::filesystem::exists(path)) continue;
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    const TransformerConfig config = config_from_json(text.str(), path);
    if (!testing::has_gradients(config)) continue;
    EXPECT_TRUE(holds(prove_every_gradient(config, short_options()))) << path;
    ++count;
  }
  EXPECT_GE(count, 10);
}

// Blocks of keys are 64: rows beyond see two.
TEST(EveryGradient, HoldsAcrossBlocks) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  options.length = 67;
  options.source_length = 66;
  options.every_length = false;
  const EveryGradientResult result =
      prove_every_gradient(testing::tiny_config(Family::encoder_decoder), options);
  EXPECT_TRUE(holds(result));
  EXPECT_EQ(result.losses, 2);
}

// What the header says of slices: a sentence that lies in two of them is summed otherwise. The
// activations' gradients are the same; what differs is a sum over tokens.
TEST(EveryGradient, ASentenceInTwoSlicesOfTokensIsAnotherSum) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  config.window = 2;  // or 510 rows would take long
  EveryInputOptions options = short_options();
  options.every_length = false;
  options.neighbour = 510;
  const EveryGradientResult result = prove_every_gradient(config, options);
  EXPECT_GT(result.differing, 0);
  EXPECT_EQ(result.forbidden, 0);
  ASSERT_TRUE(result.first_difference);
  EXPECT_NE(result.first_difference->parameter, "");
}

TEST(EveryGradient, WhatHasNoModelIsRefused) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  EveryInputOptions options = short_options();
  options.length = kMostGradientTokens + 1;
  EXPECT_EQ(testing::raised_by([&] { prove_every_gradient(config, options); }).text,
            "proof: gradients of more than 496 tokens are summed in several slices");
  options = short_options();
  options.order = OperationOrder::cuda_fp32;
  EXPECT_EQ(testing::raised_by([&] { prove_every_gradient(config, options); }).text,
            "proof: only the CPU's backward kernels have models");
}

EveryGradientResult with(const TestHooks& hooks, Family family) {
  TransformerConfig config = testing::tiny_config(family);
  config.decoder_layers = 2;
  EveryInputOptions options = short_options();
  options.hooks = hooks;
  return prove_every_gradient(config, options);
}
std::string shown(const std::optional<EveryGradientPlace>& at) {
  return at ? to_string(*at) : "none";
}

TEST(EveryGradient, AHeadThatIsWidenedInTheBackwardPassIsNamed) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TestHooks hooks;
  hooks.widen_layer = 1;
  hooks.widen_head = 1;
  hooks.widen_only_backward = true;
  const EveryGradientResult result = with(hooks, Family::encoder_decoder);
  // Everything after that attention is as it should be.
  EveryGradientPlace leak{.at = {.layer = 1, .site = "value", .head = 1, .position = 1}};
  EXPECT_EQ(result.first_leak, leak) << shown(result.first_leak);
  EveryGradientPlace difference{.at = {.layer = 1, .site = "query", .head = 1}};
  EXPECT_EQ(result.first_difference, difference) << shown(result.first_difference);
}

TEST(EveryGradient, AMaskThatIsOffByOneIsFound) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TestHooks hooks;
  hooks.widen_head = TestHooks::kAllHeads;
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    const EveryGradientResult result = with(hooks, family);
    EXPECT_GT(result.forbidden, 0);
    EXPECT_EQ(shown(result.first_difference), "the loss of position 0");
    ASSERT_TRUE(result.first_leak);
    EXPECT_GT(result.first_leak->reached, 0);
  }
}

TEST(EveryGradient, NoMaskReachesTheFuture) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options();
  options.masking = Masking::none;
  options.every_length = false;  // the position that is taken alone has a future
  EXPECT_EQ(
      shown(prove_every_gradient(testing::tiny_config(Family::decoder_only), options).first_leak),
      "the loss of position 2: reached position 3");
  options.every_length = true;
  const EveryGradientResult result =
      prove_every_gradient(testing::tiny_config(Family::decoder_only), options);
  EXPECT_EQ(shown(result.first_leak), "the loss of position 0: reached position 3");
}

TEST(EveryGradient, ARowThatIsLearntFromWithoutALabelIsNamed) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TestHooks hooks;
  hooks.learn_from_next = true;
  const EveryGradientResult result = with(hooks, Family::decoder_only);
  EXPECT_EQ(shown(result.first_leak), "the loss of position 0: reached position 1");
  EXPECT_GT(result.differing, 0);
}

// With one label there is one term in every sum of the last layer; the sums over several show it.
TEST(EveryGradient, ASumOverTokensInTwoHalvesIsAnotherFormula) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TestHooks hooks;
  hooks.split_gradients = true;
  const EveryGradientResult result = with(hooks, Family::decoder_only);
  EXPECT_EQ(result.forbidden, 0);
  ASSERT_TRUE(result.first_difference);
  EXPECT_NE(result.first_difference->parameter, "") << shown(result.first_difference);
  EXPECT_NE(result.first_difference->parameter, EveryGradientPlace::kLoss);
}

}  // namespace
}  // namespace tril::every_gradient_test
