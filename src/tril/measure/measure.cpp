#include "tril/measure/measure.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tril/base/clock.h"
#include "tril/base/rng.h"
#include "tril/lesson/demo.h"
#include "tril/ops/attention.h"
#include "tril/ops/linear.h"
#include "tril/tensor/mask.h"
#include "tril/train/symbols.h"
#include "tril/train/trainer.h"

namespace tril {
namespace {

// The median time of one call, over as many calls as fit into the time given, at least five.
template <class F>
double median_seconds(double budget, const F& call) {
  call();  // warms caches, threads and the arena
  call();
  std::vector<double> times;
  const Stopwatch all;
  do {
    const Stopwatch one;
    call();
    times.push_back(one.seconds());
  } while (all.seconds() < budget || times.size() < 5);
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

Tensor random_tensor(Arena& arena, const Shape& shape, Random& random) {
  const Tensor tensor(arena, shape);
  std::generate_n(tensor.data(), tensor.size(), [&] { return random.uniform(-1.0f, 1.0f); });
  return tensor;
}

void tell(const MeasureOptions& options, const std::string& what) {
  if (options.progress) options.progress(what);
}

void add(const MeasureOptions& options, std::vector<Measurement>& results,
         const Measurement& result) {
  results.push_back(result);
  if (options.done) options.done(result);
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
  struct Size {
    int64_t rows, out, in;
  };
  std::vector<Measurement> results;
  Context context(options.threads);
  for (const Size& size : {Size{1, 512, 512}, Size{6, 512, 512}, Size{32, 512, 512},
                           Size{512, 512, 512}, Size{2048, 2048, 512}, Size{2048, 512, 2048}}) {
    const std::string name = concat(size.rows, "x", size.out, "x", size.in);
    tell(options, "gemm " + name);
    Arena arena;
    Random random(1);
    const Tensor x = random_tensor(arena, {size.rows, size.in}, random);
    ops::LinearWeight linear{random_tensor(arena, {size.out, size.in}, random), {}, {}, {}};
    linear.forward_panels = Tensor(arena, ops::forward_panels_shape(linear.weight));
    ops::pack_forward(context, linear);
    const double seconds = median_seconds(options.seconds_each, [&] {
      context.arena.reset();
      ops::linear(context, x, linear);
    });
    const double gflop = 2e-9 * static_cast<double>(size.rows * size.out * size.in);
    add(options, results, {"gemm", name, seconds, gflop, 0.0, "rows x out x in"});
  }
  return results;
}

std::vector<Measurement> measure_attention(const MeasureOptions& options) {
  struct Size {
    int64_t batch, length;
  };
  constexpr int64_t kHeads = 8;
  constexpr int64_t kDim = 64;
  std::vector<Measurement> results;
  Context context(options.threads);
  for (const Size& size : {Size{16, 32}, Size{16, 300}, Size{1, 2048}}) {
    const std::string name = concat(size.batch, "x", kHeads, "x", size.length, "x", kDim);
    tell(options, "attention " + name);
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
    results.push_back(
        {"attention", name + " forward", forward_seconds, 2 * product, 0.0, "causal"});
    results.push_back(
        {"attention", name + " forward+backward", both_seconds, 7 * product, 0.0, "causal"});
  }
  return results;
}

std::vector<Measurement> measure_memory(const MeasureOptions& options) {
  std::vector<Measurement> results;
  for (int64_t length = 1024; length <= 32768; length *= 2) {
    tell(options, concat("memory at length ", length));
    const AttentionInputs in(1, length, 1, 64);
    Context context(options.threads);
    const Stopwatch watch;
    const ops::AttentionResult result =
        ops::attention(context, in.q, in.k, in.v, in.mask.rows(), {});
    ops::attention_gradients(context, in.q, in.k, in.v, result, in.dout, in.mask.rows(), {});
    const double seconds = watch.seconds();
    const double matrix = static_cast<double>(length * length) * 4.0 / (1 << 20);
    add(options, results,
        {"memory", concat("1x1x", length, "x64"), seconds, 0.0,
         static_cast<double>(context.arena.peak_bytes() + context.host.peak_bytes()) / (1 << 20),
         concat("a score matrix would be ", static_cast<int64_t>(matrix), " MiB")});
  }
  return results;
}

std::vector<Measurement> measure_learning(const MeasureOptions& options) {
  std::vector<Measurement> results;
  for (const SymbolTask task : {SymbolTask::copy, SymbolTask::reverse}) {
    const std::string name = task == SymbolTask::copy ? "copy" : "reverse";
    SymbolOptions symbols;
    symbols.task = task;
    symbols.threads = options.threads;
    symbols.progress = [&](int64_t step, double loss) {
      if (step % 50 == 0) {
        const auto thousandths = static_cast<int64_t>(loss * 1000.0);
        tell(options, concat("learn ", name, ": step ", step, " of ", symbols.steps, ", loss ",
                             static_cast<double>(thousandths) / 1000.0));
      }
    };
    const SymbolResult result = learn_symbols(symbols);
    add(options, results,
        {"learn", concat(name, " 20 of 26 symbols"), result.train_seconds + result.decode_seconds,
         0.0, 0.0,
         concat(result.exact, " of ", symbols.held_out, " unseen exact, ", symbols.steps,
                " steps")});
  }
  return results;
}

std::vector<Measurement> measure_demo(const MeasureOptions& options) {
  const Phrasebook phrasebook = make_phrasebook();
  std::string folder = (std::filesystem::temp_directory_path() / "tril-bench-XXXXXX").string();
  require(::mkdtemp(folder.data()) != nullptr, ErrorCode::io, folder, ": cannot create");
  TrainEvents events;
  events.progress = [&](const TrainStatus& status) {
    if (status.update % 50 == 0) {
      tell(options, concat("demo: update ", status.update, " of ", status.updates));
    }
  };
  TrainingText text{corpus_of(phrasebook.train), std::nullopt};
  const TrainSummary summary =
      train(text, demo_options(), folder, RunStart::overwrite, options.threads, events);
  const HeldOutScore score = score_held_out(Translator::load(folder, options.threads), phrasebook);
  std::filesystem::remove_all(folder);
  std::vector<Measurement> results;
  add(options, results,
      {"demo", concat(phrasebook.train.size(), " phrases"), summary.last.seconds, 0.0, 0.0,
       concat(score.exact, " of ", score.all, " held out exact, ",
              static_cast<int64_t>(summary.last.tokens_per_s), " tokens/s")});
  return results;
}

}  // namespace tril
