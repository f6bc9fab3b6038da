// Single kernels on a CUDA GPU, each relative to the GPU's peaks.
#include <limits>
#include <numeric>

#include "tril/autograd/tape.h"
#include "tril/base/build.h"
#include "tril/kernels/cuda/launches.h"
#include "tril/measure/cuda_groups.h"
#include "tril/measure/device_time.h"
#include "tril/measure/model_work.h"
#include "tril/measure/work.h"
#include "tril/ops/attention.h"
#include "tril/ops/linear.h"
#include "tril/tensor/mask.h"

namespace tril {
namespace {

// ---- inputs -------------------------------------------------------------------------------------

// Random numbers in GPU memory. Drawing hundreds of millions would take longer than the
// measurement, so a million are repeated; their number is prime, which keeps rows and columns from
// being equal.
Tensor random_on_gpu(Arena& arena, const Shape& shape, DType type, uint64_t seed) {
  constexpr size_t kDrawn = 1'000'003;
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i < kDrawn ? random.uniform(-1.0f, 1.0f) : values[i - kDrawn];
  }
  const Tensor tensor(arena, shape, type);
  set_values(tensor, values);
  return tensor;
}

// ---- products -----------------------------------------------------------------------------------

struct CudaProductSize {
  int64_t rows, out, in;
  ops::LinearOutput output = ops::LinearOutput::activation;

  std::string name() const { return concat(rows, "x", out, "x", in); }
  double gflop() const { return 2e-9 * static_cast<double>(rows * out * in); }
};

double product_seconds(const CudaProductSize& size, Context& context, double seconds_each) {
  Arena arena(context.device());
  const Tensor x = random_on_gpu(arena, {size.rows, size.in}, context.activations, 1);
  const Tensor weight = random_on_gpu(arena, {size.out, size.in}, DType::f32, 2);
  const ops::LinearWeight linear = ops::packed_for(context, weight, Compute::bf16, arena);
  return device_seconds(context, seconds_each,
                        [&] { ops::linear(context, x, linear, size.output); });
}

// ---- peaks --------------------------------------------------------------------------------------

constexpr CudaProductSize kPeakProduct = {8192, 8192, 8192};

// How fast this many bytes are read, and copied to as many others: for a copy, bytes read and
// written both count. Several passes at once if a single one is too short to be timed.
MemoryPeak memory_peak(const std::string& name, Context& context, int64_t bytes, int passes,
                       double seconds_each) {
  MemoryPeak peak{.name = name};
  if constexpr (kCudaBuilt) {
    Arena arena(context.device());
    const Shape shape{bytes / static_cast<int64_t>(sizeof(float))};
    const Tensor from(arena, shape), to(arena, shape);
    set_zero(from);
    set_zero(to);
    const kernels::cuda::Traffic traffic{from.raw(), to.raw(), bytes, passes};
    const double gigabytes = 1e-9 * static_cast<double>(bytes) * passes;
    peak.read = gigabytes / device_seconds(context, seconds_each, [&] {
                  context.launch(kernels::cuda::read_traffic, traffic);
                });
    peak.update = 2 * gigabytes / device_seconds(context, seconds_each, [&] {
                    context.launch(kernels::cuda::copy_traffic, traffic);
                  });
  }
  return peak;
}

// ---- attention ----------------------------------------------------------------------------------

struct AttentionSize {
  std::string name;
  std::vector<int32_t> lengths;
  int64_t heads, head_dim;

