#include "tril/prove/leak.h"

#include "support/models.h"
#include "support/property.h"

namespace tril {
namespace {

using testing::Family;

std::vector<TokenPair> pairs_for(const TransformerConfig& config, int count, int longest) {
  std::vector<TokenPair> pairs;
  for (const auto& sentence : testing::random_sentences(config, count, longest)) {
    pairs.push_back({sentence.source, sentence.target});
  }
  return pairs;
}

// Every position of every sentence in every layer and head; windows, rotary positions, ALiBi and
// grouped heads are among the models drawn.
RC_GTEST_PROP(LeakProbe, FindsNothingInAnyModelAndCoversAll, ()) {
  const TransformerConfig config = testing::random_config();
  const Transformer model = testing::random_model(config, *rc::gen::arbitrary<uint64_t>());
  Session session(model, 2);
  const auto pairs = pairs_for(model.config(), 3, 12);
  const auto prefix = *rc::gen::element<int32_t>(0, 0, 4);
  const LeakProbe result =
      probe_leaks(model, pairs, session, {.end_to_end_tokens = 3, .prefix = prefix});
  int64_t positions = 0;
  for (const TokenPair& pair : pairs) positions += static_cast<int64_t>(pair.target.size());
  RC_ASSERT(result.holds());
  RC_ASSERT(result.unfaithful == 0);
  RC_ASSERT(result.positions == positions);
  RC_ASSERT(result.poisoned == positions);
  RC_ASSERT(result.coverage() == 1.0);
  // Four poisons, output and gradient, every head.
  RC_ASSERT(result.values == result.forbidden_pairs * 4 * 2 * config.decoder_layers * config.heads *
                                 config.head_dim);
  RC_ASSERT(session.cache.page_count() == 0);
  RC_ASSERT(session.observer == nullptr);
}

// Pairs that are forbidden, counted by hand: the triangle above the diagonal, and neighbours.
TEST(LeakProbe, CountsTheForbiddenPairs) {
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  Session session(testing::random_model(config, 1), 1);
  const auto pairs_of = [&](int32_t prefix) {
    const Transformer model = testing::random_model(config, 1);
    const std::vector<TokenPair> pairs = {{{}, {1, 2, 3, 4}}, {{}, {5, 6}}};
    return probe_leaks(model, pairs, session, {.prefix = prefix}).forbidden_pairs;
  };
  EXPECT_EQ(pairs_of(0), 6 + 1 + 2 * 8);
  EXPECT_EQ(pairs_of(2), 5 + 0 + 2 * 8);  // the first two see each other
  config.window = 2;
  EXPECT_EQ(pairs_of(0), 6 + 3 + 1 + 2 * 8);  // and what is behind the window
}

// The one head of the one layer is named, with the row and the key, and no other.
TEST(LeakProbe, NamesTheLayerAndTheHead) {
  TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  config.decoder_layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  const Transformer model = testing::random_model(config, 4);
  const std::vector<TokenPair> pairs = {{{1, 2, 3}, {4, 5, 6, 7, 8}}, {{3, 2}, {1, 9, 2}}};
  for (int layer = 0; layer < 3; ++layer) {
    for (int head = 0; head < 4; ++head) {
      Session session(model, 2);
      session.hooks.widen_layer = layer;
      session.hooks.widen_head = head;
      session.hooks.widen_row = 2;
      const LeakProbe result = probe_leaks(model, pairs, session);
      ASSERT_EQ(result.heads_leaking.size(), 1u);
      const HeadLeak& leak = result.heads_leaking[0];
      EXPECT_EQ(leak.layer, layer);
      EXPECT_EQ(leak.head, head);
      EXPECT_EQ(leak.row, (TokenPlace{0, 2}));
      EXPECT_EQ(leak.key, (TokenPlace{0, 3}));
      EXPECT_EQ(result.unfaithful, 0);
      ASSERT_TRUE(result.first_future());
      EXPECT_EQ(result.first_future()->head, head);
    }
  }
}

// A mask off by one everywhere: every head leaks, from the first position on.
TEST(LeakProbe, AMaskOffByOneLeaksInEveryHead) {
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  config.decoder_layers = 2;
  const Transformer model = testing::random_model(config, 4);
  Session session(model, 1);
  session.hooks.widen_head = TestHooks::kAllHeads;
  const std::vector<TokenPair> pairs = {{{}, {4, 5, 6, 7}}};
  const LeakProbe result = probe_leaks(model, pairs, session);
  EXPECT_EQ(result.heads_leaking.size(), 4u);
  for (const HeadLeak& leak : result.heads_leaking) {
    EXPECT_EQ(leak.row, (TokenPlace{0, 0}));
    EXPECT_EQ(leak.key, (TokenPlace{0, 1}));
  }
  ASSERT_TRUE(result.end_to_end);
  EXPECT_EQ(result.end_to_end->way, EndToEndLeak::Way::training);
}

// Without the mask the first position sees the future; each token's neighbours stay unseen.
TEST(LeakProbe, WithoutTheMaskTheFirstPositionSeesTheFuture) {
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    TransformerConfig config = testing::tiny_config(family);
    config.decoder_layers = 2;
    const Transformer model = testing::random_model(config, 4);
    Session session(model, 1);
    session.masking = Masking::none;
    const auto pairs = random_pairs(model.config(), 2, 5, 3);
    const LeakProbe result = probe_leaks(model, pairs, session);
    EXPECT_EQ(result.heads_leaking.size(), 4u);
    ASSERT_TRUE(result.first_future());
    EXPECT_EQ(result.first_future()->row, (TokenPlace{0, 0}));
    EXPECT_EQ(result.first_future()->key, (TokenPlace{0, 1}));
    ASSERT_TRUE(result.end_to_end);
    EXPECT_EQ(result.end_to_end->row, (TokenPlace{0, 0}));
  }
}

// Positions beyond the limit are left out, and the share says so.
TEST(LeakProbe, SaysWhatItDidNotCover) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 4);
  Session session(model, 1);
  const auto pairs = random_pairs(model.config(), 4, 5, 3);
  const LeakProbe result = probe_leaks(model, pairs, session, {.max_positions = 10});
  EXPECT_EQ(result.positions, 20);
  EXPECT_EQ(result.poisoned, 10);
  EXPECT_EQ(result.coverage(), 0.5);
}

// Across the edge of a block of 64 keys too.
TEST(LeakProbe, LongTargetsToo) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 4);
  Session session(model, 2);
  const auto pairs = random_pairs(model.config(), 1, 70, 3);
  EXPECT_TRUE(probe_leaks(model, pairs, session).holds());
  session.hooks.widen_head = 1;
  session.hooks.widen_row = 63;
  const LeakProbe result = probe_leaks(model, pairs, session);
  ASSERT_EQ(result.heads_leaking.size(), 1u);
  EXPECT_EQ(result.heads_leaking[0].row, (TokenPlace{0, 63}));
  EXPECT_EQ(result.heads_leaking[0].key, (TokenPlace{0, 64}));
}

}  // namespace
}  // namespace tril
