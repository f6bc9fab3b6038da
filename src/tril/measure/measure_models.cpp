#include "tril/kernels/gemm_bf16_dot.h"
#include "tril/measure/cuda_groups.h"
#include "tril/measure/model_work.h"
#include "tril/measure/repeat.h"
#include "tril/measure/work.h"
#include "tril/models/session_state.h"

namespace tril {
double update_gflop(const TransformerConfig& c, double source_rows, double target_rows) {
  const auto model = static_cast<double>(c.model);
  const auto inner = static_cast<double>(c.feed_forward);
  const double attention = 4.0 * model * model;
  const double feed_forward = 2.0 * model * inner;
  const double encoder = static_cast<double>(c.encoder_layers) * (attention + feed_forward);
  const double decoder = static_cast<double>(c.decoder_layers) * (2.0 * attention + feed_forward);
  return 6e-9 * (source_rows * encoder +
                 target_rows * (decoder + model * static_cast<double>(c.target_vocab)));
}

TransformerConfig preset_config(Preset preset, int64_t vocab) {
  TransformerConfig config;
  apply_preset(preset, config);
  config.source_vocab = config.target_vocab = vocab;
  return config;
}

TimedUpdates time_updates(Transformer& model, const NextBatch& next, const UpdateTimes& times,
                          Session& session) {
  LearnOptions learning;
  learning.smoothing = 0.1;
  learning.schedule.peak = 1e-4;
  TimedUpdates result;
  double spent = 0.0;
  double tokens = 0.0;  // of all counted updates
  // learn() runs a given number of updates: how many fit into the time is estimated from the first
  // ones. A device may be behind the host, so the queue is emptied at both ends.
  const auto run = [&](int64_t updates) {
    learning.updates = times.warm_up + updates;
    int64_t drawn = 0;
    Stopwatch watch;
    learn(
        model,
        [&](Batch& batch) {
          if (drawn++ == times.warm_up) {
            session->queue.wait();
            watch = Stopwatch();
          }
          next(batch);
          result.target_tokens = static_cast<double>(batch.target_tokens);
          result.source_tokens = static_cast<double>(batch.source_tokens);
          if (drawn > times.warm_up) tokens += result.target_tokens;
        },
        learning, session);
    session->queue.wait();
    spent += watch.seconds();
  };
  run(times.least);
  const double each = spent / static_cast<double>(times.least);
  const auto more = static_cast<int64_t>((times.budget - spent) / each);
  if (more > 0) run(more);
  // Total time over total tokens, as bench/peers does it for other systems.
  result.seconds = spent / tokens * result.target_tokens;
  return result;
}

TimedUpdates time_training(const TransformerConfig& config, std::span<const LearnPair> pairs,
                           int64_t batch_tokens, int64_t least, double budget, int threads) {
  Transformer model(config, 1);
  Session session(model, threads);
  PairBatches batches(pairs, kWorkStart, batch_tokens, 1);
  return time_updates(
      model, [&](Batch& batch) { batches.next(batch); }, {.least = least, .budget = budget},
      session);
}

TransformerConfig translation_config() {
  TransformerConfig config = preset_config(Preset::base, kTranslationVocab);
  config.activation = ActivationType::silu;
  return config;
}

std::vector<std::vector<int32_t>> translation_sources(size_t count) {
  require(count <= std::size(kWorkLengths), ErrorCode::invalid_argument,
          "translation_sources: ", count, " sentences, there are ", std::size(kWorkLengths));
  Random random(1);
  std::vector<std::vector<int32_t>> sources;
  for (const int64_t length : std::span(kWorkLengths).first(count)) {
    sources.push_back(work_sentence(length, kTranslationVocab, random));
  }
  return sources;
}

double translate_work(const Transformer& model, const TranslationWork& work, Session& session) {
  SearchOptions options;
  options.beam = work.beam;
  options.start = kWorkStart;
  options.end = kWorkEnd;
  options.forbidden = {kWorkEnd};
  options.max_tokens = work.tokens_out;
  options.max_ratio = 0.0;
  options.shortlist = work.shortlist;
  size_t next = 0;
  double tokens = 0.0;
  search(
      model, options, work.batch * work.beam,
      [&]() -> std::optional<SearchRequest> {
        if (next == work.sources.size()) return std::nullopt;
        SearchRequest request{
            .number = static_cast<int64_t>(next), .source = work.sources[next], .prefix = {}};
        ++next;
        return request;
      },
      [&](SearchResult&& found) {
        tokens += static_cast<double>(found.hypotheses[0].tokens.size());
        return true;
      },
      session);
  return tokens;
}

TimedTranslation time_translation(const Transformer& model, const TranslationWork& work,
                                  double budget, int threads) {
  Session session(model, threads);
  use_products(session, work.products);
  TranslationWork warm_up = work;
  if (session.device() == Device::cpu) {
    constexpr int64_t kWarmTokens = 32;  // more would only take longer
    warm_up.tokens_out = std::min(work.tokens_out, kWarmTokens);
  } else {
    translate_work(model, warm_up, session);  // twice, so that the steps are kept (device/queue.h)
  }
  translate_work(model, warm_up, session);
  TimedTranslation result;
  result.seconds = median_of_warm(
      budget, [&] { result.tokens = translate_work(model, work, session); }, 1);
  return result;
}

std::vector<Measurement> measure_training(const MeasureOptions& options) {
  if (options.placement.device.type == DeviceType::cuda) return measure_cuda_training(options);
  Results results("train", options);
  struct Case {
    const char* name;
    Preset preset;
    int64_t vocab, tokens;
  };
  for (const Case& c :
       {Case{"tiny", Preset::tiny, 8000, 2048}, Case{"small", Preset::small, 8000, 2048},
        Case{"base", Preset::base, 32000, 1024}}) {
    if (!results.wants(c.name)) continue;
    const TransformerConfig config = preset_config(c.preset, c.vocab);
    Random random(1);
    std::vector<LearnPair> pairs;
    for (int round = 0; round < 4; ++round) {
      for (const int64_t length : kWorkLengths) {
        pairs.push_back({work_sentence(length, config.source_vocab, random),
                         work_sentence(length, config.target_vocab, random)});
      }
    }
    const int64_t least = config.model >= 512 ? 3 : 8;
    const TimedUpdates timed =
        time_training(config, pairs, c.tokens, least, options.seconds_each, options.threads);
    results.add(
        {.name = c.name,
         .seconds = timed.seconds,
         .gflop = update_gflop(config, timed.source_tokens, timed.target_tokens),
         .tokens = timed.target_tokens,
         .note = concat("an update of ", c.tokens, " tokens, vocabulary ", config.target_vocab)});
  }
  return results.take();
}

std::vector<Measurement> measure_translation(const MeasureOptions& options) {
  if (options.placement.device.type == DeviceType::cuda) return measure_cuda_translation(options);
  Results results("translate", options);
  const auto sources = translation_sources(std::size(kWorkLengths));
  struct Case {
    Compute compute;
    int64_t batch, beam;
  };
  std::vector<Case> cases;
  std::vector<Compute> computes = {Compute::fp32, Compute::bf16, Compute::int8};
  if (kernels::has_bf16_dot()) computes.push_back(Compute::bf16_dot);
  for (const Compute compute : computes) {
    for (const int64_t batch : {1, 32}) {
      for (const int64_t beam : {1, 4}) cases.push_back({compute, batch, beam});
    }
  }
  std::optional<Transformer> weights;
  std::optional<Transformer> model;
  for (const Case& c : cases) {
    const std::string name =
        concat("base ", word_for(c.compute), c.beam == 1 ? " greedy" : concat(" beam ", c.beam),
               ", batch ", c.batch);
    if (!results.wants(name)) continue;
    if (!weights) weights.emplace(translation_config(), 1);
    if (!model || model->compute() != c.compute) model.emplace(weights->packed(c.compute));
    const TimedTranslation timed = time_translation(
        *model,
        {.sources = sources, .tokens_out = kTranslationTokens, .batch = c.batch, .beam = c.beam},
        options.seconds_each, options.threads);
    results.add(
        {.name = name,
         .seconds = timed.seconds,
         .tokens = timed.tokens,
         .note = concat(sources.size(), " sentences, ", kTranslationTokens, " tokens each")});
  }
  return results.take();
}

}  // namespace tril
