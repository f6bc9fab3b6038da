#include "tril/ops/weights.h"

#include <algorithm>

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/on_cuda.h"

namespace tril::ops {
namespace {

constexpr int64_t kChunk = 1 << 14;

void move_one(const Parallel& parallel, float share, const ConstTensor& from, const Tensor& to) {
  const float* weight = from.data();
  float* average = to.data();
  const int64_t size = to.size();
  parallel((size + kChunk - 1) / kChunk, [&](int64_t chunk) {
    const int64_t end = std::min(size, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) average[i] += share * (weight[i] - average[i]);
  });
}
void move_on_cpu(Context& context, float share, std::span<const ConstTensor> from,
                 std::span<const Tensor> to) {
  for (size_t i = 0; i < to.size(); ++i) move_one(context.parallel, share, from[i], to[i]);
}

void move_on_cuda(Context& context, float share, std::span<const ConstTensor> from,
                  std::span<const Tensor> to) {
  const Arena::Scope scratch(context.host);
  const auto count = static_cast<int64_t>(to.size());
  auto* pairs = context.host.allocate_array<kernels::cuda::WeightPair>(count);
  auto* starts = context.host.allocate_array<int32_t>(count + 1);
  int64_t chunks = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    pairs[i] = {from[at].on_device(), to[at].on_device(), to[at].size()};
    starts[i] = static_cast<int32_t>(chunks);
    chunks += (to[at].size() + kernels::cuda::kWeightChunk - 1) / kernels::cuda::kWeightChunk;
  }
  starts[count] = static_cast<int32_t>(chunks);
  const auto* pairs_there = context.uploaded(
      std::span<const kernels::cuda::WeightPair>(pairs, static_cast<size_t>(count)));
  const auto* starts_there =
      context.uploaded(std::span<const int32_t>(starts, static_cast<size_t>(count + 1)));
  const float* share_there = context.uploaded(share);
  context.launch(kernels::cuda::move_towards, {.share = share_there,
                                               .pairs = pairs_there,
                                               .starts = starts_there,
                                               .count = count,
                                               .chunks = chunks});
}

}  // namespace

void copy(Context& context, const Tensor& from, const Tensor& to) {
  require(from.shape() == to.shape() && from.dtype() == to.dtype(), ErrorCode::shape_mismatch,
          "copy: ", from.dtype(), " ", from.shape(), " into ", to.dtype(), " ", to.shape());
  const int64_t bytes = from.size() * size_of(from.dtype());
  if (bytes == 0) return;
  context.copy({.from = from.raw(), .to = to.raw(), .bytes = bytes});
}

void move_towards(Context& context, float share, std::span<const ConstTensor> from,
                  std::span<const Tensor> to) {
  require(from.size() == to.size(), ErrorCode::shape_mismatch, "average: ", from.size(),
          " tensors towards ", to.size());
  for (size_t i = 0; i < to.size(); ++i) {
    require(from[i].size() == to[i].size(), ErrorCode::shape_mismatch, "average: ", from[i].shape(),
            " towards ", to[i].shape());
  }
  dispatch(
      context, [&] { move_on_cpu(context, share, from, to); },
      [&] { move_on_cuda(context, share, from, to); });
}

}  // namespace tril::ops
