// Single kernels, each relative to the machine's peaks.
#include "tril/kernels/adamw.h"
#include "tril/measure/cuda_groups.h"
#include "tril/measure/inputs.h"
#include "tril/measure/measure.h"
#include "tril/measure/repeat.h"
#include "tril/ops/attention.h"
#include "tril/ops/linear.h"
#include "tril/ops/rows.h"

namespace tril {
namespace {

struct ProductSize {
  int64_t rows, out, in;
};

std::string name_of(const ProductSize& size) {
  return concat(size.rows, "x", size.out, "x", size.in);
}

// y = x Wᵀ of one size: the median time.
double product_seconds(const ProductSize& size, Compute compute, Context& context,
                       double seconds_each) {
  Arena arena;
  Random random(1);
  const Tensor x = random_tensor(arena, {size.rows, size.in}, random);
  const Tensor weight = random_tensor(arena, {size.out, size.in}, random);
  const ops::LinearWeight linear = ops::packed_for(context, weight, compute, arena);
  return median_seconds(seconds_each, [&] {
    context.arena.reset();
    ops::linear(context, x, linear);
  });
}

// Rows in and out are fp32 in any case; the arithmetic decides the bytes of a weight.
Measurement product(const ProductSize& size, double seconds, Arithmetic arithmetic) {
  const int64_t weight_bytes = arithmetic == Arithmetic::fp32 ? 4 : 1;
  const int64_t read = 4 * size.rows * size.in + weight_bytes * size.out * size.in;
  return {.name = name_of(size),
          .seconds = seconds,
          .gflop = 2e-9 * static_cast<double>(size.rows * size.out * size.in),
          .arithmetic = arithmetic,
          .traffic = {1e-9 * static_cast<double>(read),
                      4e-9 * static_cast<double>(size.rows * size.out)},
          .note = "rows x out x in"};
}

}  // namespace

std::vector<Measurement> measure_machine(const MeasureOptions& options) {
  if (options.placement.device.type == DeviceType::cuda) return measure_cuda_machine(options);
  Results results("peaks", options);
  const int all = Parallel(options.threads).threads();
  for (const int threads : all == 1 ? std::vector<int>{1} : std::vector<int>{1, all}) {
    const std::string with = concat(", ", threads, threads == 1 ? " thread" : " threads");
    results.tell("the machine's own" + with);
    const Peaks peaks =
        threads == all && options.peaks ? *options.peaks : measure_peaks(threads, 0.2);
    results.add({.name = "fp32 multiply-add" + with, .seconds = 1.0, .gflop = peaks.gflops});
    if (peaks.int8_gops > 0.0) {
      results.add({.name = "int8 multiply-add" + with,
                   .seconds = 1.0,
                   .gflop = peaks.int8_gops,
                   .arithmetic = Arithmetic::int8});
    }
    for (const MemoryPeak& memory : peaks.memory) {
      results.add({.name = concat("reading ", memory.name, with),
                   .seconds = 1.0,
                   .traffic = {memory.read, 0.0}});
      results.add({.name = concat("adding in place, ", memory.name, with),
                   .seconds = 1.0,
                   .traffic = {0.5 * memory.update, 0.5 * memory.update}});
    }
  }
  return results.take();
}

std::vector<Measurement> measure_gemm(const MeasureOptions& options) {
  if (options.placement.device.type == DeviceType::cuda) return measure_cuda_gemm(options);
  Results results("gemm", options);
  Context context(options.threads);
  // The products of the measured models: one row, a few, a batch; of tiny, small and base.
  constexpr ProductSize kSizes[] = {
      {1, 512, 512},    {6, 512, 512},     {32, 512, 512},    {128, 512, 512},
      {512, 512, 512},  {1, 58101, 512},   {32, 58101, 512},  {128, 58101, 512},
      {2048, 128, 128}, {2048, 256, 128},  {2048, 128, 256},  {2048, 8000, 128},
      {2048, 256, 256}, {2048, 1024, 256}, {2048, 256, 1024}, {2048, 8000, 256},
      {1024, 512, 512}, {1024, 2048, 512}, {1024, 512, 2048}, {1024, 32000, 512}};
  for (const ProductSize& size : kSizes) {
    if (!results.wants(name_of(size))) continue;
    const double seconds = product_seconds(size, Compute::fp32, context, options.seconds_each);
    results.add(product(size, seconds, Arithmetic::fp32));
  }
  return results.take();
}

std::vector<Measurement> measure_gemm_int8(const MeasureOptions& options) {
  Results results("int8", options);
  Context context(options.threads);
  for (const ProductSize& size :
       {ProductSize{1, 512, 512}, ProductSize{4, 512, 512}, ProductSize{32, 512, 512},
        ProductSize{128, 512, 512}, ProductSize{1024, 512, 512}, ProductSize{32, 2048, 512},
        ProductSize{32, 512, 2048}, ProductSize{1, 58101, 512}, ProductSize{32, 58101, 512},
        ProductSize{128, 58101, 512}}) {
    if (!results.wants(name_of(size))) continue;
    const double seconds = product_seconds(size, Compute::int8, context, options.seconds_each);
    results.add(product(size, seconds, Arithmetic::int8));
  }
  return results.take();
}

std::vector<Measurement> measure_bandwidth(const MeasureOptions& options) {
  Results results("bandwidth", options);
  Context context(options.threads);
  // A call that reads or writes this many arrays of one size once.
  const auto add = [&](const std::string& name, int64_t size, int64_t read, int64_t written,
                       const auto& call) {
    const double array = 4e-9 * static_cast<double>(size);
    const double seconds = median_seconds(options.seconds_each, call);
    results.add(
        {.name = name,
         .seconds = seconds,
         .traffic = {array * static_cast<double>(read), array * static_cast<double>(written)},
         .note = concat(read, " arrays read, ", written, " written")});
  };
  for (const int64_t rows : {int64_t{32}, int64_t{2048}}) {
    constexpr int64_t kColumns = 512;
    const std::string shape = concat(" ", rows, "x", kColumns);
    Arena arena;
    Random random(1);
    const Tensor a = random_tensor(arena, {rows, kColumns}, random);
    const Tensor b = random_tensor(arena, {rows, kColumns}, random);
    const Tensor weight = random_tensor(arena, {kColumns}, random);
    const int64_t size = a.size();
    if (results.wants("layer norm" + shape)) {
      add("layer norm" + shape, size, 1, 1, [&] {
        context.arena.reset();
        ops::norm(context, ops::NormKind::layer, 1e-5f, a, weight, weight);
      });
    }
    if (results.wants("sum" + shape)) {
      add("sum" + shape, size, 2, 1, [&] {
        context.arena.reset();
        ops::add(context, a, b);
      });
    }
    if (results.wants("silu" + shape)) {
      add("silu" + shape, size, 1, 1, [&] {
        context.arena.reset();
        ops::activation(context, ops::Activation::silu, a);
      });
    }
  }
  constexpr int64_t kWeights = int64_t{1} << 24;
  const std::string name = concat("adamw ", kWeights >> 20, "M weights");
  if (!results.wants(name)) return results.take();
  Arena arena;
  Tensor parts[4];
  for (Tensor& part : parts) {
    part = Tensor(arena, {kWeights});
    std::fill_n(part.data(), kWeights, 0.5f);
  }
  // The gradient, two moments and the weight are read; all but the gradient written.
  add(name, kWeights, 4, 3, [&] {
    kernels::adamw(context.parallel, {.rate = 1e-4f}, kWeights, parts[0].data(), parts[1].data(),
                   parts[2].data(), parts[3].data());
  });
  return results.take();
}

std::vector<Measurement> measure_attention(const MeasureOptions& options) {
  if (options.placement.device.type == DeviceType::cuda) return measure_cuda_attention(options);
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
    // Forward: q, k and v are read and the result is written; backward: they are read again, with
    // the result and its gradient, and three gradients are written.
    const double tensor = 4e-9 * static_cast<double>(size.batch * size.length * kHeads * kDim);
    results.add({.name = name + " forward",
                 .seconds = forward_seconds,
                 .gflop = 2 * product,
                 .traffic = {3 * tensor, tensor},
                 .note = "causal"});
    results.add({.name = name + " forward+backward",
                 .seconds = both_seconds,
                 .gflop = 7 * product,
                 .traffic = {8 * tensor, 4 * tensor},
                 .note = "causal"});
  }
  return results.take();
}

}  // namespace tril
