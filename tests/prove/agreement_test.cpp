#include "tril/prove/agreement.h"

#include "support/models.h"
#include "support/property.h"

namespace tril {
namespace {

using testing::Family;

std::vector<TokenPair> pairs_for(const TransformerConfig& config, int count) {
  std::vector<TokenPair> pairs;
  for (const auto& sentence : testing::random_sentences(config, count, 9)) {
    pairs.push_back({sentence.source, sentence.target});
  }
  return pairs;
}

RC_GTEST_PROP(Agreement, NothingDiffersInAnyModel, ()) {
  const TransformerConfig config = testing::random_config();
  const Transformer model = testing::random_model(config, 3);
  Session session(model, 2);
  const auto pairs = pairs_for(model.config(), 3);
  const Agreement result = compare_parallel_with_stepwise(model, pairs, session);
  int64_t positions = 0;
  for (const TokenPair& pair : pairs) positions += static_cast<int64_t>(pair.target.size());
  RC_ASSERT(result.sentences == 3);
  RC_ASSERT(result.parallel_calls == 3);
  RC_ASSERT(result.stepwise_calls == positions);
  RC_ASSERT(result.positions == positions);
  RC_ASSERT(result.logits == positions * model.config().target_vocab);
  RC_ASSERT(result.differing == 0);
  RC_ASSERT(session.cache.page_count() == 0);
}

// A mask that is one key too wide is seen: in the parallel pass a row then sees the next token,
// which token by token does not exist yet.
TEST(Agreement, AWidenedMaskIsFound) {
  const TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  const Transformer model = testing::random_model(config, 3);
  Session session(model, 1);
  const std::vector<TokenPair> pairs = {{{1, 2, 3}, {4, 5, 6, 7}}};
  EXPECT_EQ(compare_parallel_with_stepwise(model, pairs, session).differing, 0);
  session.hooks.widen_head = 1;
  session.hooks.widen_row = 1;
  EXPECT_GT(compare_parallel_with_stepwise(model, pairs, session).differing, 0);
}

}  // namespace
}  // namespace tril
