// Timed models: training updates, and translation of given sentences.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tril/decode/search.h"
#include "tril/train/learn.h"
#include "tril/train/options.h"

namespace tril {

TransformerConfig preset_config(Preset preset, int64_t vocab);

// Multiplications and additions of an update, 6 per weight and row: those of the layers, and of the
// output projection for target rows. Attention's own products are left out. In 10^9.
double update_gflop(const TransformerConfig& config, double source_rows, double target_rows);

// The products of a context on CUDA: those that keep the promise of equal bits, or cuBLASLt's own
// choice, against which the cost of the promise is measured (kernels/cuda/gemm.h).
enum class Products { promised, free };
// Must precede the context's first product. On the CPU there is no choice.
void use_products(Context& context, Products products);

struct TimedUpdates {
  double seconds = 0.0;  // for an update of this many tokens, from the median time per token
  double source_tokens = 0.0;
  double target_tokens = 0.0;
};
// How many updates: at least `least`, and as many as fit into `budget` seconds, after some that are
// not counted.
struct UpdateTimes {
  int64_t warm_up = 2;
  int64_t least = 3;
  double budget = 0.5;
};
// Updates with the batches that `next` provides, timed until the device has finished.
TimedUpdates time_updates(Transformer& model, const NextBatch& next, const UpdateTimes& times,
                          Session& session);
// Batches of exactly this many rows per side: sentences of random tokens with the lengths of
// measure/work.h, as many as fit, followed by a few rows of padding.
std::vector<Batch> packed_batches(int64_t count, int64_t rows, int64_t vocab);
// Updates of a new model on the CPU with batches of at most `batch_tokens` target tokens, after two
// that are not counted. 0 threads: all cores.
TimedUpdates time_training(const TransformerConfig& config, std::span<const LearnPair> pairs,
                           int64_t batch_tokens, int64_t least, double budget, int threads);

// The translation workload, which bench/peers gives other systems too: a base model with SiLU, this
// many pieces, and this many output tokens.
constexpr int64_t kTranslationVocab = 58101;
constexpr int64_t kTranslationTokens = 30;
TransformerConfig translation_config();
// Its first `count` sentences: the same in every call, with the lengths of measure/work.h.
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
// Translates all sentences once; returns the number of tokens chosen.
double translate_work(const Transformer& model, const TranslationWork& work, Session& session);

struct TimedTranslation {
  double seconds = 0.0;  // all sentences, median
  double tokens = 0.0;   // chosen in total
};
// All sentences at least once, after a shortened run that is not counted; on CUDA after two
// complete runs, so that the steps are kept.
TimedTranslation time_translation(const Transformer& model, const TranslationWork& work,
                                  double budget, int threads);

}  // namespace tril