  int64_t rows() const { return std::reduce(lengths.begin(), lengths.end(), int64_t{0}); }
  // One product over the allowed half of the scores.
  double product_gflop() const {
    double pairs = 0.0;
    for (const int32_t length : lengths) pairs += 0.5 * length * (length + 1.0);
    return 2e-9 * pairs * static_cast<double>(heads * head_dim);
  }
};

std::vector<Segment> segments_of(std::span<const int32_t> lengths) {
  std::vector<Segment> segments;
  int32_t begin = 0;
  for (const int32_t length : lengths) {
    segments.push_back({begin, length});
    begin += length;
  }
  return segments;
}

std::vector<AttentionSize> attention_sizes() {
  constexpr int64_t kModel = 2048;
  constexpr int32_t kTokens = 16384;
  std::vector<AttentionSize> sizes = {{"800 packed, 8x64", packed_lengths(800, 24681), 8, 64}};
  for (const int64_t head_dim : {64, 128}) {
    for (const int32_t length : {512, 2048, kTokens}) {
      const int64_t heads = kModel / head_dim;
      sizes.push_back({concat(kTokens / length, "x", heads, "x", length, "x", head_dim),
                       std::vector<int32_t>(static_cast<size_t>(kTokens / length), length), heads,
                       head_dim});
    }
  }
  return sizes;
}

void add_attention(const AttentionSize& size, Results& results, const MeasureOptions& options) {
  const std::string forward_name = size.name + " forward";
  const std::string backward_name = size.name + " backward";
  const bool forward = results.wants(forward_name);
  const bool backward = results.wants(backward_name);
  if (!forward && !backward) return;
  // Its own context, so that a step kept for another size is not reused.
  Context context(options.threads, options.placement);
  Arena inputs(context.device());
  Tensor q, k, v, dout;
  uint64_t seed = 0;
  for (Tensor* tensor : {&q, &k, &v, &dout}) {
    *tensor = random_on_gpu(inputs, {size.rows(), size.heads, size.head_dim}, context.activations,
                            ++seed);
  }
  // The plan belongs to the step and not to a layer, so it is made before the clock starts; under a
  // tape, for both passes.
  const Mask mask = Mask::causal(segments_of(size.lengths));
  const Tape tape(context);
  const ops::AttentionPlan plan =
      ops::plan_attention(context, context.mirror<Interval>(mask.rows()));
  const double tensor = 1e-9 * static_cast<double>(q.size() * size_of(context.activations));
  if (forward) {
    const double seconds = device_seconds(context, options.seconds_each,
                                          [&] { ops::attention(context, q, k, v, plan, {}); });
    results.add({.name = forward_name,
                 .seconds = seconds,
                 .gflop = 2 * size.product_gflop(),
                 .arithmetic = Arithmetic::bf16,
                 .traffic = {3 * tensor, tensor},
                 .note = concat("causal, ", size.rows(), " tokens")});
  }
  if (!backward) return;
  const ops::AttentionResult result = ops::attention(context, q, k, v, plan, {});
  const double seconds = device_seconds(context, options.seconds_each, [&] {
    ops::attention_gradients(context, q, k, v, result, dout, plan, {});
  });
  results.add({.name = backward_name,
               .seconds = seconds,
               .gflop = 5 * size.product_gflop(),
               .arithmetic = Arithmetic::bf16,
               .traffic = {5 * tensor, 3 * tensor},
               .note = concat("causal, ", size.rows(), " tokens")});
}

}  // namespace

std::vector<int32_t> packed_lengths(int64_t sentences, int64_t tokens) {
  require(sentences > 0, ErrorCode::invalid_argument, "packed_lengths: ", sentences,
          " sentences; it needs at least 1");
  std::vector<int32_t> lengths(static_cast<size_t>(sentences));
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = static_cast<int32_t>(kWorkLengths[i % std::size(kWorkLengths)]);
  }
  const int64_t missing = tokens - std::reduce(lengths.begin(), lengths.end(), int64_t{0});
  // Rounded down, so that the remainder is not negative.
  const int64_t left_over = (missing % sentences + sentences) % sentences;
  const int64_t each = (missing - left_over) / sentences;
  for (int64_t i = 0; i < sentences; ++i) {
    int32_t& length = lengths[static_cast<size_t>(i)];
    length += static_cast<int32_t>(each + (i < left_over ? 1 : 0));
    require(length > 0, ErrorCode::invalid_argument, "packed_lengths: ", tokens, " tokens in ",
            sentences, " sentences leave sentence ", i, " without one");
  }
  return lengths;
}

