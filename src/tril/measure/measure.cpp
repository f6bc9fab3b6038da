#include "tril/measure/measure.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tril/lesson/demo.h"
#include "tril/measure/inputs.h"
#include "tril/measure/repeat.h"
#include "tril/ops/attention.h"
#include "tril/train/symbols.h"
#include "tril/train/trainer.h"

namespace tril {

std::vector<Measurement> measure_memory(const MeasureOptions& options) {
  Results results("memory", options);
  for (int64_t length = 1024; length <= 32768; length *= 2) {
    const std::string name = concat("1x1x", length, "x64");
    if (!results.wants(name)) continue;
    const AttentionInputs in(1, length, 1, 64);
    Context context(options.threads);
    const Stopwatch watch;
    const ops::AttentionResult result =
        ops::attention(context, in.q, in.k, in.v, in.mask.rows(), {});
    ops::attention_gradients(context, in.q, in.k, in.v, result, in.dout, in.mask.rows(), {});
    const double seconds = watch.seconds();
    const double matrix = static_cast<double>(length * length) * 4.0 / (1 << 20);
    results.add(
        {.name = name,
         .seconds = seconds,
         .mebibytes = static_cast<double>(context.arena.peak_bytes() + context.host.peak_bytes()) /
                      (1 << 20),
         .note = concat("a score matrix would be ", static_cast<int64_t>(matrix), " MiB")});
  }
  return results.take();
}

std::vector<Measurement> measure_learning(const MeasureOptions& options) {
  Results results("learn", options);
  for (const SymbolTask task : {SymbolTask::copy, SymbolTask::reverse}) {
    const std::string name =
        concat(task == SymbolTask::copy ? "copy" : "reverse", " 20 of 26 symbols");
    if (!results.wants(name)) continue;
    SymbolOptions symbols;
    symbols.task = task;
    symbols.threads = options.threads;
    symbols.progress = [&](int64_t step, double loss) {
      if (step % 50 == 0) {
        const auto thousandths = static_cast<int64_t>(loss * 1000.0);
        results.tell(concat(name, ": step ", step, " of ", symbols.steps, ", loss ",
                            static_cast<double>(thousandths) / 1000.0));
      }
    };
    const SymbolResult result = learn_symbols(symbols);
    results.add({.name = name,
                 .seconds = result.train_seconds + result.decode_seconds,
                 .note = concat(result.exact, " of ", symbols.held_out, " unseen exact, ",
                                symbols.steps, " steps")});
  }
  return results.take();
}

std::vector<Measurement> measure_demo(const MeasureOptions& options) {
  Results results("demo", options);
  const Phrasebook phrasebook = make_phrasebook();
  std::string folder = (std::filesystem::temp_directory_path() / "tril-bench-XXXXXX").string();
  require(::mkdtemp(folder.data()) != nullptr, ErrorCode::io, folder, ": cannot create");
  TrainEvents events;
  events.progress = [&](const TrainStatus& status) {
    if (status.update % 50 == 0) {
      results.tell(concat("update ", status.update, " of ", status.updates));
    }
  };
  TrainingText text{corpus_of(phrasebook.train), std::nullopt};
  const TrainSummary summary =
      train(text, demo_options(), folder, RunStart::overwrite, options.threads, events);
  const HeldOutScore score =
      score_held_out(Translator::load(folder, {}, options.threads), phrasebook);
  std::filesystem::remove_all(folder);
  results.add({.name = concat(phrasebook.train.size(), " phrases"),
               .seconds = summary.last.seconds,
               .tokens = summary.last.tokens_per_s * summary.last.seconds,
               .note = concat(score.exact, " of ", score.all, " held out exact")});
  return results.take();
}

std::string above_roof(std::span<const Measurement> results) {
  const auto above = std::count_if(results.begin(), results.end(), [](const Measurement& m) {
    return m.group != "peaks" && m.share >= 1.005;
  });
  if (above == 0) return "";
  return concat(above, above == 1 ? " share is" : " shares are",
                " above 100%: the machine was busier when its peaks were measured (all shares are "
                "then too high), or a nearer cache held the data; run it again on an idle machine");
}

}  // namespace tril
