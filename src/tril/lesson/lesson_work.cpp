#include "tril/lesson/lesson_work.h"

#include <algorithm>

#include "tril/prove/sequential.h"

namespace tril {
namespace {

// Six operations per weight and position: a multiplication and an addition in the forward pass, and
// twice that for the gradients.
double gflop_per_position(const TransformerConfig& config) {
  const auto model = static_cast<double>(config.model);
  const double layer = 4.0 * model * model + 2.0 * model * static_cast<double>(config.feed_forward);
  const double weights = static_cast<double>(config.decoder_layers) * layer +
                         model * static_cast<double>(config.target_vocab);
  return 6.0 * weights / 1e9;
}

// Per query and key it may see: a dot product and a share of the value, in every layer, and twice
// that for the gradients.
double gflop_per_pair(const TransformerConfig& config) {
  return 12.0 * static_cast<double>(config.heads * config.head_dim * config.decoder_layers) / 1e9;
}

WorkWay way_of(const SequentialComparison::Cost& cost, int64_t pairs,
               const TransformerConfig& config) {
  return {.steps = cost.calls,
          .positions = cost.rows,
          .gflop = static_cast<double>(cost.rows) * gflop_per_position(config) +
                   static_cast<double>(pairs) * gflop_per_pair(config),
          .seconds = cost.seconds};
}

bool counts_as_stated(const WorkLesson& lesson) {
  const auto row_holds = [](const WorkRow& row) {
    const int64_t n = row.words + 1;
    return row.parallel.steps == 1 && row.sequential.steps == n && row.parallel.positions == n &&
           row.sequential.positions == n * (n + 1) / 2;
  };
  return std::ranges::all_of(lesson.rows, row_holds);
}

}  // namespace

TransformerConfig WorkOptions::default_config() {
  TransformerConfig config;
  config.encoder_layers = 0;
  config.decoder_layers = 4;
  config.model = 256;
  config.heads = 4;
  config.feed_forward = 1024;
  config.target_vocab = 1000;
  config.max_length = 512;
  return config.completed();
}

WorkLesson teach_work(const WorkOptions& options) {
  require(options.words.size() >= 2 && options.words.front() >= 1 &&
              std::ranges::is_sorted(options.words) && options.config.decoder_only(),
          ErrorCode::invalid_argument,
          "lesson work: it needs a decoder-only model and two lengths or more, ascending");
  WorkLesson lesson{.config = options.config,
                    .device = options.placement.device,
                    .peak_gflops = options.peak_gflops};
  const Transformer model(options.config, 1, options.placement);
  for (const int64_t words : options.words) {
    SequentialOptions compare{.threads = options.threads, .compared_positions = 1};
    if (options.progress) {
      compare.progress = [&](int64_t done, int64_t all) { options.progress(words, done, all); };
    }
    const auto pairs = random_pairs(options.config, 1, words + 1, 1);
    const SequentialComparison figures = compare_sequential_with_parallel(model, pairs, compare);
    // Row i sees i keys; prefix by prefix, this holds for all rows of all prefixes.
    const int64_t n = words + 1;
    lesson.rows.push_back(
        {.words = words,
         .sequential = way_of(figures.sequential, n * (n + 1) * (n + 2) / 6, options.config),
         .parallel = way_of(figures.parallel, n * (n + 1) / 2, options.config)});
  }
  lesson.counts_hold = counts_as_stated(lesson);
  const WorkRow& last = lesson.rows.back();
  lesson.holds = lesson.counts_hold && last.parallel.gflops() > last.useful_gflops();
  return lesson;
}

}  // namespace tril
