#include "tril/ops/cuda_optimizer.h"

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/cuda_rows.h"

namespace tril::ops::cuda {
namespace {

namespace on_gpu = kernels::cuda;

on_gpu::AdamWState* memory_of_state(const Context& context, const Tensor& state) {
  return reinterpret_cast<on_gpu::AdamWState*>(memory_of<int8_t>(context, state));
}

on_gpu::AdamWTensor described(const Context& context, const UpdateTensor& tensor) {
  const bool matrix = tensor.weight.shape().rank() == 2;
  const int64_t size = tensor.weight.size();
  return {.size = size,
          .columns = matrix ? tensor.weight.columns() : size,
          .decay = tensor.decay,
          .gradient = memory_of<float>(context, tensor.gradient),
          .m = memory_of<float>(context, tensor.first),
          .v = memory_of<float>(context, tensor.second),
          .w = memory_of<float>(context, tensor.weight),
          .rounded = memory_of<BFloat16>(context, tensor.rounded),
          .rounded_columns = matrix ? tensor.rounded.columns() : size};
}

// The tensors with a gradient, uploaded until the step ends.
on_gpu::AdamWTensors uploaded(Context& context, std::span<const UpdateTensor> tensors) {
  auto* list =
      context.host.allocate_array<on_gpu::AdamWTensor>(static_cast<int64_t>(tensors.size()));
  auto* starts = context.host.allocate_array<int32_t>(static_cast<int64_t>(tensors.size()) + 1);
  size_t count = 0;
  int64_t chunks = 0;
  for (const UpdateTensor& tensor : tensors) {
    if (!tensor.gradient.defined()) continue;
    starts[count] = static_cast<int32_t>(chunks);
    list[count] = described(context, tensor);
    chunks += on_gpu::update_chunks(list[count].size);
    ++count;
  }
  require(chunks <= INT32_MAX, ErrorCode::unsupported, "AdamW: ", chunks, " chunks of weights");
  starts[count] = static_cast<int32_t>(chunks);
  return {.tensors = context.uploaded(std::span<const on_gpu::AdamWTensor>(list, count)),
          .starts = context.uploaded(std::span<const int32_t>(starts, count + 1)),
          .count = static_cast<int64_t>(count),
          .chunks = chunks};
}

}  // namespace

Tensor make_state(Arena& arena) {
  return Tensor(arena, {int64_t{sizeof(on_gpu::AdamWState)}}, DType::i8);
}

void set_state(const Tensor& state, const AdamWSettings& settings, int64_t steps, double power1,
               double power2) {
  on_gpu::AdamWState on_host;
  on_host.beta1 = settings.beta1;
  on_host.beta2 = settings.beta2;
  on_host.epsilon = settings.epsilon;
  on_host.clip_norm = settings.clip_norm;
  on_host.power1 = power1;
  on_host.power2 = power2;
  on_host.steps = steps;
  copy(state.device(), state.raw(), Device::cpu, &on_host, state.size());
}

int64_t fetch_last(Context& context, const Tensor& state) {
  return context.queue.fetch(state.raw(), state.size());
}

AdamW::Last fetched_last(Context& context, int64_t number) {
  on_gpu::AdamWState on_host;
  context.queue.fetched(number, &on_host, sizeof on_host);
  return {.norm = on_host.norm, .steps = on_host.steps};
}

void update(Context& context, const Tensor& state, std::span<const UpdateTensor> tensors,
            float rate) {
  const on_gpu::AdamWTensors all = uploaded(context, tensors);
  const float* rate_there = context.uploaded(rate);
  const Arena::Scope scratch(context.arena);
  auto* partial = context.arena.allocate_array<double>(all.chunks);
  auto* squares = context.arena.allocate_array<double>(1);
  on_gpu::AdamWState* kept = memory_of_state(context, state);
  context.launch(on_gpu::sum_of_squares, {.all = all, .partial = partial, .squares = squares});
  context.launch(on_gpu::adamw_begin, {.squares = squares, .rate = rate_there, .state = kept});
  context.launch(on_gpu::adamw, {.state = kept, .all = all});
}

}  // namespace tril::ops::cuda
