#include <cuda_runtime.h>

#include <cstdint>

#include "tril/kernels/cuda/beam.h"
#include "tril/kernels/cuda/best.cuh"
#include "tril/kernels/cuda/launch.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kBeamThreads = 128;
constexpr int kCells = 4096;  // of the table, rearranged at a time

// A continuation ranked by its score. Its number is row * count + place, which also orders equal
// scores.
using Candidate = Ranked<double>;

// The state of the next step, while the current one is still being read.
struct Next {
  double* scores;
  int32_t* tokens;
  int32_t* parents;
};

// Returns the number of alive hypotheses.
__device__ int choose_next(const AdvanceBeams& a, const BeamGroup& group, const Next& next) {
  const int width = group.width;
  const int stride = static_cast<int>(a.count);
  const int count = min(stride, 2 * width);  // more of a row are never considered
  const int32_t* choices = a.choices + int64_t{group.first_row} * stride;
  const float* log_probs = a.log_probs + int64_t{group.first_row} * stride;
  const double* scores = a.scores + group.first_row;
  Candidate last{INFINITY, -1};
  int alive = 0;
  for (int looked_at = 0; looked_at < 2 * width && alive < width; ++looked_at) {
    Candidate mine;
    for (int number = static_cast<int>(threadIdx.x); number < width * count;
         number += kBeamThreads) {
      const double before = scores[number / count];
      const int at = number / count * stride + number % count;
      if (choices[at] < 0 || before == -INFINITY) continue;
      const Candidate other{before + static_cast<double>(log_probs[at]), number};
      if (better(last, other) && better(other, mine)) mine = other;
    }
    last = best_of_block<kBeamThreads>(mine);
    if (last.number == Candidate::kNone) break;
    const int32_t token = choices[last.number / count * stride + last.number % count];
    if (token == group.end) continue;
    if (threadIdx.x == 0) {
      next.scores[alive] = last.value;
      next.tokens[alive] = token;
      next.parents[alive] = last.number / count;
    }
    ++alive;
  }
  return alive;
}

// Row i of the group becomes what row parents[i] was, some columns at a time.
__device__ void turn_table(const AdvanceBeams& a, const BeamGroup& group, int alive,
                           const int32_t* parents, int32_t* cells) {
  const int columns = max(1, kCells / group.width);
  const int length = a.positions[group.first_row] + 1;
  int32_t* table = a.table + group.first_row * a.table_stride;
  for (int begin = 0; begin < length; begin += columns) {
    const int some = min(columns, length - begin);
    for (int i = static_cast<int>(threadIdx.x); i < alive * some; i += kBeamThreads) {
      cells[i] = table[parents[i / some] * a.table_stride + begin + i % some];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < alive * some; i += kBeamThreads) {
      table[i / some * a.table_stride + begin + i % some] = cells[i];
    }
    __syncthreads();
  }
}

// Delivers the group's candidates to the host.
__device__ void deliver(const AdvanceBeams& a, const BeamGroup& group) {
  if (a.deliver_to == nullptr) return;
  auto* const choices = static_cast<int32_t*>(*a.deliver_to);
  auto* const log_probs = reinterpret_cast<float*>(choices + a.rows * a.count);
  const int64_t first = group.first_row * a.count;
  for (int64_t i = first + threadIdx.x; i < first + group.width * a.count; i += kBeamThreads) {
    choices[i] = a.choices[i];
    log_probs[i] = a.log_probs[i];
  }
}

__global__ void advance_kernel(const AdvanceBeams a) {
  __shared__ int32_t cells[kCells];
  extern __shared__ double beams_memory[];
  let_next_begin();
  const BeamGroup group = a.list[blockIdx.x];  // uploaded: present before the chain begins
  wait_for_earlier();
  if (group.width == 0) return;
  deliver(a, group);
  const int width = group.width;
  auto* tokens = reinterpret_cast<int32_t*>(beams_memory + width);
  const Next next{beams_memory, tokens, tokens + width};
  const int alive = choose_next(a, group, next);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kBeamThreads) {
    a.scores[group.first_row + i] = i < alive ? next.scores[i] : -INFINITY;
    a.tokens[group.first_row + i] = i < alive ? next.tokens[i] : 0;
  }
  if (width > 1) turn_table(a, group, alive, next.parents, cells);
}

__global__ void extend_kernel(const ExtendTable a) {
  const int64_t row = blockIdx.x * int64_t{kBeamThreads} + threadIdx.x;
  if (row >= a.rows || a.entries[row] < 0) return;
  a.table[row * a.table_stride + a.positions[row]] = a.entries[row];
}

__global__ void set_rows_kernel(const SetRows a) {
  const int64_t i = blockIdx.x * int64_t{kBeamThreads} + threadIdx.x;
  if (i >= a.count) return;
  const BeginningRow begins = a.list[i];
  double score = begins.length < 0 ? -INFINITY : 0.0;
  for (int32_t k = 0; k < begins.length; ++k) {
    score += static_cast<double>(a.prefix_log_probs[begins.first + k]);
  }
  a.tokens[begins.row] = begins.token;
  a.scores[begins.row] = score == score ? score : -INFINITY;
}

__global__ void set_table_kernel(const SetTable a) {
  const int64_t i = blockIdx.x;
  for (int64_t column = threadIdx.x; column < a.columns; column += kBeamThreads) {
    a.table[a.rows[i] * a.table_stride + column] = a.entries[i * a.columns + column];
  }
}

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
unsigned blocks_of_rows(int64_t items) {
  return static_cast<unsigned>((items + kBeamThreads - 1) / kBeamThreads);
}

}  // namespace

void advance_beams(Stream stream, const AdvanceBeams& args) {
  if (args.groups == 0) return;
  const int64_t bytes = args.most_width * int64_t{sizeof(double) + 2 * sizeof(int32_t)};
  launch(stream, advance_kernel, dim3(static_cast<unsigned>(args.groups)), kBeamThreads,
         static_cast<int>(bytes), args);
}

void extend_table(Stream stream, const ExtendTable& args) {
  if (args.rows == 0) return;
  extend_kernel<<<blocks_of_rows(args.rows), kBeamThreads, 0, of(stream)>>>(args);
}

void set_rows(Stream stream, const SetRows& args) {
  if (args.count == 0) return;
  set_rows_kernel<<<blocks_of_rows(args.count), kBeamThreads, 0, of(stream)>>>(args);
}

void set_table(Stream stream, const SetTable& args) {
  if (args.count == 0 || args.columns == 0) return;
  set_table_kernel<<<static_cast<unsigned>(args.count), kBeamThreads, 0, of(stream)>>>(args);
}

}  // namespace tril::kernels::cuda