Peaks measure_cuda_peaks(Device device, double seconds_each) {
  require(seconds_each > 0.0, ErrorCode::invalid_argument,
          "measure_cuda_peaks: seconds are above 0, not ", seconds_each);
  Context context(1, device);
  use_products(context, Products::free);
  Peaks peaks;
  peaks.threads = 1;
  peaks.bf16_gflops = kPeakProduct.gflop() / product_seconds(kPeakProduct, context, seconds_each);
  // Both arrays of a copy fit into half of the L2 cache of the supported GPUs (40 MiB and more);
  // the large ones fit into no L2 cache.
  constexpr int64_t kNear = 20 * kMebibyte, kFar = 4096 * kMebibyte;
  constexpr int kNearPasses = 40;
  peaks.memory.push_back(memory_peak("L2", context, kNear / 2, kNearPasses, seconds_each));
  peaks.memory.back().holds = kNear;
  peaks.memory.push_back(memory_peak("memory", context, kFar, 1, seconds_each));
  peaks.memory.back().holds = std::numeric_limits<int64_t>::max();
  return peaks;
}

std::vector<Measurement> measure_cuda_machine(const MeasureOptions& options) {
  Results results("peaks", options);
  results.tell("the GPU's own");
  const Peaks peaks = options.peaks
                          ? *options.peaks
                          : measure_cuda_peaks(options.placement.device, options.seconds_each);
  results.add({.name = concat("bf16 product ", kPeakProduct.name()),
               .seconds = 1.0,
               .gflop = peaks.bf16_gflops,
               .arithmetic = Arithmetic::bf16,
               .note = "by the algorithm cuBLASLt likes best"});
  for (const MemoryPeak& memory : peaks.memory) {
    results.add({.name = concat("reading ", memory.name),
                 .seconds = 1.0,
                 .traffic = {memory.read, 0.0},
                 .note = "and nothing else"});
    results.add({.name = concat("copying within ", memory.name),
                 .seconds = 1.0,
                 .traffic = {0.5 * memory.update, 0.5 * memory.update},
                 .note = "read and written"});
  }
  return results.take();
}

std::vector<Measurement> measure_cuda_gemm(const MeasureOptions& options) {
  Results results("gemm", options);
  Context context(options.threads, options.placement);
  constexpr auto kLogits = ops::LinearOutput::padded_sums;
  // Training base and big, with a slice of the output projection; then decoding with base.
  constexpr CudaProductSize kSizes[] = {{25000, 512, 512},
                                        {25000, 2048, 512},
                                        {25000, 512, 2048},
                                        {25000, 1024, 1024},
                                        {25000, 4096, 1024},
                                        {25000, 1024, 4096},
                                        {4096, 32000, 512, kLogits},
                                        {4096, 32000, 1024, kLogits},
                                        {1, 512, 512},
                                        {32, 512, 512},
                                        {256, 512, 512},
                                        {1, 2048, 512},
                                        {32, 2048, 512},
                                        {256, 2048, 512},
                                        {1, 61950, 512, kLogits},
                                        {32, 61950, 512, kLogits},
                                        {256, 61950, 512, kLogits}};
  for (const CudaProductSize& size : kSizes) {
    if (!results.wants(size.name())) continue;
    const double seconds = product_seconds(size, context, options.seconds_each);
    const int64_t out_bytes = size.output == kLogits ? 4 : 2;
    results.add(
        {.name = size.name(),
         .seconds = seconds,
         .gflop = size.gflop(),
         .arithmetic = Arithmetic::bf16,
         .traffic = {2e-9 * static_cast<double>(size.in * (size.rows + size.out)),
                     1e-9 * static_cast<double>(out_bytes * size.rows * size.out)},
         .note = size.output == kLogits ? "rows x out x in, logits in fp32" : "rows x out x in"});
  }
  return results.take();
}

std::vector<Measurement> measure_cuda_attention(const MeasureOptions& options) {
  Results results("attention", options);
  for (const AttentionSize& size : attention_sizes()) add_attention(size, results, options);
  return results.take();
}

}  // namespace tril
