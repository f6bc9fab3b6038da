// Models at work, timed: updates of training, and translation of given sentences.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tril/decode/search.h"
#include "tril/train/learn.h"
#include "tril/train/options.h"

namespace tril {

TransformerConfig preset_config(Preset preset, int64_t vocab);

struct TimedUpdates {
  double seconds = 0.0;  // an update of so many tokens takes, by the median time a token
  double source_tokens = 0.0;
  double target_tokens = 0.0;
};
// Updates of a new model with batches of at most `batch_tokens` target tokens: at least `least`,
// and as many as fit into `budget` seconds, after two that are not counted. 0 threads: every core.
TimedUpdates time_training(const TransformerConfig& config, std::span<const LearnPair> pairs,
                           int64_t batch_tokens, int64_t least, double budget, int threads);

// What translation is measured on, and bench/peers gives other systems: a base model with SiLU, so
// many pieces, and so many tokens out.
constexpr int64_t kTranslationVocab = 58101;
constexpr int64_t kTranslationTokens = 30;
TransformerConfig translation_config();
// The first `count` of its sentences: the same in every call, of the lengths in measure/work.h.
std::vector<std::vector<int32_t>> translation_sources(size_t count);

constexpr int32_t kWorkStart = 2;
constexpr int32_t kWorkEnd = 3;
struct TranslationWork {
  std::span<const std::vector<int32_t>> sources{};
  int64_t tokens_out = 0;  // of each sentence: END is never chosen
  int64_t batch = 1;       // sentences at a time
  int64_t beam = 1;
  std::optional<Shortlist> shortlist{};
};
// All sentences once; returns how many tokens were chosen for them.
double translate_work(const Transformer& model, const TranslationWork& work, Session& session);

struct TimedTranslation {
  double seconds = 0.0;  // all sentences, median
  double tokens = 0.0;   // chosen for them
};
// All sentences at least once, after once, cut short, that is not counted.
TimedTranslation time_translation(const Transformer& model, const TranslationWork& work,
                                  double budget, int threads);

}  // namespace tril
