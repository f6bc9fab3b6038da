#include "tril/prove/sequential.h"

#include <cmath>

#include "support/models.h"
#include "support/property.h"

namespace tril::sequential_test {
namespace {

using testing::Family;

constexpr auto kOfFp32 = "the bounds on gradients are those of fp32 activations";

std::vector<TokenPair> pairs_for(const TransformerConfig& config, int count, int longest) {
  std::vector<TokenPair> pairs;
  for (const auto& sentence : testing::random_sentences(config, count, longest)) {
    pairs.push_back({sentence.source, sentence.target, 1});
  }
  return pairs;
}

RC_GTEST_PROP(Sequential, AgreesWithParallelInAnyModel, ()) {
  if (testing::activations() != DType::f32) RC_SUCCEED(kOfFp32);
  if (testing::passed_over_on_cuda(5)) return;
  const TransformerConfig config = testing::trainable_config();
  const Transformer model = testing::random_model(config, *rc::gen::arbitrary<uint64_t>());
  const auto pairs = pairs_for(model.config(), 2, 12);
  const SequentialComparison result =
      compare_sequential_with_parallel(model, pairs, {.threads = 2});
  int64_t positions = 0, rows = 0, matrix = 0;
  for (const TokenPair& pair : pairs) {
    const auto n = static_cast<int64_t>(pair.target.size());
    positions += n;
    rows += n * (n + 1) / 2;
    matrix += config.heads * config.decoder_layers * n * n * 4;
  }
  RC_ASSERT(result.sequences == 2);
  RC_ASSERT(result.positions == positions);
  RC_ASSERT(result.parallel.calls == 1);
  RC_ASSERT(result.parallel.rows == positions);
  RC_ASSERT(result.sequential.calls == positions);
  RC_ASSERT(result.sequential.rows == rows);
  RC_ASSERT(result.score_matrix_bytes == matrix);
  RC_ASSERT(result.gradients == model.parameter_count());
  RC_ASSERT(result.losses_agree());
  RC_ASSERT(result.positions_compared == positions);
  RC_ASSERT(result.gradients_compared == positions * model.parameter_count());
  RC_ASSERT(result.positions_differing == 0);
  RC_ASSERT(result.sums_agree());
  RC_ASSERT(result.gradients_agree());
}

// The losses are the same fp32 numbers added in double: rounded in the same way, they are equal.
TEST(Sequential, LossesAreTheSameNumber) {
  if (testing::activations() != DType::f32) GTEST_SKIP() << kOfFp32;
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    const TransformerConfig config = testing::tiny_config(family);
    const Transformer model = testing::random_model(config, 8);
    const auto result =
        compare_sequential_with_parallel(model, random_pairs(model.config(), 2, 7, 3), {});
    EXPECT_EQ(static_cast<float>(result.sequential_loss), static_cast<float>(result.parallel_loss));
    EXPECT_TRUE(result.holds());
    EXPECT_GT(result.weakest_position, 1000.0);  // the bound is meaningful
    EXPECT_EQ(result.silent_positions, 0);
  }
}

// A position that the parallel pass does not learn from is noticed, whichever it is: by its own
// gradient, and by the sum.
TEST(Sequential, ALostPositionIsFound) {
  if (testing::activations() != DType::f32) GTEST_SKIP() << kOfFp32;
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    TransformerConfig config = testing::tiny_config(family);
    config.decoder_layers = 2;
    const Transformer model = testing::random_model(config, 8);
    const auto pairs = random_pairs(model.config(), 2, 6, 3);
    for (int64_t position = 0; position < 12; ++position) {
      SequentialOptions options;
      options.lose_position = position;
      const auto lost = compare_sequential_with_parallel(model, pairs, options);
      EXPECT_FALSE(lost.losses_agree());
      EXPECT_EQ(lost.positions_differing, 1);
      EXPECT_EQ(lost.first_differing, position);
      EXPECT_GT(lost.sum_share, 1000.0);
      EXPECT_FALSE(lost.sums_agree());
      EXPECT_FALSE(lost.holds());
    }
  }
}

