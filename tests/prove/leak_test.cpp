#include "tril/prove/leak.h"

#include "support/models.h"
#include "support/property.h"
#include "tril/models/session_state.h"

namespace tril::leak_test {
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
  if (testing::passed_over_on_cuda(5)) return;
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
  RC_ASSERT(result.layers == config.decoder_layers);
  RC_ASSERT(result.heads == config.heads);
  RC_ASSERT(result.probes == positions * config.decoder_layers * config.heads);
  // The controls are all pairs that are not forbidden, of each sentence with itself.
  int64_t pairs_in_pass = 0, across = 0;
  for (const TokenPair& a : pairs) {
    for (const TokenPair& b : pairs) {
      const auto product = static_cast<int64_t>(a.target.size() * b.target.size());
      (&a == &b ? pairs_in_pass : across) += product;
    }
  }
  const int64_t allowed = pairs_in_pass + across - result.forbidden_pairs;
  RC_ASSERT(result.controls == allowed * config.decoder_layers * config.heads);
  RC_ASSERT(result.heads_blind.empty());
  RC_ASSERT(result.mask_rows > 0);
  RC_ASSERT(result.mask_wrong == 0);
  RC_ASSERT(result.hidden_controls > 0);
  RC_ASSERT(result.hidden_unreached == 0);
  // Four poisons, output and gradient, every head.
  RC_ASSERT(result.values == result.forbidden_pairs * 4 * 2 * config.decoder_layers * config.heads *
                                 config.head_dim);
  RC_ASSERT(session->cache.block_count() == 0);
  RC_ASSERT(session->observer == nullptr);
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
  EXPECT_EQ(pairs_of(0), 6 + 3 + 1 + 2 * 8);  // and those before the window
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
      session->hooks.widen_layer = layer;
      session->hooks.widen_head = head;
      session->hooks.widen_row = 2;
      const LeakProbe result = probe_leaks(model, pairs, session);
      ASSERT_EQ(result.heads_leaking.size(), 1u);
      const HeadLeak& leak = result.heads_leaking[0];
      EXPECT_EQ(leak.layer, layer);
      EXPECT_EQ(leak.head, head);
      EXPECT_EQ(leak.row, (TokenPlace{0, 2}));
      EXPECT_EQ(leak.key, (TokenPlace{0, 3}));
      EXPECT_EQ(result.unfaithful, 0);
      ASSERT_TRUE(result.first_future);
      EXPECT_EQ(result.first_future->head, head);
    }
  }
}

// A mask off by one everywhere: every head leaks, from the first position on.
TEST(LeakProbe, AMaskOffByOneLeaksInEveryHead) {
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  config.decoder_layers = 2;
  const Transformer model = testing::random_model(config, 4);
  Session session(model, 1);
  session->hooks.widen_head = TestHooks::kAllHeads;
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
    session->masking = Masking::none;
    const auto pairs = random_pairs(model.config(), 2, 5, 3);
    const LeakProbe result = probe_leaks(model, pairs, session);
    EXPECT_EQ(result.heads_leaking.size(), 4u);
    ASSERT_TRUE(result.first_future);
    EXPECT_EQ(result.first_future->row, (TokenPlace{0, 0}));
    EXPECT_EQ(result.first_future->key, (TokenPlace{0, 1}));
    ASSERT_TRUE(result.end_to_end);
    EXPECT_EQ(result.end_to_end->row, (TokenPlace{0, 0}));
  }
}

