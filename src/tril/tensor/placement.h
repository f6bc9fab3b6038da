// Placement: where a model is, and in which type it computes.
#pragma once

#include <string_view>

#include "tril/base/dtype.h"
#include "tril/base/words.h"
#include "tril/device/device.h"

namespace tril {

// In which order a model's operations are made. On CUDA it depends on the type of activations. A
// proof for every input follows one of them (ops/expressions.h).
enum class OperationOrder { cpu, cuda_fp32, cuda_bf16 };
template <>
struct Words<OperationOrder> {
  static constexpr std::string_view kList[] = {"cpu", "cuda-fp32", "cuda-bf16"};
};

// The type of activations unless another is requested.
constexpr DType activation_type(Device device) { return on_gpu(device) ? DType::bf16 : DType::f32; }
// The device a model is on, and the type in which its activations are stored: fp32 on the CPU, bf16
// or, for checking, fp32 on CUDA.
struct Placement {
  Device device = Device::cpu;
  DType activations = DType::f32;

  Placement() = default;
  Placement(Device on) : device(on), activations(activation_type(on)) {}  // NOLINT
  Placement(Device on, DType type) : device(on), activations(type) {}
  // Numbers that remember how they were made instead of computing, in host memory.
  static Placement expressions() { return {Device::cpu, DType::expression}; }
  OperationOrder order() const {
    if (!on_gpu(device)) return OperationOrder::cpu;
    return activations == DType::bf16 ? OperationOrder::cuda_bf16 : OperationOrder::cuda_fp32;
  }
  bool operator==(const Placement&) const = default;
};

}  // namespace tril
