// Alignments against the textbook's attention, computed from what the model computes.
#include "tril/decode/alignment.h"

#include <algorithm>
#include <cmath>

#include "slow_search.h"
#include "support/models.h"
#include "tril/kernels/reference/attention.h"
#include "tril/models/observer.h"
#include "tril/models/session_state.h"

namespace tril::alignment_test {
namespace {

using testing::Family;
using testing::raised_by;
using testing::random_config;
using testing::random_model;
using testing::sharp_model;
using testing::Tokens;

// The weights as a training pass sees them: queries and keys under a tape, reference formula.
std::vector<double> textbook_weights(const Transformer& model, const Tokens& source,
                                     const Tokens& target, int32_t start, int64_t layer,
                                     Session& session) {
  struct Log : Observer {
    void see(const Observation& o) override {
      if (o.stack != Stack::decoder || o.layer != layer) return;
      if (o.site == Site::cross_key) keys = testing::floats_of(o.tensor);
      if (o.site != Site::cross_query) return;
      queries = testing::floats_of(o.tensor);
      rows.assign(o.intervals.begin(), o.intervals.end());
    }
    int64_t layer = 0;
    std::vector<float> queries, keys;
    std::vector<Interval> rows;
  } log;
  log.layer = layer;
  session->observer = &log;
  Tokens without_last = target;
  without_last.pop_back();
  testing::parallel_log_probs(model, source, start, without_last, session);
  session->observer = nullptr;

  const TransformerConfig& c = model.config();
  const auto q = testing::doubles_of(log.queries);
  const auto k = testing::doubles_of(log.keys);
  std::vector<double> mean(source.size() * target.size(), 0.0);
  for (int64_t head = 0; head < c.heads; ++head) {
    const auto w = reference::attention_weights<double>(
        {static_cast<int64_t>(target.size()), static_cast<int64_t>(source.size()), c.heads,
         c.kv_heads, c.head_dim},
        c.attention_scale > 0.0 ? c.attention_scale
                                : 1.0 / std::sqrt(static_cast<double>(c.head_dim)),
        q, k, log.rows, head);
    for (size_t i = 0; i < w.size(); ++i) mean[i] += w[i] / static_cast<double>(c.heads);
  }
  return mean;
}

RC_GTEST_PROP(Alignment, EqualsTheTextbook, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const TransformerConfig config = random_config(Family::encoder_decoder);
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  const auto sentence = testing::random_sentences(config, 1, 20)[0];
  Session session(model, *rc::gen::inRange(1, 3));
  AlignmentOptions options;
  options.layer = *rc::gen::inRange<int64_t>(-1, config.decoder_layers);
  const int64_t layer = options.layer >= 0           ? options.layer
                        : config.decoder_layers == 1 ? 0
                                                     : config.decoder_layers - 2;
  const auto expected =
      textbook_weights(model, sentence.source, sentence.target, options.start, layer, session);
  const Alignment found = align(model, sentence.source, sentence.target, options, session);
  RC_ASSERT(found.weights.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    // Both are the same few hundred operations in double, with e^x of two libraries.
    RC_ASSERT(std::abs(found.weights[i] - expected[i]) <= 1e-12);
  }
  const auto hard = found.hard();
  RC_ASSERT(hard.size() == sentence.target.size());
  for (int64_t i = 0; i < found.target; ++i) {
    for (int64_t j = 0; j < found.source; ++j) {
      const int32_t best = hard[static_cast<size_t>(i)];
      RC_ASSERT(found.weight(i, j) < found.weight(i, best) ||
                (found.weight(i, j) == found.weight(i, best) && j >= best));
    }
  }
  RC_ASSERT(session->cache.block_count() == 0);
  RC_ASSERT(session->observer == nullptr);
}

TEST(Alignment, EqualWeightsGoToTheLower) {
  const Alignment alignment{3, 2, {0.25, 0.375, 0.375, 0.5, 0.0, 0.5}};
  EXPECT_EQ(alignment.hard(), (std::vector<int32_t>{1, 0}));
}

TEST(Alignment, RequestsAreChecked) {
  const Transformer model = sharp_model(Family::encoder_decoder, 6, 5, 8);
  Session session(model, 1);
  const auto text = [&](const Tokens& source, const Tokens& target, const AlignmentOptions& o) {
    return raised_by([&] { align(model, source, target, o, session); }).text;
  };
  EXPECT_EQ(text({1}, {1}, {.layer = 1}), "align: layer 1 of a decoder of 1");
  EXPECT_EQ(text({}, {1}, {}), "align: the source is empty");
  EXPECT_EQ(text({1}, Tokens(9, 1), {}),
            "align: the target has 9 tokens, the model's max_length is 8");
  EXPECT_EQ(text({1}, {1, 6}, {}),
            "align: token 6 at 1 of the target is not below the vocabulary of 6");
  EXPECT_TRUE(align(model, Tokens{1, 2}, {}, {}, session).weights.empty());
  const Transformer only = sharp_model(Family::decoder_only, 6, 5);
  Session others(only, 1);
  const auto raised = raised_by([&] { align(only, {}, Tokens{1}, {}, others); });
  EXPECT_EQ(raised.code, ErrorCode::unsupported);
  EXPECT_EQ(raised.text, "align: a decoder-only model has no cross-attention");
}

}  // namespace
}  // namespace tril::alignment_test
