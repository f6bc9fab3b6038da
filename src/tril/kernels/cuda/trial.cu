#include <cuda_runtime.h>

#include "tril/kernels/cuda/trial.h"

namespace tril::kernels::cuda {
namespace {

constexpr int kTrialThreads = 256;

__device__ uint32_t scrambled(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}
__device__ uint32_t random_bits(uint32_t line, uint32_t term, uint32_t salt) {
  return scrambled(scrambled(scrambled(line + 0x9e3779b9u * salt) ^ term) + salt);
}

// Bits of a bf16: sign, exponent from -133 (subnormals) to 127, and seven fraction bits.
__device__ uint16_t encoded(uint32_t sign, int exponent, uint32_t fraction) {
  const uint32_t low = exponent < -126 ? (0x80u | fraction) >> min(-126 - exponent, 8)
                                       : (static_cast<uint32_t>(exponent + 127) << 7) | fraction;
  return static_cast<uint16_t>(sign << 15 | low);
}
__device__ int between(uint32_t bits, int least, int most) {
  return least + static_cast<int>(bits % static_cast<uint32_t>(most - least + 1));
}

__device__ uint16_t trial_number(TrialSide side, uint32_t line, uint32_t term) {
  const uint32_t salt = side == TrialSide::a ? 1 : 2;
  const uint32_t bits = random_bits(line, term, salt);
  const uint32_t fraction = bits & 0x7fu;
  const uint32_t sign = bits >> 7 & 1u;
  const uint32_t more = bits >> 8;
  switch (line % 8) {
    case 0: return encoded(sign, between(more, -4, 0), fraction);
    case 1: {
      const int shared = between(random_bits(0, term, 3), -100, 100);
      return encoded(sign, (side == TrialSide::a ? shared : -shared) + between(more, -2, 2),
                     fraction);
    }
    case 2: return encoded(sign, between(more, -12, 12), fraction);
    case 3: return encoded(sign, between(more, -133, -60), fraction);
    case 4:
      return more % 2 == 0 ? static_cast<uint16_t>(sign << 15)
                           : encoded(sign, between(more / 2, -4, 0), fraction);
    case 5: return encoded(sign, between(more, 60, 127), fraction);
    case 6: {  // a pair of terms has one number on either side, and opposite signs in b
      const uint32_t pair = random_bits(line, term / 2, salt + 4);
      const uint32_t turned = side == TrialSide::b ? term % 2 : 0;
      if (more % 8 == 0) return encoded(sign, between(more / 8, -20, -12), fraction);
      return encoded((pair >> 7 & 1u) ^ turned, between(pair >> 8, -12, 12), pair & 0x7fu);
    }
    default: return encoded(sign, between(more, -133, 127), fraction);
  }
}

__global__ void fill_kernel(TrialSide side, TermsAre terms, int64_t rows, int64_t columns,
                            uint16_t* to) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kTrialThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kTrialThreads + threadIdx.x;
       i < rows * columns; i += step) {
    const auto row = static_cast<uint32_t>(i / columns);
    const auto column = static_cast<uint32_t>(i % columns);
    to[i] = terms == TermsAre::columns ? trial_number(side, row, column)
                                       : trial_number(side, column, row);
  }
}

template <class Bits, Bits kSign, Bits kInfinity>
__global__ void count_kernel(const Bits* a, const Bits* b, int64_t rows, int64_t columns,
                             int64_t stride, uint32_t* count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kTrialThreads;
  uint32_t differing = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kTrialThreads + threadIdx.x;
       i < rows * columns; i += step) {
    const int64_t at = i / columns * stride + i % columns;
    const bool no_numbers = (a[at] & ~kSign) > kInfinity && (b[at] & ~kSign) > kInfinity;
    if (a[at] != b[at] && !no_numbers) ++differing;
  }
  if (differing > 0) atomicAdd(count, differing);
}

constexpr unsigned kBlocks = 1024;

}  // namespace

void fill_trial(Stream stream, const FillTrial& args) {
  fill_kernel<<<kBlocks, kTrialThreads, 0, static_cast<cudaStream_t>(stream.handle)>>>(
      args.side, args.terms, args.rows, args.columns, reinterpret_cast<uint16_t*>(args.to));
}

void count_differing(Stream stream, const CountDiffering& args) {
  const auto queue = static_cast<cudaStream_t>(stream.handle);
  if (args.type == DType::f32) {
    count_kernel<uint32_t, 0x80000000u, 0x7f800000u><<<kBlocks, kTrialThreads, 0, queue>>>(
        static_cast<const uint32_t*>(args.a), static_cast<const uint32_t*>(args.b), args.rows,
        args.columns, args.stride, args.count);
  } else {
    count_kernel<uint16_t, 0x8000, 0x7f80><<<kBlocks, kTrialThreads, 0, queue>>>(
        static_cast<const uint16_t*>(args.a), static_cast<const uint16_t*>(args.b), args.rows,
        args.columns, args.stride, args.count);
  }
}

}  // namespace tril::kernels::cuda
