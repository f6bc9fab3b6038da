// How fast operations on rows are on CUDA, relative to the memory they have to move: a table,
// printed on request (--gtest_also_run_disabled_tests --gtest_filter='*RowsSpeed*').
#include <cmath>
#include <cstdio>

#include "kernels/rows_support.h"
#include "tril/base/clock.h"
#include "tril/kernels/cuda/launches.h"
#include "tril/ops/loss.h"
#include "tril/ops/optimizer.h"
#include "tril/ops/rows.h"

namespace tril::cuda_rows_speed_test {
namespace {

constexpr int64_t kRows = 24576;
constexpr int64_t kColumns = 512;
constexpr int64_t kVocab = 61952;
constexpr int kTimes = 8;   // in a step
constexpr int kInputs = 4;  // taken in turn: together more than L2 holds

// Microseconds of operation(i), in a graph of kTimes.
template <class F>
double microseconds(Context& context, const F& operation) {
  double best = 0.0;
  for (int round = 0; round < 8; ++round) {
    context.queue.wait();
    const Stopwatch watch;
    context.queue.step([&] {
      context.reset();
      for (int i = 0; i < kTimes; ++i) operation(i % kInputs);
    });
    context.queue.wait();
    const double taken = 1e6 * watch.seconds() / kTimes;
    if (round >= 4) best = round == 4 ? taken : std::min(best, taken);
  }
  return best;
}

class Speeds {
 public:
  explicit Speeds(Context& context) : context_(context) {
    std::printf("%-44s %10s %10s\n", "", "us", "GB/s");
  }
  // `bytes`: what has to be read and written.
  template <class F>
  void row(const char* name, int64_t bytes, const F& operation) {
    const double taken = microseconds(context_, operation);
    std::printf("%-44s %10.1f %10.0f\n", name, taken, 1e-3 * static_cast<double>(bytes) / taken);
    std::fflush(stdout);
  }

 private:
  Context& context_;
};

// Ids as words come: the k-th with a probability of about 1 / k.
std::vector<int32_t> zipf_ids(Random& random, int64_t rows, int64_t entries) {
  std::vector<int32_t> ids;
  const double top = std::log(static_cast<double>(entries));
  for (int64_t row = 0; row < rows; ++row) {
    ids.push_back(static_cast<int32_t>(std::exp(top * static_cast<double>(random.uniform()))) - 1);
  }
  return ids;
}

// In memory that outlives a step.
std::vector<Tensor> inputs(Arena& arena, Random& random, const Shape& shape, DType type) {
  std::vector<Tensor> tensors;
  const Tensor some = testing::random_tensor(arena, shape, random);
  for (int i = 0; i < kInputs; ++i) {
    tensors.push_back(Tensor(arena, shape, type));
    copy_into(some, tensors.back());
  }
  return tensors;
}
size_t at(int i) { return static_cast<size_t>(i); }
size_t other(int i) { return static_cast<size_t>((i + 1) % kInputs); }

TEST(CudaRowsSpeed, DISABLED_Rows) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << "operations on CUDA";
  Random random(1);
  Context context(1, testing::placement());
  const DType type = context.activations;
  Arena arena(Device::cuda());
  const std::vector<Tensor> x = inputs(arena, random, {kRows, kColumns}, type);
  const std::vector<Tensor> wide = inputs(arena, random, {kRows, 4 * kColumns}, type);
  const Tensor weight = testing::random_tensor(arena, {kColumns}, random);
  const Tensor bias = testing::random_tensor(arena, {kColumns}, random);
  const Tensor stats = testing::random_tensor(arena, {kRows, 2}, random);
  const std::vector<int32_t> ids = zipf_ids(random, kRows, 32000);
  const std::vector<int32_t> places(kRows, 7);
  const ops::DropoutKey key{
      .probability = 0.1f, .seed = 1, .step = 2, .site = 3, .sentences = ids, .positions = places};
  const int64_t once = kRows * kColumns * size_of(type);
  constexpr auto kLayer = ops::NormKind::layer;

