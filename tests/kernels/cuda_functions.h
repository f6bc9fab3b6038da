// What only a GPU computes, for numbers in host memory: the opaque operations of CUDA's models
// (kernels/model/cuda_functions.h). Each call waits for the GPU and throws if it fails.
#pragma once

#include <cstdint>
#include <span>

namespace tril::testing {

enum class CudaFunction { exp2, exp, erf };
// y[i] = f(x[i])
void evaluate_on_cuda(CudaFunction function, std::span<const float> x, std::span<float> y);

// sums[i] += the sum of a[16 i + k] b[16 i + k] over 16 k, each by one mma.sync.m16n8k16 with
// nothing else in it. a and b are bf16 numbers.
void tensor_core_steps_on_cuda(std::span<float> sums, std::span<const float> a,
                               std::span<const float> b);

}  // namespace tril::testing
