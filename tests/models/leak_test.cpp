// What a row may not see cannot reach it: not its output, not its gradients, not even as NaN.
#include <algorithm>
#include <limits>

#include "support/models.h"
#include "tril/models/observer.h"
#include "tril/models/session_state.h"

namespace tril::leak_test {
namespace {

using testing::Batch;
using testing::equal_bits;
using testing::Family;
using testing::floats_of;
using testing::pack;
using testing::Pass;
using testing::random_config;
using testing::random_model;
using testing::random_sentences;
using testing::rows_of;
using testing::Sentence;
using testing::training_pass;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every number of the token's embedding becomes `value`.
void poison_token(Transformer& model, int32_t token, float value) {
  testing::change_weights(
      model, [&](const std::string& name, std::vector<float>& values, const Shape& shape) {
        if (name != "target_embedding.weight") return;
        std::fill_n(values.begin() + token * shape.columns(), shape.columns(), value);
      });
}

// The results of the rows before `row`: their hidden states and every gradient of a loss over them
// alone.
struct Past {
  std::vector<float> hidden;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<float>> query_gradients;  // a decoder layer each, rows before `row`

  bool operator==(const Past& other) const {
    const auto same = [](const auto& a, const auto& b) {
      if (a.size() != b.size()) return false;
      for (size_t i = 0; i < a.size(); ++i) {
        if (!equal_bits(a[i], b[i])) return false;
      }
      return true;
    };
    return equal_bits(hidden, other.hidden) && same(gradients, other.gradients) &&
           same(query_gradients, other.query_gradients);
  }
};

class Queries : public Observer {
 public:
  void see(const Observation& o) override {
    if (o.stack == Stack::decoder && o.site == Site::query) tensors.push_back(o.tensor);
  }
  std::vector<Tensor> tensors;
};

Past past_of(const Transformer& model, const Batch& batch, int64_t row, Session& session) {
  const TransformerConfig& config = model.config();
  Batch truncated = batch;
  for (size_t r = static_cast<size_t>(row); r < truncated.labels.size(); ++r) {
    truncated.labels[r] = -1;
  }
  session.reset();
  Queries queries;
  session->observer = &queries;
  Past past;
  {
    Tape tape(session);
    const Memory memory = config.decoder_only() ? Memory() : model.encode(batch.source, session);
    const Tensor hidden = model.forward(batch.target, memory, session);
    const Tensor loss = model.loss(hidden, truncated.labels, {.smoothing = 0.1f}, session);
    const auto all = floats_of(hidden);
    past.hidden.assign(all.begin(), all.begin() + row * config.model);
    session->observer = nullptr;
    if (!testing::has_gradients(config)) return past;
    const Gradients gradients = tape.backward(loss);
    for (const auto& parameter : model.parameters()) {
      const Tensor gradient = gradients.of(parameter.tensor);
      past.gradients.push_back(gradient.defined() ? floats_of(gradient) : std::vector<float>());
    }
    for (const Tensor& q : queries.tensors) {
      const auto gradient = floats_of(gradients.of(q));
      past.query_gradients.emplace_back(gradient.begin(),
                                        gradient.begin() + row * config.heads * config.head_dim);
    }
  }
  return past;
}

// One sentence, whose token at `row` is replaced by another one.
bool a_changed_token_stays_unseen(const Transformer& model, const Batch& batch, int64_t row,
                                  const TestHooks& hooks) {
  Session session(model, 2);
  session->hooks = hooks;
  const Past before = past_of(model, batch, row, session);
  Batch changed = batch;
  int32_t& token = changed.target.tokens[static_cast<size_t>(row)];
  token = static_cast<int32_t>((token + 1) % model.config().target_vocab);
  return before == past_of(model, changed, row, session);
}

RC_GTEST_PROP(Leak, AFiniteChangeReachesNoEarlierRowAndNoGradientOfThem, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  auto sentences = random_sentences(config, 1, 40);
  sentences[0].target.push_back(0);
  sentences[0].target.push_back(1);
  const Batch batch = pack(sentences, config);
  const auto row = *rc::gen::inRange<int64_t>(1, batch.target.size());
  RC_ASSERT(a_changed_token_stays_unseen(model, batch, row, {}));
}

// The hook that lets one head see one key too many makes the same check fail, in any layer.
TEST(Leak, OneWidenedHeadIsCaught) {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = 11;
  config.model = 24;
  config.heads = config.kv_heads = 3;
  config.head_dim = 8;
  config.feed_forward = 32;
  config.encoder_layers = 1;
  config.decoder_layers = 3;
  const Transformer model = random_model(config, 4);
  const Batch batch = pack({{{1, 2, 3}, {4, 5, 6, 7, 8, 9, 10, 1}}}, config);
  EXPECT_TRUE(a_changed_token_stays_unseen(model, batch, 4, {}));
  for (int layer = 0; layer < 3; ++layer) {
    for (int head = 0; head < 3; ++head) {
      TestHooks hooks;
      hooks.widen_layer = layer;
      hooks.widen_head = head;
      EXPECT_FALSE(a_changed_token_stays_unseen(model, batch, 4, hooks)) << layer << " " << head;
      hooks.widen_row = 3;  // the one row that borders on the changed key
      EXPECT_FALSE(a_changed_token_stays_unseen(model, batch, 4, hooks)) << layer << " " << head;
      hooks.widen_row = 1;  // sees row 2, which did not change
      EXPECT_TRUE(a_changed_token_stays_unseen(model, batch, 4, hooks)) << layer << " " << head;
    }
  }
}

// Without the mask the same check fails at once, while decoding token by token, which has no
// future, is unchanged.
TEST(Leak, WithoutTheMaskTheFutureIsSeenInTrainingOnly) {
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = random_model(config, 4);
  const testing::Tokens tokens = {4, 5, 6, 7, 8, 9, 10, 1};
  const Batch batch = pack({{{}, tokens}}, config);
  Session session(model, 1);
  const Past masked = past_of(model, batch, 4, session);
  session->masking = Masking::none;
  const Past unmasked = past_of(model, batch, 4, session);
  EXPECT_FALSE(masked == unmasked);
  Batch changed = batch;
  changed.target.tokens[4] = 3;
  EXPECT_FALSE(unmasked == past_of(model, changed, 4, session));

  session.reset();
  const int32_t slot = session->cache.open();
  for (int32_t position = 0; position < 4; ++position) {
    session.reset();
    Rows row;
    row.add(tokens[static_cast<size_t>(position)], {.slot = slot, .first = position});
    const auto hidden = floats_of(model.forward(row, {}, session));
    EXPECT_TRUE(equal_bits(hidden, rows_of(masked.hidden, config.model, position)));
  }
}

// NaN and infinity in the future: a token whose embedding is not finite. The rows before it keep
// their outputs in every layer, and the queries' gradients in the last one, where only the
// attention itself is between them and the poisoned keys.
RC_GTEST_PROP(Leak, NaNAndInfinityInTheFutureReachNoEarlierRow, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  TransformerConfig config = random_config();
  config.tied = config.share_source_target = config.share_target_output = false;
  auto sentences = random_sentences(config, 1, 30);
  const auto poison = static_cast<int32_t>(config.target_vocab - 1);
  for (int32_t& token : sentences[0].target) token %= poison;
  sentences[0].target.push_back(0);
  sentences[0].target.push_back(1 % poison);
  const Batch batch = pack(sentences, config);
  const auto row = *rc::gen::inRange<int64_t>(1, batch.target.size());
  Batch poisoned = batch;
  poisoned.target.tokens[static_cast<size_t>(row)] = poison;
  for (const float value : {kNaN, kInfinity, -kInfinity}) {
    Transformer model = random_model(config, 7);
    poison_token(model, poison, value);
    Session session(model, 2);
    const Past before = past_of(model, batch, row, session);
    const Past after = past_of(model, poisoned, row, session);
    RC_ASSERT(equal_bits(before.hidden, after.hidden));
    if (!testing::has_gradients(config)) continue;
    RC_ASSERT(equal_bits(before.query_gradients.back(), after.query_gradients.back()));
  }
}

// Packed sentences do not affect each other, and padding affects nothing.
RC_GTEST_PROP(Leak, NeighboursInTheBatchAreInvisible, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  TransformerConfig config = random_config();
  config.tied = config.share_source_target = config.share_target_output = false;
  Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  auto sentences = random_sentences(config, 3, 20);
  const auto poison = static_cast<int32_t>(config.target_vocab - 1);
  for (Sentence& sentence : sentences) {
    for (int32_t& token : sentence.target) token %= poison;
  }
  poison_token(model, poison, kNaN);
  Session session(model, 2);
  const Batch batch = pack(sentences, {0, 1, 2}, {1, 2}, config);
  const Pass before = training_pass(model, batch, session);
  Batch poisoned = batch;
  const auto middle = static_cast<size_t>(batch.first_row[1]);
  for (size_t i = 0; i < sentences[1].target.size(); ++i)
    poisoned.target.tokens[middle + i] = poison;
  for (size_t row = 0; row < poisoned.target.slots.size(); ++row) {
    if (poisoned.target.slots[row] < 0) poisoned.target.tokens[row] = poison;
  }
  const Pass after = training_pass(model, poisoned, session);
  for (const size_t i : {size_t{0}, size_t{2}}) {
    const auto length = static_cast<int64_t>(sentences[i].target.size());
    RC_ASSERT(equal_bits(rows_of(before.hidden, config.model, batch.first_row[i], length),
                         rows_of(after.hidden, config.model, batch.first_row[i], length)));
  }
}

// Nor do they reach each other's gradients: a loss over the other sentences does not notice a
// change in this one.
RC_GTEST_PROP(Leak, NeighboursReachNoGradient, ()) {
  if (testing::passed_over_on_cuda(4)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const auto sentences = random_sentences(config, 3, 20);
  Session session(model, 2);
  Batch batch = pack(sentences, config);
  const auto middle = static_cast<size_t>(batch.first_row[1]);
  for (size_t i = 0; i < sentences[1].target.size(); ++i) batch.labels[middle + i] = -1;
  const Pass before = training_pass(model, batch, session);
  for (size_t i = 0; i < sentences[1].target.size(); ++i) {
    int32_t& token = batch.target.tokens[middle + i];
    token = static_cast<int32_t>((token + 1) % config.target_vocab);
  }
  const Pass after = training_pass(model, batch, session);
  RC_ASSERT(before.gradients.size() == after.gradients.size());
  for (size_t i = 0; i < before.gradients.size(); ++i) {
    RC_ASSERT(equal_bits(before.gradients[i], after.gradients[i]));
  }
}

// Positions that a slot forgot are gone, even if they were NaN and their page is reused.
TEST(Leak, ForgottenPositionsAreGone) {
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  config.decoder_layers = 2;
  config.tied = false;
  Transformer model = random_model(config, 4);
  poison_token(model, 10, kNaN);
  Session session(model, 1);
  const testing::Tokens tokens = {1, 2, 3, 4, 5, 6, 7};
  const testing::Tokens poison(9, 10);
  const int32_t clean = session->cache.open();
  const int32_t dirty = session->cache.open();
  Rows rows;
  rows.add_sequence(std::span(tokens).first(3), {.slot = dirty});
  rows.add_sequence(poison, {.slot = dirty, .first = 3});
  model.forward(rows, {}, session);
  session->cache.truncate(dirty, 3);
  rows.clear();
  rows.add_sequence(std::span(tokens).subspan(3), {.slot = dirty, .first = 3});
  const auto after = floats_of(model.forward(rows, {}, session));
  rows.clear();
  rows.add_sequence(tokens, {.slot = clean});
  const auto expected = floats_of(model.forward(rows, {}, session));
  EXPECT_TRUE(testing::same_bits(after, rows_of(expected, 8, 3, 4)));
}

}  // namespace
}  // namespace tril::leak_test
