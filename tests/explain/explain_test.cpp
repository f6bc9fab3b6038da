// The contents of an explanation, against the library's other ways to compute the same numbers.
#include "tril/explain/explain.h"

#include <algorithm>
#include <cmath>

#include "explain/examples.h"
#include "support/models.h"
#include "tril/base/fingerprint.h"
#include "tril/decode/alignment.h"
#include "tril/decode/score.h"
#include "tril/explain/passes.h"
#include "tril/kernels/reference/attention.h"

namespace tril::explain_test {
namespace {

using testing::example_tokenizer;
using testing::example_translator;
using testing::Family;
using testing::raised_by;
using testing::same_bits;
using testing::small_config;
using testing::Tokens;

ExplainOptions quick_options() {
  ExplainOptions options;
  options.search.max_tokens = 7;
  options.threads = 1;
  return options;
}

RC_GTEST_PROP(Explain, TrainingAndDecodingHaveTheSameBits, ()) {
  TransformerConfig config = testing::random_config();
  config.target_vocab = example_tokenizer().vocab();
  if (!config.decoder_only()) config.source_vocab = config.target_vocab;
  config.max_length = std::max<int64_t>(config.max_length, 40);
  const Translator translator = example_translator(config.completed(), *rc::gen::inRange(1, 1000));
  ExplainOptions options = quick_options();
  // Random models like to repeat themselves: a target whose tokens differ tells more.
  if (!config.decoder_only()) options.target = "I am fine, thank you";
  const Explanation e = explain(translator, "how are you", options);
  RC_ASSERT(e.numbers_compared > 0);
  RC_ASSERT(e.numbers_differing == 0);
  RC_ASSERT(e.parallel_calls == 1);
  RC_ASSERT(e.stepwise_calls == static_cast<int64_t>(e.steps.size()));
  RC_ASSERT(e.parallel_encoder_calls == (config.decoder_only() ? 0 : 1));
  RC_ASSERT(e.stepwise_encoder_calls == e.parallel_encoder_calls);
  for (const auto& [training, stepwise] : {std::pair{&e.training.encoder, &e.stepwise.encoder},
                                           {&e.training.masked, &e.stepwise.masked},
                                           {&e.training.cross, &e.stepwise.cross}}) {
    RC_ASSERT(training->size() == stepwise->size());
    for (size_t layer = 0; layer < training->size(); ++layer) {
      RC_ASSERT(same_bits((*training)[layer], (*stepwise)[layer]));
    }
  }
  for (const ExplainedStep& step : e.steps) {
    RC_ASSERT(step.parallel_fingerprint == step.stepwise_fingerprint);
  }
  // The textbook's weights times the values equal the library's contexts, up to rounding.
  RC_ASSERT(e.context_check.compared > 0);
  RC_ASSERT(e.context_check.largest_share <= 1.0);
}

// One head of one layer that sees a key too many, in training alone.
TEST(Explain, AFaultInOnePassIsSeenInItsRowAndLayer) {
  const Translator translator = example_translator(small_config());
  ExplainOptions options = quick_options();
  options.target = "I am fine, thank you";
  TestHooks hooks;
  hooks.widen_head = 1;
  hooks.widen_layer = 1;
  hooks.widen_row = 2;
  const Explanation e = explain(translator, "how are you", options, hooks);
  ASSERT_GT(e.steps.size(), 4u);
  EXPECT_GT(e.numbers_differing, 0);
  for (size_t row = 0; row < e.steps.size(); ++row) {
    const bool hit = row == 2;
    EXPECT_EQ(e.steps[row].differing_in_layer[0], 0) << row;
    EXPECT_EQ(e.steps[row].differing_in_layer[1] > 0, hit) << row;
    EXPECT_EQ(e.steps[row].differing_hidden > 0, hit) << row;
    EXPECT_EQ(e.steps[row].differing_logits > 0, hit) << row;
    EXPECT_EQ(e.steps[row].parallel_fingerprint != e.steps[row].stepwise_fingerprint, hit) << row;
  }
  EXPECT_GT(e.context_check.largest_share, 1.0);
}

// Decoding keeps what it computed itself: a fault of training below a layer is not in its records.
TEST(Explain, TheStepwiseRecordsAreThoseOfDecoding) {
  const Translator translator = example_translator(small_config());
  ExplainOptions options = quick_options();
  options.target = "I am fine, thank you";
  const Explanation sound = explain(translator, "how are you", options);
  TestHooks hooks;
  hooks.widen_head = 1;
  hooks.widen_layer = 0;
  hooks.widen_row = 2;
  const Explanation e = explain(translator, "how are you", options, hooks);
  for (size_t layer = 0; layer < 2; ++layer) {
    EXPECT_TRUE(same_bits(e.stepwise.masked[layer], sound.training.masked[layer]));
    EXPECT_TRUE(same_bits(e.stepwise.cross[layer], sound.training.cross[layer]));
    EXPECT_FALSE(same_bits(e.training.masked[layer], sound.training.masked[layer]));
    EXPECT_TRUE(same_bits(e.stepwise.encoder[layer], e.training.encoder[layer]));
  }
}

// Keys and values that the source gives, and the encoder's own numbers, count as well.
TEST(Explain, AllNumbersOfBothPassesAreCompared) {
  const TransformerConfig config = small_config();
  const Explanation e = explain(example_translator(config), "how are you", quick_options());
  const auto rows = static_cast<int64_t>(e.steps.size());
  const auto keys = static_cast<int64_t>(e.source.size());
  const int64_t width = config.heads * config.head_dim;
  const int64_t encoder = config.encoder_layers * 4 * keys * width;
  const int64_t decoder = config.decoder_layers * (7 * rows + 2 * keys) * width;
  EXPECT_EQ(e.numbers_compared, encoder + decoder + rows * (config.model + config.target_vocab));
}

TEST(Explain, GreedySearchIsRunWhereABeamWroteSomethingElse) {
  int64_t found = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Translator translator = example_translator(small_config(), seed);
    ExplainOptions options = quick_options();
    const Explanation e = explain(translator, "how are you", options);
    const bool unlikely = std::any_of(
        e.steps.begin(), e.steps.end(),
        [](const ExplainedStep& step) { return step.candidates.front().token != step.right; });
    ASSERT_EQ(e.greedy.has_value(), unlikely) << seed;
    options.search.beam = 1;
    const Explanation greedy = explain(translator, "how are you", options);
    EXPECT_FALSE(greedy.greedy.has_value());
    if (!unlikely) continue;
    ++found;
    EXPECT_EQ(e.greedy->tokens, greedy.written);
    EXPECT_EQ(e.greedy->rank, greedy.hypotheses.front().rank);
    EXPECT_EQ(e.greedy_text, greedy.written_text);
  }
  EXPECT_GT(found, 0);
}

TEST(Explain, ReadsWhatTheModelWroteUnlessATargetIsGiven) {
  const Translator translator = example_translator(small_config());
  const Explanation own = explain(translator, "how are you", quick_options());
  TranslateOptions search;
  search.search = quick_options().search;
  const std::string line = "how are you";
  const auto translation = translator.translate(std::span(&line, 1), search).front();
  EXPECT_EQ(own.written, translation.hypotheses.front().tokens);
  EXPECT_EQ(own.written_text, translation.text());
  EXPECT_EQ(own.target_text, own.written_text);
  EXPECT_FALSE(own.target_given);
  ASSERT_EQ(own.steps.size(), own.written.size());
  for (size_t i = 0; i < own.steps.size(); ++i) {
    EXPECT_EQ(own.steps[i].right, own.written[i]);
    EXPECT_EQ(own.steps[i].fed, i == 0 ? example_tokenizer().start() : own.written[i - 1]);
  }

  ExplainOptions options = quick_options();
  options.target = "मैं ठीक हूँ";
  const Explanation given = explain(translator, "how are you", options);
  EXPECT_TRUE(given.target_given);
  EXPECT_EQ(given.target_text, "मैं ठीक हूँ");
  EXPECT_EQ(given.written, own.written);
  Tokens target = example_tokenizer().encode("मैं ठीक हूँ");
  target.push_back(example_tokenizer().end());
  ASSERT_EQ(given.steps.size(), target.size());
  for (size_t i = 0; i < target.size(); ++i) {
    EXPECT_EQ(given.steps[i].right, target[i]);
    EXPECT_EQ(given.steps[i].fed, i == 0 ? example_tokenizer().start() : target[i - 1]);
  }
}

TEST(Explain, ProbabilitiesAreThoseOfScore) {
  const Translator translator = example_translator(small_config());
  ExplainOptions options = quick_options();
  options.target = "I am fine, thank you";
  const Explanation e = explain(translator, "how are you", options);
  Session session(translator.model(), 1);
  ScoreRequest request{.number = 0, .source = e.source, .target = {}};
  for (const ExplainedStep& step : e.steps) request.target.push_back(step.right);
  const ScoreResult scored =
      score(translator.model(), {.start = example_tokenizer().start()}, request, session);
  for (size_t i = 0; i < e.steps.size(); ++i) {
    const ExplainedStep& step = e.steps[i];
    // log p = (x - max) - log S. In float the first is off by a unit of it, S by gamma(vocab) and
    // its exponentials, log S and the last difference by a unit each; |x - max| is at most
    // |log p| + log S, and log S at most log vocab.
    const auto vocab = e.config.target_vocab;
    const double log_prob = double{scored.log_probs[i]};
    const double bound =
        testing::gamma(vocab + 8) +
        4.0 * testing::kUnit * (std::fabs(log_prob) + std::log(static_cast<double>(vocab)));
    EXPECT_NEAR(double{step.right_log_prob}, log_prob, bound);
    for (size_t c = 1; c < step.candidates.size(); ++c) {
      EXPECT_GE(step.candidates[c - 1].log_prob, step.candidates[c].log_prob);
    }
    EXPECT_GE(step.candidates.front().log_prob, step.right_log_prob);
  }
}

// q·k / √d of every pair, in double, rounded once.
std::vector<float> plain_scores(const AttentionRecord& r, const Explanation& e) {
  std::vector<float> scores;
  for (int64_t head = 0; head < e.config.heads; ++head) {
    for (int64_t i = 0; i < r.query; ++i) {
      for (int64_t j = 0; j < r.key; ++j) {
        double sum = 0.0;
        for (int64_t d = 0; d < e.config.head_dim; ++d) {
          const auto at = [&](int64_t row) {
            return static_cast<size_t>((row * e.config.heads + head) * e.config.head_dim + d);
          };
          sum += double{r.queries[at(i)]} * double{r.keys[at(j)]};
        }
        scores.push_back(static_cast<float>(sum * double{e.scale}));
      }
    }
  }
  return scores;
}

TEST(Explain, CrossAttentionIsTheAlignment) {
  const Translator translator = example_translator(small_config());
  const Explanation e = explain(translator, "how are you", quick_options());
  Session session(translator.model(), 1);
  const Alignment alignment =
      align(translator.model(), e.source, e.written, {.start = e.start, .layer = 1}, session);
  const AttentionRecord& r = e.training.cross[1];
  const std::vector<double> q(r.queries.begin(), r.queries.end());
  const std::vector<double> k(r.keys.begin(), r.keys.end());
  std::vector<double> mean(static_cast<size_t>(r.query * r.key), 0.0);
  for (int64_t head = 0; head < e.config.heads; ++head) {
    const auto weights = reference::attention_weights<double>(
        {r.query, r.key, e.config.heads, e.config.kv_heads, e.config.head_dim}, double{e.scale}, q,
        k, r.sees, head);
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] += weights[i] / static_cast<double>(e.config.heads);
    }
  }
  ASSERT_EQ(mean.size(), alignment.weights.size());
  // Both in double; but the library's scale is rounded to float, which changes a score by one unit.
  double largest = 0.0;
  for (const float score : plain_scores(r, e))
    largest = std::max(largest, std::fabs(double{score}));
  const double bound = std::expm1(2.0 * testing::kUnit * largest) + 1e-12;
  for (size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], alignment.weights[i], bound);
}

