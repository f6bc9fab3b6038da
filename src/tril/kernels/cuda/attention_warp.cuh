// The instructions of attention, and how its kernels are started: besides attention_wgmma.cuh the
// only place of the attention kernels with PTX. For the sources of this folder.
//
// A warp's lane l is (g, t) = (l / 4, l % 4). In the product c += a b of m16n8k16
//   a [16, 16]: x0 (g, 2t..), x1 (g + 8, 2t..), x2 (g, 2t + 8..), x3 (g + 8, 2t + 8..)
//   b [16, 8]:  x0 (2t.., g), x1 (2t + 8.., g)
//   c [16, 8]:  c0 c1 (g, 2t..), c2 c3 (g + 8, 2t..)
// where ".." is that element and the next, the lower one in the lower half of the register.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tril/base/stream.h"
#include "tril/kernels/cuda/per_gpu.cuh"

namespace tril::kernels::cuda {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr float kLog2e = 1.44269504088896340736f;

struct Fragment {
  uint32_t x[4];
};

__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char attention_shared[];
  return attention_shared;
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void mma(float (&c)[4], const Fragment& a, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ Fragment load_matrices(const void* row) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.x[0]), "=r"(f.x[1]), "=r"(f.x[2]), "=r"(f.x[3])
               : "r"(shared_address(row)));
  return f;
}
__device__ __forceinline__ Fragment load_transposed(const void* row) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.x[0]), "=r"(f.x[1]), "=r"(f.x[2]), "=r"(f.x[3])
               : "r"(shared_address(row)));
  return f;
}

// 2^x; exact for 0 and for both infinities.
__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The logarithm to base 2; of 0 it is -inf.
__device__ __forceinline__ float log2_of(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two numbers rounded to bf16, the first in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ __forceinline__ float low_of(uint32_t packed) { return __uint_as_float(packed << 16); }
__device__ __forceinline__ float high_of(uint32_t packed) {
  return __uint_as_float(packed & 0xffff0000u);
}

// Copies of which `bytes` (all or 0) are read and the rest is zero; complete after copies_wait().
__device__ __forceinline__ void copy_16(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void copy_8(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}
__device__ __forceinline__ void copy_4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}
__device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// How many blocks of this kernel the current GPU holds at once; asked once per kernel and GPU.
template <auto kKernel>
int64_t resident_blocks(int threads, int shared_bytes) {
  static PerGpu<int64_t> blocks;
  return blocks.get([&] {
    int device = 0, processors = 0, each = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kKernel, threads,
                                                  static_cast<size_t>(shared_bytes));
    return int64_t{processors} * (each > 0 ? each : 1);
  });
}

template <class Arguments>
void start(Stream stream, void (*kernel)(Arguments), int64_t blocks, int threads, int shared_bytes,
           const Arguments& arguments) {
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
           static_cast<size_t>(shared_bytes), static_cast<cudaStream_t>(stream.handle)>>>(
      arguments);
}

}  // namespace tril::kernels::cuda
