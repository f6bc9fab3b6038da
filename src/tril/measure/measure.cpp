#include "tril/measure/measure.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tril/base/rng.h"
#include "tril/lesson/demo.h"
#include "tril/measure/repeat.h"
#include "tril/ops/attention.h"
#include "tril/ops/linear.h"
#include "tril/tensor/mask.h"
#include "tril/train/symbols.h"
#include "tril/train/trainer.h"

namespace tril {
namespace {

Tensor random_tensor(Arena& arena, const Shape& shape, Random& random) {
  const Tensor tensor(arena, shape);
  std::generate_n(tensor.data(), tensor.size(), [&] { return random.uniform(-1.0f, 1.0f); });
  return tensor;
}

struct AttentionInputs {
  Arena arena;
  Mask mask;
  Tensor q, k, v, dout;

  AttentionInputs(int64_t batch, int64_t length, int64_t heads, int64_t head_dim) {
    std::vector<Segment> segments;
    for (int64_t i = 0; i < batch; ++i) {
      segments.push_back({static_cast<int32_t>(i * length), static_cast<int32_t>(length)});
    }
    mask = Mask::causal(segments);
    Random random(1);
    for (Tensor* tensor : {&q, &k, &v, &dout}) {
      *tensor = random_tensor(arena, {batch * length, heads, head_dim}, random);
    }
  }
};

}  // namespace

std::vector<Measurement> measure_gemm(const MeasureOptions& options) {
  Results results("gemm", options);
  struct Size {
    int64_t rows, out, in;
  };
  Context context(options.threads);
  // The products of the models that are measured: one row, a few, a batch; of tiny, small and base.
  constexpr Size kSizes[] = {
      {1, 512, 512},    {6, 512, 512},     {32, 512, 512},    {128, 512, 512},
      {512, 512, 512},  {1, 58101, 512},   {32, 58101, 512},  {128, 58101, 512},
      {2048, 128, 128}, {2048, 256, 128},  {2048, 128, 256},  {2048, 8000, 128},
      {2048, 256, 256}, {2048, 1024, 256}, {2048, 256, 1024}, {2048, 8000, 256},
      {1024, 512, 512}, {1024, 2048, 512}, {1024, 512, 2048}, {1024, 32000, 512}};
  for (const Size& size : kSizes) {
    const std::string name = concat(size.rows, "x", size.out, "x", size.in);
    if (!results.wants(name)) continue;
    Arena arena;
    Random random(1);
    const Tensor x = random_tensor(arena, {size.rows, size.in}, random);
    const ops::LinearWeight linear = ops::packed_for(
        context, ops::linear_weight(random_tensor(arena, {size.out, size.in}, random)),
        Compute::fp32, arena);
    const double seconds = median_seconds(options.seconds_each, [&] {
      context.arena.reset();
      ops::linear(context, x, linear);
    });
    const double gflop = 2e-9 * static_cast<double>(size.rows * size.out * size.in);
    results.add({.name = name, .seconds = seconds, .gflop = gflop, .note = "rows x out x in"});
  }
  return results.take();
}

std::vector<Measurement> measure_attention(const MeasureOptions& options) {
  Results results("attention", options);
  struct Size {
    int64_t batch, length;
  };
  constexpr int64_t kHeads = 8;
  constexpr int64_t kDim = 64;
  Context context(options.threads);
  for (const Size& size : {Size{16, 32}, Size{16, 300}, Size{1, 2048}, Size{1, 8192}}) {
    const std::string name = concat(size.batch, "x", kHeads, "x", size.length, "x", kDim);
    if (!results.wants(name)) continue;
    const AttentionInputs in(size.batch, size.length, kHeads, kDim);
    // Two products forward and five backward, over the allowed half of the matrix.
    const double product = 2e-9 * static_cast<double>(size.batch * kHeads * kDim) * 0.5 *
                           static_cast<double>(size.length * (size.length + 1));
    const auto forward = [&] {
      context.arena.reset();
      return ops::attention(context, in.q, in.k, in.v, in.mask.rows(), {});
    };
    const double forward_seconds = median_seconds(options.seconds_each, forward);
    const double both_seconds = median_seconds(options.seconds_each, [&] {
      const ops::AttentionResult result = forward();
      ops::attention_gradients(context, in.q, in.k, in.v, result, in.dout, in.mask.rows(), {});
    });
    results.add({.name = name + " forward",
                 .seconds = forward_seconds,
                 .gflop = 2 * product,
                 .note = "causal"});
    results.add({.name = name + " forward+backward",
                 .seconds = both_seconds,
                 .gflop = 7 * product,
                 .note = "causal"});
  }
  return results.take();
}

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
  const HeldOutScore score = score_held_out(Translator::load(folder, options.threads), phrasebook);
  std::filesystem::remove_all(folder);
  results.add({.name = concat(phrasebook.train.size(), " phrases"),
               .seconds = summary.last.seconds,
               .tokens = summary.last.tokens_per_s * summary.last.seconds,
               .note = concat(score.exact, " of ", score.all, " held out exact")});
  return results.take();
}

}  // namespace tril
