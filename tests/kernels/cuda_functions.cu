#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda_functions.h"

namespace tril::testing {
namespace {

constexpr int kThreads = 128;

void check(cudaError_t error) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("cuda: ") + cudaGetErrorString(error));
  }
}

// Device memory that grows and is kept.
class Buffer {
 public:
  float* of(size_t count) {
    if (count > size_) {
      check(cudaFree(memory_));
      check(cudaMalloc(&memory_, count * sizeof(float)));
      size_ = count;
    }
    return memory_;
  }
  float* filled(std::span<const float> values) {
    float* to = of(values.size());
    check(cudaMemcpy(to, values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
    return to;
  }

 private:
  float* memory_ = nullptr;
  size_t size_ = 0;
};

unsigned blocks_for(size_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

__global__ void function_kernel(CudaFunction function, int64_t count, const float* x, float* y) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  switch (function) {
    case CudaFunction::exp2: asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y[i]) : "f"(x[i])); break;
    case CudaFunction::exp: y[i] = expf(x[i]); break;
    case CudaFunction::erf: y[i] = erff(x[i]); break;
  }
}

__device__ uint32_t pair_at(const float* terms) {
  const uint32_t low = __bfloat16_as_ushort(__float2bfloat16_rn(terms[0]));
  const uint32_t high = __bfloat16_as_ushort(__float2bfloat16_rn(terms[1]));
  return low | high << 16;
}

// A warp per sum: element (0, 0) of a product whose other rows and columns are zero.
__global__ void step_kernel(int64_t count, float* sums, const float* a, const float* b) {
  const int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  if (i >= count) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool mine = lane < 4;
  const int64_t at = 16 * i + 2 * lane;
  float c[4] = {lane == 0 ? sums[i] : 0.0f, 0.0f, 0.0f, 0.0f};
  const uint32_t a0 = mine ? pair_at(a + at) : 0, a2 = mine ? pair_at(a + at + 8) : 0;
  const uint32_t b0 = mine ? pair_at(b + at) : 0, b1 = mine ? pair_at(b + at + 8) : 0;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(0), "r"(a2), "r"(0), "r"(b0), "r"(b1));
  if (lane == 0) sums[i] = c[0];
}

}  // namespace

void evaluate_on_cuda(CudaFunction function, std::span<const float> x, std::span<float> y) {
  static Buffer from, to;
  if (x.empty()) return;
  const float* in = from.filled(x);
  float* out = to.of(x.size());
  function_kernel<<<blocks_for(x.size()), kThreads>>>(function, static_cast<int64_t>(x.size()), in,
                                                      out);
  check(cudaGetLastError());
  check(cudaMemcpy(y.data(), out, x.size_bytes(), cudaMemcpyDeviceToHost));
}

void tensor_core_steps_on_cuda(std::span<float> sums, std::span<const float> a,
                               std::span<const float> b) {
  static Buffer sums_there, a_there, b_there;
  if (sums.empty()) return;
  float* c = sums_there.filled(sums);
  step_kernel<<<blocks_for(32 * sums.size()), kThreads>>>(static_cast<int64_t>(sums.size()), c,
                                                          a_there.filled(a), b_there.filled(b));
  check(cudaGetLastError());
  check(cudaMemcpy(sums.data(), c, sums.size_bytes(), cudaMemcpyDeviceToHost));
}

}  // namespace tril::testing