// Where there are many positions a sample is compared one by one, the last among them.
TEST(Sequential, ComparesASampleOfManyPositions) {
  if (testing::activations() != DType::f32) GTEST_SKIP() << kOfFp32;
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 8);
  const auto pairs = random_pairs(model.config(), 2, 5, 3);
  SequentialOptions options;
  options.compared_positions = 4;
  options.lose_position = 9;
  const auto last = compare_sequential_with_parallel(model, pairs, options);
  EXPECT_EQ(last.positions_compared, 4);
  EXPECT_EQ(last.first_differing, 9);
  options.lose_position = 0;  // is not in the sample: the sum tells
  const auto first = compare_sequential_with_parallel(model, pairs, options);
  EXPECT_EQ(first.positions_differing, 0);
  EXPECT_FALSE(first.sums_agree());
  options.compared_positions = 0;
  EXPECT_EQ(
      testing::raised_by([&] { compare_sequential_with_parallel(model, pairs, options); }).text,
      "sequential: compared_positions must be at least 1, got 0");
}

// More rows than are summed in one slice: of every target, wherever it lies in the batch.
TEST(Sequential, ALargeBatch) {
  if (testing::activations() != DType::f32) GTEST_SKIP() << kOfFp32;
  const Transformer model(tiny_config_like(testing::tiny_config(Family::decoder_only)), 8,
                          testing::placement());
  const auto pairs = random_pairs(model.config(), 3, 250, 3);
  const auto result = compare_sequential_with_parallel(model, pairs, {.compared_positions = 9});
  EXPECT_EQ(result.positions_compared, 9);
  EXPECT_EQ(result.positions_differing, 0);
  EXPECT_GT(result.weakest_position, 1.0);
  EXPECT_TRUE(result.holds());
}

// A bound that could not notice the loss of a position is not evidence.
TEST(Sequential, HoldsOnlyIfNoPositionCouldBeLost) {
  if (testing::activations() != DType::f32) GTEST_SKIP() << kOfFp32;
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 8);
  SequentialComparison result =
      compare_sequential_with_parallel(model, random_pairs(model.config(), 1, 5, 3));
  EXPECT_TRUE(result.holds());
  SequentialComparison weak = result;
  weak.weakest_position = 1.0;
  EXPECT_FALSE(weak.holds());
  // Where rounding may hide an average position, the sums are not asked.
  weak.positions = 4094;
  EXPECT_FALSE(weak.holds());
  weak.positions = 4095;
  EXPECT_TRUE(weak.holds());
  weak.sum_share = 1.1;
  EXPECT_FALSE(weak.holds());
  weak = result;
  weak.positions_compared = 0;
  EXPECT_FALSE(weak.holds());
  weak = result;
  weak.summed = 0;
  EXPECT_FALSE(weak.holds());
}

// The memory of the prefixes is their own: of the last one, however many targets there are.
TEST(Sequential, MemoryOfThePrefixesIsMeasuredOnThem) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "scratch on CUDA is of another size";
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 8);
  SequentialOptions options;
  options.threads = 2;  // scratch memory is by thread: with many it would be most of it
  const auto measured = [&](int64_t pairs) {
    return compare_sequential_with_parallel(model, random_pairs(model.config(), pairs, 40, 3),
                                            options);
  };
  const auto one = measured(1);
  const auto four = measured(4);
  EXPECT_EQ(one.sequential.peak_bytes, four.sequential.peak_bytes);
  // The gradients of the weights are as large for one; all else is four times as much.
  EXPECT_GT(four.parallel.peak_bytes, one.parallel.peak_bytes + one.parallel.peak_bytes / 2);
  EXPECT_GT(one.sequential.peak_bytes, 0);
}

