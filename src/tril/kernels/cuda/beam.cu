#include <cuda_runtime.h>

#include <cstdint>

#include "tril/kernels/cuda/beam.h"
#include "tril/kernels/cuda/best.cuh"
#include "tril/kernels/cuda/launch.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kCells = 4096;  // of the table that are turned over at a time

// A continuation by its score. Its number is row * count + place, which is also the order of equal
// scores.
using Candidate = Ranked<double>;

// What the next step begins with, while what it comes from is still read.
struct Next {
  double* scores;
  int32_t* tokens;
  int32_t* parents;
};

// Returns how many are alive.
__device__ int choose_next(const AdvanceBeams& a, int64_t first_row, const Next& next) {
  const int width = static_cast<int>(a.width), count = static_cast<int>(a.count);
  const int32_t* choices = a.choices + first_row * count;
  const float* log_probs = a.log_probs + first_row * count;
  const double* scores = a.scores + first_row;
  Candidate last{INFINITY, -1};
  int alive = 0;
  for (int looked_at = 0; looked_at < 2 * width && alive < width; ++looked_at) {
    Candidate mine;
    for (int number = static_cast<int>(threadIdx.x); number < width * count; number += kThreads) {
      const double before = scores[number / count];
      if (choices[number] < 0 || before == -INFINITY) continue;
      const Candidate other{before + static_cast<double>(log_probs[number]), number};
      if (better(last, other) && better(other, mine)) mine = other;
    }
    last = best_of_block<kThreads>(mine);
    if (last.number == Candidate::kNone) break;
    if (choices[last.number] == a.end) continue;
    if (threadIdx.x == 0) {
      next.scores[alive] = last.value;
      next.tokens[alive] = choices[last.number];
      next.parents[alive] = last.number / count;
    }
    ++alive;
  }
  return alive;
}

// Row i of the group becomes what row parents[i] was, columns at a time.
__device__ void turn_table(const AdvanceBeams& a, int64_t first_row, int alive,
                           const int32_t* parents, int32_t* cells) {
  const int width = static_cast<int>(a.width);
  const int columns = max(1, kCells / width);
  const int length = a.positions[first_row] + 1;
  int32_t* table = a.table + first_row * a.table_stride;
  for (int begin = 0; begin < length; begin += columns) {
    const int some = min(columns, length - begin);
    for (int i = static_cast<int>(threadIdx.x); i < alive * some; i += kThreads) {
      cells[i] = table[parents[i / some] * a.table_stride + begin + i % some];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < alive * some; i += kThreads) {
      table[i / some * a.table_stride + begin + i % some] = cells[i];
    }
    __syncthreads();
  }
}

// What the group was offered.
__device__ void deliver(const AdvanceBeams& a, int64_t first_row) {
  if (a.deliver_to == nullptr) return;
  auto* const choices = static_cast<int32_t*>(*a.deliver_to);
  auto* const log_probs = reinterpret_cast<float*>(choices + a.groups * a.width * a.count);
  const int64_t first = first_row * a.count;
  for (int64_t i = first + threadIdx.x; i < first + a.width * a.count; i += kThreads) {
    choices[i] = a.choices[i];
    log_probs[i] = a.log_probs[i];
  }
}

__global__ void advance_kernel(const AdvanceBeams a) {
  __shared__ int32_t cells[kCells];
  extern __shared__ double memory[];
  let_next_begin();
  wait_for_earlier();
  deliver(a, blockIdx.x * a.width);
  const int width = static_cast<int>(a.width);
  auto* tokens = reinterpret_cast<int32_t*>(memory + width);
  const Next next{memory, tokens, tokens + width};
  const int64_t first_row = blockIdx.x * a.width;
  const int alive = choose_next(a, first_row, next);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    a.scores[first_row + i] = i < alive ? next.scores[i] : -INFINITY;
    a.tokens[first_row + i] = i < alive ? next.tokens[i] : 0;
  }
  if (width > 1) turn_table(a, first_row, alive, next.parents, cells);
}

__global__ void extend_kernel(const ExtendTable a) {
  const int64_t row = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (row >= a.rows || a.entries[row] < 0) return;
  a.table[row * a.table_stride + a.positions[row]] = a.entries[row];
}

__global__ void set_rows_kernel(const SetRows a) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= a.count) return;
  a.tokens[a.rows[i]] = a.new_tokens[i];
  a.scores[a.rows[i]] = a.new_scores[i];
}

__global__ void set_table_kernel(const SetTable a) {
  const int64_t i = blockIdx.x;
  for (int64_t column = threadIdx.x; column < a.columns; column += kThreads) {
    a.table[a.rows[i] * a.table_stride + column] = a.entries[i * a.columns + column];
  }
}

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
unsigned blocks_for(int64_t items) {
  return static_cast<unsigned>((items + kThreads - 1) / kThreads);
}

}  // namespace

void advance_beams(Stream stream, const AdvanceBeams& args) {
  if (args.groups == 0) return;
  const int64_t bytes = args.width * int64_t{sizeof(double) + 2 * sizeof(int32_t)};
  launch(stream, advance_kernel, dim3(static_cast<unsigned>(args.groups)), kThreads,
         static_cast<int>(bytes), args);
}

void extend_table(Stream stream, const ExtendTable& args) {
  if (args.rows == 0) return;
  extend_kernel<<<blocks_for(args.rows), kThreads, 0, of(stream)>>>(args);
}

void set_rows(Stream stream, const SetRows& args) {
  if (args.count == 0) return;
  set_rows_kernel<<<blocks_for(args.count), kThreads, 0, of(stream)>>>(args);
}

void set_table(Stream stream, const SetTable& args) {
  if (args.count == 0 || args.columns == 0) return;
  set_table_kernel<<<static_cast<unsigned>(args.count), kThreads, 0, of(stream)>>>(args);
}

}  // namespace tril::kernels::cuda
