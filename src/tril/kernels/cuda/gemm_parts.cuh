// Shared by the GEMM kernels: loading tiles, and storing sums. And the kernels' entry points, from
// which gemm_own() chooses.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "tril/kernels/cuda/gemm.h"
#include "tril/kernels/cuda/per_gpu.cuh"
#include "tril/kernels/cuda/tensor_core.cuh"

namespace tril::kernels::cuda {

// Each sums as the contract says. All sizes except k are above zero.
void gemm_f32(cudaStream_t stream, const Gemm& product);
void gemm_tiled(cudaStream_t stream, const Gemm& product);
// Forward, few rows, operands aligned to 16 bytes.
void gemm_few_rows(Stream stream, const Gemm& product);

// Whether each row of a matrix begins at a multiple of 16 bytes.
inline bool aligned_rows(const void* matrix, int64_t stride, DType type) {
  return reinterpret_cast<uintptr_t>(matrix) % 16 == 0 && stride * size_of(type) % 16 == 0;
}

// Where gemm_few_rows() is best: up to 64 rows, and up to 256 where outputs and terms are few, as
// in the layers of a decoding step.
inline bool has_few_rows(const Gemm& p) {
  constexpr int64_t kFewRows = 64, kSomeRows = 256, kFewOutputs = 4096, kFewTerms = 1024;
  const bool small = p.m <= kSomeRows && p.n <= kFewOutputs && p.k <= kFewTerms;
  return p.orientation == Orientation::forward && (p.m <= kFewRows || small) && !p.adds;
}

using bf16 = __nv_bfloat16;

// A matrix [rows][columns] in device memory.
struct Matrix {
  const bf16* data;
  int64_t stride;
  int rows;
  int columns;
};

// Tiles [kRows][kColumns] of a matrix, each kDepth terms after the one before, zeros past the end
// of the matrix, loaded by all kThreads threads of the block. Aligned rows are copied
// asynchronously; others are read element by element.
enum class Alignment { rows, none };
template <int kRows, int kColumns, int kThreads, TermsAre kTerms, Alignment kAligned>
class TileLoader {
 public:
  static constexpr int kDepth = kTerms == TermsAre::columns ? kColumns : kRows;

  __device__ TileLoader(const Matrix& from, int row, int column, int thread)
      : stride_(from.stride), first_(thread / kPieces), piece_(thread % kPieces) {
    rows_left_ = from.rows - row - first_;
    columns_left_ = from.columns - column - piece_ * core::kPiece;
    source_ = from.data + (row + first_) * stride_ + column + piece_ * core::kPiece;
  }

  // Loads a tile and advances to the next.
  __device__ void load(bf16* tile) {
    const int there = min(max(columns_left_, 0), core::kPiece);
#pragma unroll
    for (int done = 0; done < kRows; done += kStep) {
      if (kRows % kStep != 0 && first_ + done >= kRows) break;
      const int count = done < rows_left_ ? there : 0;
      const bf16* source = source_ + done * stride_;
      bf16* to = tile + core::place<kColumns>(first_ + done, piece_);
      if constexpr (kAligned == Alignment::rows) {
        core::copy_async(to, source, count * static_cast<int>(sizeof(bf16)));
      } else {
#pragma unroll
        for (int e = 0; e < core::kPiece; ++e) to[e] = e < count ? source[e] : bf16(0.0f);
      }
    }
    if constexpr (kTerms == TermsAre::columns) {
      source_ += kDepth;
      columns_left_ -= kDepth;
    } else {
      source_ += kDepth * stride_;
      rows_left_ -= kDepth;
    }
  }

 private:
  static constexpr int kPieces = kColumns / core::kPiece;
  static constexpr int kStep = kThreads / kPieces;  // rows at a time
  static_assert(kThreads % kPieces == 0, "a thread stays in its column of pieces");

  int64_t stride_;
  const bf16* source_;
  int first_, piece_;  // of the tile's rows and pieces
  int rows_left_, columns_left_;
};

// The next of the stages of a pipeline.
template <int kStages>
__device__ int after(int stage) {
  return stage + 1 == kStages ? 0 : stage + 1;
}

// Turns a sum into c: rounded once, after adding the bias or what c holds.
class Result {
 public:
  __device__ explicit Result(const Gemm& product) : p_(product) {
    const int64_t pair = 2 * (p_.c_type == DType::f32 ? 4 : 2);
    pairs_ = p_.c_stride % 2 == 0 && reinterpret_cast<uintptr_t>(p_.c) % pair == 0;
  }

  __device__ void store(int64_t row, int64_t column, float sum) const {
    if (row >= p_.m || column >= p_.n) return;
    const float value = with_bias(column, sum);
    const int64_t at = row * p_.c_stride + column;
    if (p_.c_type == DType::f32) {
      float* c = static_cast<float*>(p_.c) + at;
      *c = relu(p_.adds ? *c + value : value);
    } else {
      bf16* c = static_cast<bf16*>(p_.c) + at;
      *c = p_.adds ? added(*c, value) : rounded(value);
    }
  }
  // Stores an even column and the next.
  __device__ void store_pair(int64_t row, int64_t column, float sum, float next) const {
    if (!pairs_ || column + 1 >= p_.n) {
      store(row, column, sum);
      store(row, column + 1, next);
      return;
    }
    if (row >= p_.m) return;
    const float value = with_bias(column, sum);
    const float other = with_bias(column + 1, next);
    const int64_t at = row * p_.c_stride + column;
    if (p_.c_type == DType::f32) {
      auto* c = reinterpret_cast<float2*>(static_cast<float*>(p_.c) + at);
      *c =
          p_.adds ? make_float2(c->x + value, c->y + other) : make_float2(relu(value), relu(other));
    } else {
      auto* c = reinterpret_cast<__nv_bfloat162*>(static_cast<bf16*>(p_.c) + at);
      *c = p_.adds ? __halves2bfloat162(added(c->x, value), added(c->y, other))
                   : __halves2bfloat162(rounded(value), rounded(other));
    }
  }

 private:
  __device__ float relu(float value) const {
    return p_.relu && value <= 0.0f ? 0.0f : value;  // NaN stays NaN
  }
  __device__ bf16 rounded(float value) const { return __float2bfloat16_rn(relu(value)); }
  __device__ bf16 added(bf16 to, float value) const {
    return __float2bfloat16_rn(__bfloat162float(to) + __bfloat162float(rounded(value)));
  }
  __device__ float with_bias(int64_t column, float sum) const {
    if (p_.bias == nullptr) return sum;
    return sum + (p_.type == DType::f32
                      ? static_cast<const float*>(p_.bias)[column]
                      : __bfloat162float(static_cast<const bf16*>(p_.bias)[column]));
  }

  const Gemm& p_;
  bool pairs_;
};

}  // namespace tril::kernels::cuda