// Layer 0 has the same queries, keys and scores with and without the mask. Above it, and in the
// output, only rows that saw nothing new keep their bits.
TEST(Explain, WithoutTheMaskRowsChange) {
  const Translator translator = example_translator(small_config());
  ExplainOptions options = quick_options();
  options.target = "I am fine, thank you";
  const Explanation e = explain(translator, "how are you", options);
  EXPECT_EQ(e.leaked_scores.size(), 2u);
  EXPECT_TRUE(same_bits(e.leaked_scores[0], plain_scores(e.training.masked[0], e)));
  EXPECT_FALSE(testing::equal_bits(e.leaked_scores[1], plain_scores(e.training.masked[1], e)));
  for (const ExplainedStep& step : e.steps) {
    EXPECT_GT(step.leaked_differing_logits, 0);
    EXPECT_NE(step.leaked_fingerprint, step.stepwise_fingerprint);
  }
  // With one layer the last row sees the same as always.
  TransformerConfig config = small_config();
  config.decoder_layers = 1;
  const Explanation shallow = explain(example_translator(config), "how are you", options);
  for (const ExplainedStep& step : shallow.steps) {
    EXPECT_EQ(step.leaked_differing_logits == 0, &step == &shallow.steps.back());
  }
}

TEST(Explain, DecoderOnlyModelsContinueTheSentence) {
  const Translator translator = example_translator(small_config(Family::decoder_only));
  const Explanation e = explain(translator, "how are", quick_options());
  EXPECT_TRUE(e.training.encoder.empty());
  EXPECT_TRUE(e.training.cross.empty());
  EXPECT_TRUE(e.source.empty());
  EXPECT_EQ(e.numbers_differing, 0);
  EXPECT_EQ(e.prompt, static_cast<int64_t>(example_tokenizer().encode("how are").size()));
  EXPECT_TRUE(e.written_text.starts_with("how are"));
  EXPECT_GT(e.steps.size(), static_cast<size_t>(e.prompt));
  // From nothing, too.
  EXPECT_GT(explain(translator, "", quick_options()).steps.size(), 0u);
  ExplainOptions options = quick_options();
  options.target = "fine";
  EXPECT_NE(raised_by([&] { explain(translator, "how are", options); }).text.find("no encoder"),
            std::string::npos);
}

