// Operations on lists of tensors: copies within a step, running averages.
#pragma once

#include <span>

#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

// to = from, as part of the step; same shape, type and device.
void copy(Context& context, const Tensor& from, const Tensor& to);

// to += share (from - to) for every pair; f32, sizes agree.
void move_towards(Context& context, float share, std::span<const ConstTensor> from,
                  std::span<const Tensor> to);

}  // namespace tril::ops