// A position that is trained on another token is noticed: in the loss and in the gradients.
TEST(Sequential, AMaskThatIsTooWideIsFound) {
  if (testing::activations() != DType::f32) GTEST_SKIP() << kOfFp32;
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 8);
  const auto pairs = random_pairs(model.config(), 1, 8, 3);
  SequentialOptions options;
  EXPECT_TRUE(compare_sequential_with_parallel(model, pairs, options).holds());
  options.hooks.widen_head = 0;
  options.hooks.widen_row = 3;
  const auto widened = compare_sequential_with_parallel(model, pairs, options);
  EXPECT_FALSE(widened.losses_agree());
  EXPECT_FALSE(widened.gradients_agree());
  options.hooks = {};
  options.masking = Masking::none;
  const auto unmasked = compare_sequential_with_parallel(model, pairs, options);
  EXPECT_FALSE(unmasked.losses_agree());
  EXPECT_FALSE(unmasked.gradients_agree());
}

// Weights that are not numbers agree with nothing.
TEST(Sequential, NaNDoesNotHold) {
  if (testing::activations() != DType::f32) GTEST_SKIP() << kOfFp32;
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  Transformer model = testing::random_model(config, 8);
  const std::string first = model.parameters()[0].name;
  testing::change_weights(model,
                          [&](const std::string& name, std::vector<float>& values, const Shape&) {
                            if (name == first) values[0] = std::nanf("");
                          });
  const std::vector<TokenPair> pairs = {{{}, {0, 1, 2}, 3}};
  const auto result = compare_sequential_with_parallel(model, pairs);
  EXPECT_FALSE(result.losses_agree());
  EXPECT_FALSE(result.gradients_agree());
}

TEST(Sequential, RefusesWhatCannotBeTrainedOn) {
  const Transformer model(testing::tiny_config(Family::decoder_only), 1, testing::placement());
  EXPECT_EQ(testing::raised_by([&] { compare_sequential_with_parallel(model, {}); }).text,
            "sequential: there are no targets");
  const std::vector<TokenPair> empty = {{{}, {}, 0}};
  EXPECT_EQ(testing::raised_by([&] { compare_sequential_with_parallel(model, empty); }).text,
            "sequential: a target is empty");
}

// Counted by hand: one layer, 8 wide, 2 heads of 4, no encoder; 5 positions.
TEST(Sequential, CountsTheTermsOfThePath) {
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const StepLengths lengths{.target = 5, .tokens = 7};
  const int64_t norm = 8 + 8;
  const int64_t projection = 8 + 2 + 3 + norm + 1;
  // Rows of a key; the projection; the embedding; the tokens; three uses of a weight.
  EXPECT_EQ(path_terms(config, lengths), 5 + projection + norm + 1 + 7 + 3);
  config.decoder_layers = 2;
  const int64_t feed_forward = 8 + 4 + 16 + norm + 1;
  const int64_t attention = 8 + 2 * 4 + 4 + 5 + projection;
  EXPECT_EQ(path_terms(config, lengths),
            5 + projection + feed_forward + attention + norm + 1 + 7 + 3);
  config.kv_heads = 1;  // a key's gradient is summed over both heads
  EXPECT_EQ(path_terms(config, lengths),
            10 + projection + feed_forward + (attention + 5) + norm + 1 + 7 + 3);
}

TEST(Sequential, TheTinyModelIsOfTheSameKind) {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = 32000;
  config.kv_heads = 2;
  config.position = PositionType::rotary;
  const TransformerConfig tiny = tiny_config_like(config);
  EXPECT_NO_THROW(tiny.check());
  EXPECT_EQ(tiny.encoder_layers, 2);
  EXPECT_EQ(tiny.kv_heads, 1);
  EXPECT_EQ(tiny.position, PositionType::rotary);
  config.source_vocab = config.encoder_layers = 0;
  EXPECT_TRUE(tiny_config_like(config).decoder_only());
  EXPECT_EQ(tiny_config_like(config).source_vocab, 0);
}

}  // namespace
}  // namespace tril::sequential_test