// A mask that is too narrow leaks nothing, and both ways agree on it; it is found all the same,
// with its layer and head.
TEST(LeakProbe, AMaskThatIsTooNarrowIsFound) {
  TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  config.decoder_layers = 2;
  const Transformer model = testing::random_model(config, 4);
  const std::vector<TokenPair> pairs = {{{1, 2, 3}, {4, 5, 6, 7, 8}}};
  Session session(model, 1);
  session->hooks.narrow_layer = 1;
  session->hooks.narrow_position = 2;
  EXPECT_EQ(compare_parallel_with_stepwise(model, pairs, session).differing, 0);
  const LeakProbe narrow = probe_leaks(model, pairs, session);
  EXPECT_FALSE(narrow.holds());
  EXPECT_TRUE(narrow.heads_leaking.empty());
  EXPECT_FALSE(narrow.end_to_end);
  EXPECT_EQ(narrow.mask_wrong, 2);  // in the pass of training, and in the cached call
  ASSERT_TRUE(narrow.first_wrong_mask);
  const WrongMask& wrong = *narrow.first_wrong_mask;
  EXPECT_EQ(wrong.layer, 1);
  EXPECT_EQ(wrong.row, (TokenPlace{0, 2}));
  EXPECT_EQ(wrong.begin, 0);
  EXPECT_EQ(wrong.end, 2);
  EXPECT_EQ(wrong.rule_begin, 0);
  EXPECT_EQ(wrong.rule_end, 3);
  EXPECT_EQ(narrow.heads_blind.size(), 2u);
  EXPECT_EQ(narrow.controls_missed, 2);
  // With the key restored to head 0, only head 1 is blind.
  session->hooks.widen_layer = 1;
  session->hooks.widen_row = 2;
  session->hooks.widen_head = 0;
  const LeakProbe one = probe_leaks(model, pairs, session);
  EXPECT_FALSE(one.holds());
  EXPECT_TRUE(one.heads_leaking.empty());
  EXPECT_EQ(one.controls_missed, 1);
  ASSERT_EQ(one.heads_blind.size(), 1u);
  EXPECT_EQ(one.heads_blind[0].layer, 1);
  EXPECT_EQ(one.heads_blind[0].head, 1);
  EXPECT_EQ(one.heads_blind[0].row, (TokenPlace{0, 2}));
  EXPECT_EQ(one.heads_blind[0].key, (TokenPlace{0, 2}));
}

// Each thing that makes a probe worth nothing makes it fail.
TEST(LeakProbe, HoldsOnlyIfItLooked) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 4);
  Session session(model, 1);
  const LeakProbe good = probe_leaks(model, random_pairs(model.config(), 2, 5, 3), session);
  EXPECT_TRUE(good.holds());
  const auto without = [&](auto LeakProbe::*field, auto value) {
    LeakProbe probe = good;
    probe.*field = value;
    return probe.holds();
  };
  EXPECT_FALSE(without(&LeakProbe::probes, good.probes - 1));
  EXPECT_FALSE(without(&LeakProbe::probes, int64_t{0}));
  EXPECT_FALSE(without(&LeakProbe::model_layers, int64_t{2}));
  EXPECT_FALSE(without(&LeakProbe::values, int64_t{0}));
  EXPECT_FALSE(without(&LeakProbe::controls, int64_t{0}));
  EXPECT_FALSE(without(&LeakProbe::controls_missed, int64_t{1}));
  EXPECT_FALSE(without(&LeakProbe::hidden_controls, int64_t{0}));
  EXPECT_FALSE(without(&LeakProbe::hidden_unreached, int64_t{1}));
  EXPECT_FALSE(without(&LeakProbe::mask_rows, int64_t{0}));
  EXPECT_FALSE(without(&LeakProbe::mask_wrong, int64_t{1}));
  EXPECT_FALSE(without(&LeakProbe::unfaithful, int64_t{1}));
}

// The first row that sees the future is reported even if an earlier one sees another sentence.
TEST(LeakProbe, TheFutureIsKeptApart) {
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  config.window = 2;
  const Transformer model = testing::random_model(config, 4);
  Session session(model, 1);
  session->masking = Masking::none;  // sees all of its sentence from its window on
  const auto pairs = random_pairs(model.config(), 1, 5, 3);
  const LeakProbe result = probe_leaks(model, pairs, session);
  ASSERT_TRUE(result.first_future);
  EXPECT_TRUE(result.first_future->is_future());
  EXPECT_EQ(result.first_future->row, (TokenPlace{0, 0}));
  EXPECT_FALSE((HeadLeak{.row = {0, 2}, .key = {0, 1}}.is_future()));
  EXPECT_FALSE((HeadLeak{.row = {0, 2}, .key = {1, 3}}.is_future()));
}

// Positions beyond the limit are left out, and the coverage shows it.
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
  session->hooks.widen_head = 1;
  session->hooks.widen_row = 63;
  const LeakProbe result = probe_leaks(model, pairs, session);
  ASSERT_EQ(result.heads_leaking.size(), 1u);
  EXPECT_EQ(result.heads_leaking[0].row, (TokenPlace{0, 63}));
  EXPECT_EQ(result.heads_leaking[0].key, (TokenPlace{0, 64}));
}

}  // namespace
}  // namespace tril::leak_test
