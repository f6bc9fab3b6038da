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

// Multiplications and additions of an update, 6 for each weight a row passes: those of the layers,
// and of the output projection for target rows. Attention's own products are left out. In 10^9.
double update_gflop(const TransformerConfig& config, double source_rows, double target_rows);

// The products of a context on CUDA: those that keep the promise of equal bits, or whatever
// cuBLASLt likes, which is what the promise's price is measured against (kernels/cuda/gemm.h).
enum class Products { promised, free };
// Before the context's first product. On the CPU there is no choice.
void use_products(Context& context, Products products);

struct TimedUpdates {
  double seconds = 0.0;  // an update of so many tokens takes, by the median time a token
  double source_tokens = 0.0;
  double target_tokens = 0.0;
};
// How many: at least `least`, and as many as fit into `budget` seconds, after some that are not
// counted.
struct UpdateTimes {
  int64_t warm_up = 2;
  int64_t least = 3;
  double budget = 0.5;
};
// Updates with the batches that `next` hands out, from there until the device has done all.
TimedUpdates time_updates(Transformer& model, const NextBatch& next, const UpdateTimes& times,
                          Session& session);
// Batches of exactly so many rows on either side: sentences of the lengths in measure/work.h and of
// random tokens, as many as fit, and a few rows of filler behind them.
std::vector<Batch> packed_batches(int64_t count, int64_t rows, int64_t vocab);
// Updates of a new model on the CPU with batches of at most `batch_tokens` target tokens, after two
// that are not counted. 0 threads: every core.
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
  Products products = Products::promised;
};
// All sentences once; returns how many tokens were chosen for them.
double translate_work(const Transformer& model, const TranslationWork& work, Session& session);

struct TimedTranslation {
  double seconds = 0.0;  // all sentences, median
  double tokens = 0.0;   // chosen for them
};
// All sentences at least once, after once, cut short, that is not counted; on CUDA after all of it
// twice, by when what comes again is kept.
TimedTranslation time_translation(const Transformer& model, const TranslationWork& work,
                                  double budget, int threads);

}  // namespace tril