TEST(Explain, WhatCannotBeShownIsOneClearError) {
  const Translator translator = example_translator(small_config());
  const auto error = [&](const std::string& sentence, const ExplainOptions& options) {
    const auto raised = raised_by([&] { explain(translator, sentence, options); });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    EXPECT_EQ(raised.text.find('\n'), std::string::npos);
    return raised.text;
  };
  EXPECT_EQ(error("", quick_options()), "explain: the sentence has no word");
  EXPECT_EQ(error("   ", quick_options()), "explain: the sentence has no word");
  EXPECT_NE(error("\xFF\xFE", quick_options()).find("UTF-8"), std::string::npos);
  std::string many = "you";
  for (int i = 0; i < 150; ++i) many += " you";
  EXPECT_EQ(error(many, quick_options()),
            "explain: the sentence has 152 tokens, a page can show 128 at most");
  for (int i = 0; i < 100; ++i) many += " you";
  EXPECT_EQ(error(many, quick_options()),
            "explain: the sentence has 252 tokens, the model takes 200 at most");
  ExplainOptions options = quick_options();
  options.target = many;
  EXPECT_EQ(error("how are you", options),
            "explain: the target has 252 tokens, the model takes 200 at most");
  EXPECT_EQ(error("how are\nyou", quick_options()),
            "explain: the sentence must be one line, but there is a line break after 7 bytes");
  for (const char* empty : {"", "  "}) {
    options.target = empty;
    EXPECT_EQ(error("how are you", options), "explain: the target has no word");
  }
  options.target = "fine\r\n";
  EXPECT_EQ(error("how are you", options),
            "explain: the target must be one line, but there is a line break after 4 bytes");
  options.target = "\xFF";
  EXPECT_NE(error("how are you", options).find("UTF-8"), std::string::npos);
  // A word is as long as it likes; its tokens are counted.
  EXPECT_EQ(error(std::string(150, 'q'), quick_options()),
            "explain: the sentence has 152 tokens, a page can show 128 at most");
  options = quick_options();
  options.search.beam = 17;
  EXPECT_NE(error("how are you", options).find("got 17"), std::string::npos);
  options = quick_options();
  options.candidates = 0;
  EXPECT_NE(error("how are you", options).find("candidates"), std::string::npos);
}

