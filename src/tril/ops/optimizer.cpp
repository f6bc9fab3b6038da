#include "tril/ops/optimizer.h"

#include <cmath>

#include "tril/base/rounding.h"
#include "tril/kernels/adamw.h"
#include "tril/kernels/elementwise.h"
#include "tril/ops/cuda_optimizer.h"
#include "tril/ops/on_cuda.h"

namespace tril::ops {
namespace {

// One of the four f32 tensors of a weight.
void check_part(const Context& context, const Tensor& weight, const Tensor& part) {
  require(part.size() == weight.size(), ErrorCode::shape_mismatch, "AdamW: a weight ",
          weight.shape(), " with ", part.shape());
  require(part.dtype() == DType::f32 && part.device() == context.device(),
          ErrorCode::invalid_argument, "AdamW: a tensor of ", part.dtype(), " on ", part.device(),
          ", expected ", DType::f32, " on ", context.device());
}

void check_rounded(const Context& context, const Tensor& weight, const Tensor& rounded) {
  const bool matrix = weight.shape().rank() == 2;
  const Shape& to = rounded.shape();
  require(matrix ? to.rank() == 2 && to[0] >= weight.shape()[0] && to[1] >= weight.shape()[1]
                 : to.size() >= weight.size(),
          ErrorCode::shape_mismatch, "AdamW: a weight ", weight.shape(), " rounded into ", to);
  require(
      on_cuda(context) && rounded.device() == context.device() && rounded.dtype() == DType::bf16,
      ErrorCode::unsupported, "AdamW: a rounded weight of ", rounded.dtype(), " on ",
      rounded.device(), ", expected ", DType::bf16, " on cuda");
}

void check_tensors(const Context& context, std::span<const UpdateTensor> tensors) {
  for (const UpdateTensor& tensor : tensors) {
    check_part(context, tensor.weight, tensor.weight);
    check_part(context, tensor.weight, tensor.first);
    check_part(context, tensor.weight, tensor.second);
    if (tensor.gradient.defined()) check_part(context, tensor.weight, tensor.gradient);
    if (tensor.rounded.defined()) check_rounded(context, tensor.weight, tensor.rounded);
  }
}

}  // namespace

AdamW::AdamW(Device device, const AdamWSettings& settings) : settings_(settings), arena_(device) {
  const auto on_cpu = [] {};  // the state is in last_ and powers_
  dispatch(device, on_cpu, [&] { state_ = cuda::make_state(arena_); });
  restore(0);
}

void AdamW::restore(int64_t steps) {
  last_ = {.steps = steps};
  powers_ = {};
  for (int64_t step = 0; step < steps; ++step) {
    powers_.of_beta1 *= static_cast<double>(settings_.beta1);
    powers_.of_beta2 *= static_cast<double>(settings_.beta2);
  }
  if (!state_.defined()) return;
  only_on_cuda(
      [&] { cuda::set_state(state_, settings_, steps, powers_.of_beta1, powers_.of_beta2); });
}

void AdamW::update(Context& context, std::span<const UpdateTensor> tensors, float rate) {
  require(context.device() == arena_.device(), ErrorCode::invalid_argument, "AdamW: made on ",
          arena_.device(), ", used on ", context.device());
  check_tensors(context, tensors);
  dispatch(
      context, [&] { update_on_cpu(context, tensors, rate); },
      [&] { cuda::update(context, state_, tensors, rate); });
}

void AdamW::update_on_cpu(Context& context, std::span<const UpdateTensor> tensors, float rate) {
  const StandardRounding rounding;
  double squares = 0.0;
  for (const UpdateTensor& tensor : tensors) {
    const Tensor& gradient = tensor.gradient;
    if (!gradient.defined()) continue;
    const Arena::Scope scratch(context.arena);
    auto* partial = context.arena.allocate_array<float>(
        (gradient.size() + kernels::kSquareChunk - 1) / kernels::kSquareChunk);
    squares += kernels::sum_of_squares(context.parallel, gradient.size(), gradient.data(), partial);
  }
  last_.norm = std::sqrt(squares);
  if (!std::isfinite(last_.norm)) return;
  ++last_.steps;
  powers_.of_beta1 *= static_cast<double>(settings_.beta1);
  powers_.of_beta2 *= static_cast<double>(settings_.beta2);
  kernels::AdamW args{.rate = rate,
                      .beta1 = settings_.beta1,
                      .beta2 = settings_.beta2,
                      .epsilon = settings_.epsilon,
                      .correction1 = static_cast<float>(1.0 - powers_.of_beta1),
                      .correction2 = static_cast<float>(1.0 - powers_.of_beta2)};
  if (settings_.clip_norm > 0.0 && last_.norm > settings_.clip_norm) {
    args.factor = static_cast<float>(settings_.clip_norm / last_.norm);
  }
  for (const UpdateTensor& tensor : tensors) {
    if (!tensor.gradient.defined()) continue;
    args.decay = tensor.decay;
    kernels::adamw(context.parallel, args, tensor.weight.size(), tensor.gradient.data(),
                   tensor.first.data(), tensor.second.data(), tensor.weight.data());
  }
}

int64_t AdamW::fetch_last(Context& context) const {
  return dispatch(
      context, [&] { return context.queue.fetch(&last_, sizeof last_); },
      [&] { return cuda::fetch_last(context, state_); });
}

AdamW::Last AdamW::fetched_last(Context& context, int64_t number) {
  const auto on_cpu = [&] {
    Last last;
    context.queue.fetched(number, &last, sizeof last);
    return last;
  };
  return dispatch(context, on_cpu, [&] { return cuda::fetched_last(context, number); });
}

AdamW::Last AdamW::last(Context& context) const {
  return fetched_last(context, fetch_last(context));
}

}  // namespace tril::ops