  Speeds speeds(context);
  speeds.row("add, 24576 x 512", 3 * once,
             [&](int i) { ops::add(context, x[at(i)], x[other(i)]); });
  speeds.row("norm", 2 * once,
             [&](int i) { ops::norm(context, kLayer, 1e-5f, x[at(i)], weight, bias); });
  speeds.row("norm gradients", 3 * once, [&](int i) {
    ops::norm_gradients(context, kLayer, 1e-5f, x[at(i)], weight, bias, stats, x[other(i)]);
  });
  const auto residual = [&](int i) {
    return ops::residual_norm(context, kLayer, 1e-5f, x[at(i)], x[other(i)], key, weight, bias);
  };
  speeds.row("residual norm, dropout 0.1", 4 * once + once / 16, [&](int i) { residual(i); });
  Context kept(1, testing::placement());
  const ops::ResidualNorm forward =
      ops::residual_norm(kept, kLayer, 1e-5f, x[0], x[1], key, weight, bias);
  speeds.row("residual norm gradients", 4 * once + once / 16, [&](int i) {
    ops::residual_norm_gradients(context, kLayer, 1e-5f, forward, weight, bias, x[at(i)]);
  });
  speeds.row("dropout, 24576 x 2048", 8 * once + once / 4,
             [&](int i) { ops::dropout(context, key, wide[at(i)]); });
  speeds.row("relu, 24576 x 2048", 8 * once,
             [&](int i) { ops::activation(context, ops::Activation::relu, wide[at(i)]); });
  speeds.row("relu gradient", 12 * once, [&](int i) {
    ops::activation_gradient(context, ops::Activation::relu, wide[at(i)], wide[other(i)]);
  });
  speeds.row("gelu, 24576 x 2048", 8 * once,
             [&](int i) { ops::activation(context, ops::Activation::gelu, wide[at(i)]); });
}

TEST(CudaRowsSpeed, DISABLED_EmbeddingLossAndOptimizer) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << "operations on CUDA";
  Random random(2);
  Context context(1, testing::placement());
  const DType type = context.activations;
  Arena arena(Device::cuda());
  const std::vector<Tensor> x = inputs(arena, random, {kRows, kColumns}, type);
  const std::vector<int32_t> ids = zipf_ids(random, kRows, 32000);
  const int64_t once = kRows * kColumns * size_of(type);
  Speeds speeds(context);
  const Tensor table = testing::random_tensor(arena, {32000, kColumns}, random);
  ops::Lookup lookup;
  lookup.ids = ids;
  lookup.table = table;
  speeds.row("embedding of an f32 table", once + kRows * kColumns * 4,
             [&](int) { ops::embedding(context, lookup); });
  speeds.row("embedding gradient, 32000 entries", once + 32000 * kColumns * 4,
             [&](int i) { ops::embedding_gradient(context, ids, 32000, 1.0f, x[at(i)]); });
  const std::vector<Tensor> sort_only = inputs(arena, random, {kRows, 1}, type);
  speeds.row("the same with one column: mostly sorting", kRows * 4 + 32000 * 4,
             [&](int i) { ops::embedding_gradient(context, ids, 32000, 1.0f, sort_only[at(i)]); });

  const std::vector<Tensor> logits = inputs(arena, random, {2048, kVocab}, DType::f32);
  const std::vector<int32_t> labels(2048, 17);
  if constexpr (kCudaBuilt) {
    speeds.row("cross-entropy and gradients, 2048 x 61952", 2048 * kVocab * (4 + size_of(type)),
               [&](int i) {
                 const int32_t* there = context.uploaded(std::span<const int32_t>(labels));
                 const float* factor = context.uploaded(0.01f);
                 const Tensor norms(context.arena, {2048}), losses(context.arena, {2048});
                 const Tensor dlogits(context.arena, {2048, kVocab}, DType::bf16);
                 context.launch(kernels::cuda::cross_entropy<BFloat16>,
                                {.rows = 2048,
                                 .vocab = kVocab,
                                 .stride = kVocab,
                                 .smoothing = 0.1f,
                                 .labels = there,
                                 .logits = logits[at(i)].on_device(),
                                 .factor = factor,
                                 .norms = norms.on_device(),
                                 .losses = losses.on_device(),
                                 .dlogits = dlogits.on_device<BFloat16>()});
               });
  }
  speeds.row("log-probabilities, 2048 x 61952", 2048 * kVocab * 8,
             [&](int i) { ops::log_probs(context, logits[at(i)]); });

  constexpr int64_t kWeights = 60'000'000;
  ops::UpdateTensor all;
  for (Tensor* part : {&all.weight, &all.first, &all.second, &all.gradient}) {
    *part = Tensor(arena, {kWeights / kColumns, kColumns});
    ops::assign(context, ops::filled(context, part->shape(), 0.01f), *part);
  }
  all.rounded = Tensor(arena, all.weight.shape(), DType::bf16);
  ops::AdamW adamw(Device::cuda(), {});
  speeds.row("AdamW and the norm, 60 million weights", kWeights * (4 + 7 * 4 + 2), [&](int) {
    adamw.update(context, {&all, 1}, 1e-3f);
  });
}

}  // namespace
}  // namespace tril::cuda_rows_speed_test
