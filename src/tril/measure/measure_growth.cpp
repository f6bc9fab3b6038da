// Time per token and memory against the length of sentences and their number.
#include "tril/measure/inputs.h"
#include "tril/measure/measure.h"
#include "tril/measure/model_work.h"
#include "tril/measure/repeat.h"
#include "tril/measure/resident.h"
#include "tril/measure/work.h"
#include "tril/ops/attention.h"

namespace tril {
namespace {

constexpr int64_t kShortest = 16;
constexpr int64_t kLongest = 4096;
constexpr int64_t kMostSentences = 256;
constexpr int64_t kSentence = 32;  // tokens, when the number of sentences grows
constexpr int64_t kVocab = 8000;

TransformerConfig growth_config() {
  TransformerConfig config = preset_config(Preset::small, kVocab);
  config.max_length = kLongest + 1;
  return config;
}

std::vector<std::vector<int32_t>> equal_sentences(int64_t number, int64_t length, Random& random) {
  std::vector<std::vector<int32_t>> sentences;
  for (int64_t i = 0; i < number; ++i) sentences.push_back(work_sentence(length, kVocab, random));
  return sentences;
}

void add_translation(const Transformer& model, const std::string& series, int64_t at,
                     int64_t number, int64_t length, Results& results,
                     const MeasureOptions& options) {
  const std::string name = concat(series, " ", at);
  if (!results.wants(name)) return;
  Random random(1);
  const auto sources = equal_sentences(number, length, random);
  reset_peak_resident();
  const TimedTranslation timed =
      time_translation(model, {.sources = sources, .tokens_out = length, .batch = number},
                       options.seconds_each, options.threads);
  results.add({.name = name,
               .seconds = timed.seconds,
               .tokens = timed.tokens,
               .resident = peak_resident(),
               .series = series,
               .at = at,
               .note = concat(number, " x ", length, " tokens, greedy")});
}

void add_training(const std::string& series, int64_t at, int64_t number, int64_t length,
                  Results& results, const MeasureOptions& options) {
  const std::string name = concat(series, " ", at);
  if (!results.wants(name)) return;
  Random random(1);
  const auto sources = equal_sentences(number, length, random);
  std::vector<LearnPair> pairs;
  pairs.reserve(sources.size());
  for (const std::vector<int32_t>& source : sources) {
    pairs.push_back({source, work_sentence(length, kVocab, random)});
  }
  reset_peak_resident();
  const TimedUpdates timed = time_training(growth_config(), pairs, number * length, 2,
                                           options.seconds_each, options.threads);
  results.add({.name = name,
               .seconds = timed.seconds,
               .tokens = timed.target_tokens,
               .resident = peak_resident(),
               .series = series,
               .at = at,
               .note = concat("updates of ", number, " x ", length, " tokens")});
}

// Scratch and results of attention alone, forward and backward, eight heads of 64.
void add_attention_memory(int64_t length, Results& results, const MeasureOptions& options) {
  const std::string series = "attention by length";
  const std::string name = concat(series, " ", length);
  if (!results.wants(name)) return;
  constexpr int64_t kHeads = 8;
  const AttentionInputs in(1, length, kHeads, 64);
  Context context(options.threads);
  const double seconds = median_seconds(
      options.seconds_each,
      [&] {
        context.reset();
        const ops::AttentionResult result =
            ops::attention(context, in.q, in.k, in.v, in.mask.rows(), {});
        ops::attention_gradients(context, in.q, in.k, in.v, result, in.dout, in.mask.rows(), {});
      },
      1);
  const int64_t bytes = context.arena.peak_bytes() + context.host.peak_bytes();
  const int64_t scores = kHeads * length * length * static_cast<int64_t>(sizeof(float));
  results.add({.name = name,
               .seconds = seconds,
               .mebibytes = static_cast<double>(bytes) / (1 << 20),
               .series = series,
               .at = length,
               .note = concat("matrices of scores would be ", scores, " bytes")});
}

// One row's attention to 512 cached keys (4 heads of 64, one MiB including values), for this many
// sequences in turn. The work of a call stays the same and only the data grow, which shows the
// effect of caches.
void add_cached_attention(int64_t sequences, Results& results, const MeasureOptions& options) {
  const std::string series = "cached attention by MiB held";
  const std::string name = concat(series, " ", sequences);
  if (!results.wants(name)) return;
  constexpr int64_t kHeads = 4;
  constexpr int64_t kDim = 64;
  constexpr int32_t kKeys = 512;
  constexpr int64_t kPageKeys = 16;  // nn/cache.h
  constexpr int64_t kPageFloats = 2 * kPageKeys * kHeads * kDim;
  Arena arena;
  std::vector<std::vector<const float*>> pages(static_cast<size_t>(sequences));
  for (std::vector<const float*>& list : pages) {
    for (int64_t key = 0; key < kKeys; key += kPageKeys) {
      float* page = arena.allocate_array<float>(kPageFloats);
      std::fill_n(page, kPageFloats, 0.5f);
      list.push_back(page);
    }
  }
  Random random(1);
  const Tensor q = random_tensor(arena, {1, kHeads, kDim}, random);
  const Interval all{.lo = 0, .hi = kKeys};
  Context context(options.threads);
  const double seconds = median_seconds(options.seconds_each, [&] {
    for (const std::vector<const float*>& list : pages) {
      context.reset();
      const float* const* first = list.data();
      const ops::PagedKeys keys{.pages = {&first, 1},
                                .lengths = {&kKeys, 1},
                                .kv_heads = kHeads,
                                .head_dim = kDim,
                                .keys_offset = 0,
                                .values_offset = kPageFloats / 2};
      ops::attention_paged(context, q, keys, std::span<const Interval>(&all, 1), {});
    }
  });
  results.add({.name = name,
               .seconds = seconds / static_cast<double>(sequences),
               .traffic = {4e-9 * static_cast<double>(2 * kKeys * kHeads * kDim), 0.0},
               .series = series,
               .at = sequences,
               .note = "a call that reads 1 MiB"});
}

}  // namespace

std::vector<Measurement> measure_growth(const MeasureOptions& options) {
  Results results("growth", options);
  // Ascending: if the system does not let peaks be reset, they are still the right ones.
  {
    const Transformer weights(growth_config(), 1);
    for (const Compute compute : {Compute::fp32, Compute::int8}) {
      const std::string what = concat("translate ", word_for(compute));
      const Transformer model = weights.packed(compute);
      for (int64_t length = kShortest; length <= kLongest; length *= 2) {
        add_translation(model, what + " by length", length, 1, length, results, options);
      }
      for (int64_t number = 1; number <= kMostSentences; number *= 2) {
        add_translation(model, what + " by batch", number, number, kSentence, results, options);
      }
    }
  }
  // The tokens of an update stay the same, so that only the lengths differ.
  for (int64_t length = kShortest; length <= kLongest; length *= 2) {
    add_training("train by length", length, kLongest / length, length, results, options);
  }
  for (int64_t number = 1; number <= kMostSentences; number *= 2) {
    add_training("train by batch", number, number, kSentence, results, options);
  }
  for (int64_t length = kShortest; length <= kLongest; length *= 2) {
    add_attention_memory(length, results, options);
  }
  for (const int64_t mebibytes : {1, 4, 8, 16, 24, 32, 48, 64, 128}) {
    add_cached_attention(mebibytes, results, options);
  }
  return results.take();
}

}  // namespace tril
