// Models on a CUDA GPU: training updates, and translation, with the cost of the promise.
#include <cmath>

#include "tril/base/build.h"
#include "tril/kernels/cuda/gemm.h"
#include "tril/measure/cuda_groups.h"
#include "tril/measure/model_work.h"
#include "tril/measure/repeat.h"
#include "tril/measure/work.h"

namespace tril {
namespace {

constexpr const char* kFree = " products free";

// "60.5 M"
std::string millions(int64_t count) {
  const int64_t tenths = (count + 50'000) / 100'000;
  return concat(tenths / 10, ".", tenths % 10, " M");
}

// The cost of the promise, as a note of the row without it; nothing if the other row was not
// measured.
std::string price(double promised_seconds, double free_seconds) {
  if (promised_seconds <= 0.0) return "";
  const auto hundredths = int64_t{std::llround(100.0 * promised_seconds / free_seconds)};
  const int64_t behind = hundredths % 100;
  return concat("the promise costs ", hundredths / 100, behind < 10 ? ".0" : ".", behind, "x");
}

struct TrainingCase {
  const char* name;
  Preset preset;
  int64_t vocab, rows;
  bool has_price;
};

void add_training(const TrainingCase& c, Results& results, const MeasureOptions& options) {
  const bool promised = results.wants(c.name);
  const std::string free_name = concat(c.name, kFree);
  const bool free = c.has_price && results.wants(free_name);
  if (!promised && !free) return;
  TransformerConfig config = preset_config(c.preset, c.vocab);
  config.dropout = 0.1;
  results.tell(concat(c.name, ": random weights"));
  Transformer model(config, 1, options.placement);
  // Drawn before the clock starts. By the end of the warm-up each has passed once, and the update
  // is kept as a CUDA graph.
  constexpr int64_t kBatches = 8;
  const std::vector<Batch> batches = packed_batches(kBatches, c.rows, c.vocab);
  const auto time = [&](Products products) {
    Session session(model, options.threads);
    use_products(session, products);
    size_t next = 0;
    return time_updates(
        model, [&](Batch& batch) { batch = batches[next++ % batches.size()]; },
        {.warm_up = kBatches, .least = 10, .budget = 4.0 * options.seconds_each}, session);
  };
  const auto add = [&](const std::string& name, const TimedUpdates& timed, std::string note) {
    results.add({.name = name,
                 .seconds = timed.seconds,
                 .gflop = update_gflop(config, timed.source_tokens, timed.target_tokens),
                 .arithmetic = Arithmetic::bf16,
                 .tokens = timed.target_tokens,
                 .note = std::move(note)});
  };
  double promised_seconds = 0.0;
  if (promised) {
    results.tell(c.name);
    const TimedUpdates timed = time(Products::promised);
    promised_seconds = timed.seconds / timed.target_tokens;
    add(c.name, timed,
        concat(millions(model.parameter_count()), " weights, updates of ", c.rows, " tokens"));
  }
  if (!free) return;
  results.tell(free_name);
  const TimedUpdates timed = time(Products::free);
  add(free_name, timed, price(promised_seconds, timed.seconds / timed.target_tokens));
}

// ---- translation --------------------------------------------------------------------------------

constexpr int64_t kPieces = 61950;
constexpr int64_t kSourceTokens = 32;
constexpr int64_t kTargetTokens = 64;

struct TranslationCase {
  int64_t batch, beam, sentences;
  Products products = Products::promised;
};

std::string name_of(const TranslationCase& c) {
  return concat("base", c.beam == 1 ? " greedy" : concat(" beam ", c.beam), ", batch ", c.batch,
                c.products == Products::free ? kFree : "");
}

// The least that a translation computes and reads: each weight once per step for all sentences of
// the batch, the cached keys and values once per sentence, whatever the beam.
struct LeastWork {
  double gflop = 0.0;
  double gigabytes = 0.0;
};
LeastWork least_work(const TransformerConfig& c, const TranslationCase& work) {
  const auto model = static_cast<double>(c.model);
  const double feed_forward = 2.0 * model * static_cast<double>(c.feed_forward);
  const auto layers = static_cast<double>(c.decoder_layers);
  // The keys and values of cross-attention are projected once, with the encoder.
  const double source_weights =
      static_cast<double>(c.encoder_layers) * (4.0 * model * model + feed_forward) +
      layers * 2.0 * model * model;
  const double step_weights =
      layers * (6.0 * model * model + feed_forward) + model * static_cast<double>(c.target_vocab);
  const auto sentences = static_cast<double>(work.sentences);
  const double rounds = sentences / static_cast<double>(work.batch);
  constexpr auto kIn = static_cast<double>(kSourceTokens);
  constexpr auto kOut = static_cast<double>(kTargetTokens);
  // A beam begins with one hypothesis.
  const double rows = 1.0 + (kOut - 1.0) * static_cast<double>(work.beam);
  const double cached = 2.0 * layers * model * (0.5 * kOut * (kOut + 1.0) + kOut * kIn);
  constexpr double kBytes = 2e-9;  // bf16
  return {
      .gflop = 2e-9 * sentences * (kIn * source_weights + rows * step_weights),
      .gigabytes = kBytes * (rounds * (source_weights + kOut * step_weights) + sentences * cached)};
}

}  // namespace

void use_products(Context& context, Products products) {
  if constexpr (kCudaBuilt) {
    using kernels::cuda::Blas;
    if (context.device().type == DeviceType::cuda && products == Products::free) {
      context.products = std::make_shared<Blas>(Blas::Policy::free);
    }
  }
}

std::vector<Batch> packed_batches(int64_t count, int64_t rows, int64_t vocab) {
  Random random(1);
  std::vector<Batch> batches(static_cast<size_t>(count));
  size_t place = 0;
  int32_t number = 0;
  for (Batch& batch : batches) {
    // Sentences that no longer fit are skipped; the batch is full when no length fits.
    for (size_t misses = 0; misses < std::size(kWorkLengths);) {
      const int64_t length = kWorkLengths[place++ % std::size(kWorkLengths)];
      if (batch.target_tokens + length > rows) {
        ++misses;
        continue;
      }
      misses = 0;
      add_to_batch(batch,
                   {work_sentence(length, vocab, random), work_sentence(length, vocab, random)},
                   kWorkStart, number++);
    }
    const int64_t filler = rows - batch.target_tokens;
    batch.source.add_filler(filler);
    batch.target.add_filler(filler);
    batch.labels.insert(batch.labels.end(), static_cast<size_t>(filler), -1);
  }
  return batches;
}

std::vector<Measurement> measure_cuda_training(const MeasureOptions& options) {
  check_usable(options.placement.device);
  Results results("train", options);
  constexpr TrainingCase kCases[] = {{"tiny", Preset::tiny, 10000, 4096, false},
                                     {"base", Preset::base, 32000, 25000, true},
                                     {"big", Preset::big, 32000, 25000, true}};
  for (const TrainingCase& c : kCases) add_training(c, results, options);
  return results.take();
}

std::vector<Measurement> measure_cuda_translation(const MeasureOptions& options) {
  check_usable(options.placement.device);
  Results results("translate", options);
  constexpr TranslationCase kCases[] = {{1, 1, 8},     {32, 1, 32}, {32, 1, 32, Products::free},
                                        {256, 1, 256}, {1, 4, 8},   {256, 4, 256}};
  std::optional<Transformer> model;
  double promised_seconds = 0.0;  // of the case before
  for (const TranslationCase& c : kCases) {
    const std::string name = name_of(c);
    if (!results.wants(name)) continue;
    if (!model) model.emplace(preset_config(Preset::base, kPieces), 1, options.placement);
    Random random(1);
    std::vector<std::vector<int32_t>> sources;
    for (int64_t i = 0; i < c.sentences; ++i) {
      sources.push_back(work_sentence(kSourceTokens, kPieces, random));
    }
    const TimedTranslation timed = time_translation(*model,
                                                    {.sources = sources,
                                                     .tokens_out = kTargetTokens,
                                                     .batch = c.batch,
                                                     .beam = c.beam,
                                                     .products = c.products},
                                                    2.0 * options.seconds_each, options.threads);
    const LeastWork least = least_work(model->config(), c);
    const bool free = c.products == Products::free;
    results.add({.name = name,
                 .seconds = timed.seconds,
                 .gflop = least.gflop,
                 .arithmetic = Arithmetic::bf16,
                 .traffic = {least.gigabytes, 0.0},
                 .tokens = timed.tokens,
                 .note = free ? price(promised_seconds, timed.seconds)
                              : concat(c.sentences, " sentences, ", kSourceTokens, " tokens in, ",
                                       kTargetTokens, " out")});
    promised_seconds = free ? 0.0 : timed.seconds;
  }
  return results.take();
}

}  // namespace tril