TEST(Explain, NumbersThatAreNotFiniteAreRefused) {
  const Translator translator = example_translator(small_config());
  Transformer model = translator.model();
  for (const auto& parameter : model.writable_parameters()) {
    if (parameter.name.find("query") != std::string::npos) {
      std::fill_n(parameter.tensor.data(), parameter.tensor.size(), 1e38f);
    }
  }
  Context context(1);
  model.weights_changed(context);
  EXPECT_EQ(raised_by([&] { explain(translator, "how are you", quick_options()); }).code,
            ErrorCode::bad_format);
}

// Each stage follows from the one before it: a sub-layer's output is its input plus what it adds,
// in one fp32 addition, and with the norm last the norm of that sum.
TEST(Explain, StagesFollowFromEachOther) {
  TransformerConfig last = small_config();
  last.norm_position = NormPosition::post;
  for (const TransformerConfig& config :
       {small_config(), last.completed(), small_config(Family::decoder_only)}) {
    const Explanation e = explain(example_translator(config), "how are you", quick_options());
    const StageRecord& s = e.stages;
    const size_t count = config.decoder_only() ? 2 : 3;
    ASSERT_EQ(s.sub_layers.size(), count * static_cast<size_t>(config.decoder_layers));
    ASSERT_EQ(s.embedded.size(), e.steps.size() * static_cast<size_t>(s.kept));
    for (size_t i = 0; i < s.embedded.size() && !s.position.empty(); ++i) {
      const double token = double{s.token[i]};
      const double sum = token + double{s.position[i]};
      EXPECT_NEAR(double{s.embedded[i]}, sum,
                  2.0 * testing::kUnit * (std::fabs(token) + std::fabs(sum)));
    }
    const std::vector<float>* before = &s.embedded;
    for (size_t place = 0; place < s.sub_layers.size(); ++place) {
      const SubLayerRecord& r = s.sub_layers[place];
      EXPECT_EQ(r.layer, static_cast<int64_t>(place / count));
      EXPECT_EQ(r.kind == SubLayerRecord::Kind::feed_forward, place % count == count - 1);
      EXPECT_EQ(r.active.size(), r.hidden.empty() ? 0 : e.steps.size());
      EXPECT_EQ(r.hidden.empty(), r.kind != SubLayerRecord::Kind::feed_forward);
      for (size_t i = 0; i < r.left.size(); ++i) {
        if (config.norm_position == NormPosition::pre) {
          EXPECT_EQ(r.left[i], (*before)[i] + r.added[i]);
        } else {
          EXPECT_EQ(r.left[i], r.normed[i]);
        }
      }
      // The norm's first number, from the moments of its input.
      const auto kept = static_cast<size_t>(s.kept);
      for (size_t row = 0; row < e.steps.size(); ++row) {
        const double x =
            double{(*before)[row * kept]} +
            (config.norm_position == NormPosition::pre ? 0.0 : double{r.added[row * kept]});
        const double variance = r.rms[row] * r.rms[row] - r.mean[row] * r.mean[row];
        const double normed = (x - r.mean[row]) / std::sqrt(variance + config.norm_epsilon);
        if (config.norm == NormType::layer) {
          EXPECT_NEAR(double{r.normed[row * kept]}, normed * double{r.gain} + double{r.shift},
                      1e-4);
        }
      }
      before = &r.left;
    }
  }
}

// With the logits of the candidates and the sum for a temperature come their probabilities.
TEST(Explain, SumsOverTheVocabularyGiveTheProbabilities) {
  const Explanation e = explain(example_translator(small_config()), "how are you", quick_options());
  for (const ExplainedStep& step : e.steps) {
    ASSERT_EQ(step.log_sums.size(), static_cast<size_t>(kTemperatures));
    EXPECT_EQ(temperature_of(9), 1.0);
    for (const TokenChance& c : step.candidates) {
      EXPECT_EQ(static_cast<float>(double{c.logit} - step.log_sums[9]), c.log_prob);
    }
    EXPECT_EQ(static_cast<float>(double{step.right_logit} - step.log_sums[9]), step.right_log_prob);
    // Colder: the likeliest gains.
    const double logit = double{step.candidates.front().logit};
    double before = 0.0;
    for (int64_t i = kTemperatures - 1; i >= 0; --i) {
      const double chance = logit / temperature_of(i) - step.log_sums[static_cast<size_t>(i)];
      EXPECT_LE(chance, 0.0);
      if (i < kTemperatures - 1) {
        EXPECT_GE(chance, before);
      }
      before = chance;
    }
  }
}

}  // namespace
}  // namespace tril::explain_test
