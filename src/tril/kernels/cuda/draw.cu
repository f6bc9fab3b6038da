#include <cuda_runtime.h>

#include <cstdint>

#include "tril/base/rng.h"
#include "tril/kernels/cuda/draw.h"
#include "tril/kernels/cuda/launch.cuh"
#include "tril/kernels/cuda/rows.h"

namespace tril::kernels::cuda {
namespace {

constexpr int kDrawThreads = 1024;
constexpr int kDrawLanes = 32;
constexpr int kDrawWarps = kDrawThreads / kDrawLanes;
constexpr int kBuckets = 256;  // a digit of a key
constexpr unsigned kEveryLane = ~0u;

// 2^y for -64 <= y <= 0: Taylor's series of e^(f ln 2) in Horner's order, f = y - floor(y). At y =
// 0 it is exactly 1. The error is below 2^-45, so a weight is off by at most one.
__device__ double power_of_two(double y) {
  const double whole = floor(y);
  const double x = (y - whole) * 0.693147180559945309417;
  double sum = 1.0;
#pragma unroll
  for (int n = 16; n >= 1; --n) sum = __fma_rn(sum, x * (1.0 / n), 1.0);
  return ldexp(sum, static_cast<int>(whole));
}

// A row of log-probabilities, and which of its tokens may be drawn.
struct Row {
  const float* logits;
  const uint32_t* allowed;
  float norm;
  float largest;
  double temperature;
  int vocab;

  // -inf for tokens that may not be drawn.
  __device__ float log_prob(int token) const {
    const float value = logits[token] - norm;
    const bool is_allowed = (allowed[token / 32] >> (token % 32) & 1u) != 0;
    return is_allowed && value > -INFINITY ? value : -INFINITY;
  }
  __device__ uint64_t weight(float log_prob) const {
    const double y = (static_cast<double>(log_prob) - static_cast<double>(largest)) / temperature *
                     1.44269504088896340736;
    if (!(y >= -64.0)) return 0;
    return static_cast<uint64_t>(ldexp(power_of_two(y), 40));
  }
  // Larger for tokens that rank higher: by log p, then by lower token. 0 for tokens that may not be
  // drawn.
  __device__ static uint64_t key(float log_prob, int token) {
    if (log_prob == -INFINITY) return 0;
    const uint32_t bits = __float_as_uint(log_prob);
    const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(ordered) << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(token));
  }
};

__device__ float largest_of_block(float mine) {
  __shared__ float by_warp[kDrawWarps];
  for (int distance = kDrawLanes / 2; distance > 0; distance /= 2) {
    mine = fmaxf(mine, __shfl_xor_sync(kEveryLane, mine, distance));
  }
  if (threadIdx.x % kDrawLanes == 0) by_warp[threadIdx.x / kDrawLanes] = mine;
  __syncthreads();
  float largest = by_warp[0];
  for (int warp = 1; warp < kDrawWarps; ++warp) largest = fmaxf(largest, by_warp[warp]);
  __syncthreads();
  return largest;
}

// The smallest key such that the keys from it on reach a goal: amounts(log_prob) of the tokens are
// added, and reached(sum) says whether they do. Keys below `least` do not count. Works digit by
// digit from the top: for each, how much lies in every bucket of the keys that agree with the
// digits found so far.
template <class Amount, class Reached>
__device__ uint64_t least_key_reaching(const Row& row, uint64_t least, const Amount& amount,
                                       const Reached& reached) {
  __shared__ unsigned long long amounts[kBuckets];
  __shared__ unsigned int counts[kBuckets];
  __shared__ unsigned long long above_shared;
  __shared__ uint64_t prefix_shared;
  __shared__ bool found;
  if (threadIdx.x == 0) {
    above_shared = 0;
    prefix_shared = 0;
    found = false;
  }
  for (int shift = 56; shift >= 0; shift -= 8) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kDrawThreads) {
      amounts[i] = 0;
      counts[i] = 0;
    }
    __syncthreads();
    const uint64_t prefix = prefix_shared;
    for (int token = static_cast<int>(threadIdx.x); token < row.vocab; token += kDrawThreads) {
      const float log_prob = row.log_prob(token);
      const uint64_t key = Row::key(log_prob, token);
      if (key == 0 || key < least) continue;
      if (shift < 56 && key >> (shift + 8) != prefix >> (shift + 8)) continue;
      const int bucket = static_cast<int>(key >> shift & (kBuckets - 1));
      atomicAdd(&amounts[bucket], static_cast<unsigned long long>(amount(log_prob)));
      atomicAdd(&counts[bucket], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned long long above = above_shared;
      int bucket = kBuckets - 1;
      while (bucket > 0 && !reached(above + amounts[bucket])) above += amounts[bucket--];
      above_shared = above;
      prefix_shared = prefix | static_cast<uint64_t>(bucket) << shift;
      found = counts[bucket] <= 1;  // the bucket's only key, or none is left below
    }
    __syncthreads();
    if (found) break;
  }
  __syncthreads();
  const uint64_t key = prefix_shared;
  __syncthreads();
  return key > least ? key : least;
}

__device__ uint64_t sum_of_warp(uint64_t mine) {
  for (int distance = kDrawLanes / 2; distance > 0; distance /= 2) {
    mine += __shfl_xor_sync(kEveryLane, static_cast<unsigned long long>(mine), distance);
  }
  return mine;
}

// Weights by warp: each warp has consecutive tokens, in ascending order of warps.
struct Stretches {
  uint64_t before[kDrawWarps];  // all weights of earlier warps
  uint64_t of[kDrawWarps];
  uint64_t total;
};
__device__ int stretch_begin(const Row& row, int warp) {
  const int per_warp = (row.vocab + kDrawWarps - 1) / kDrawWarps;
  return min(row.vocab, warp * per_warp);
}
__device__ void weigh(const Row& row, uint64_t least, Stretches& to) {
  const int warp = static_cast<int>(threadIdx.x) / kDrawLanes;
  const int lane = static_cast<int>(threadIdx.x) % kDrawLanes;
  uint64_t sum = 0;
  for (int token = stretch_begin(row, warp) + lane; token < stretch_begin(row, warp + 1);
       token += kDrawLanes) {
    const float log_prob = row.log_prob(token);
    const uint64_t key = Row::key(log_prob, token);
    if (key != 0 && key >= least) sum += row.weight(log_prob);
  }
  sum = sum_of_warp(sum);
  __syncthreads();  // earlier results have been read
  if (lane == 0) to.of[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint64_t before = 0;
    for (int w = 0; w < kDrawWarps; ++w) {
      to.before[w] = before;
      before += to.of[w];
    }
    to.total = before;
  }
  __syncthreads();
}

// The first token at which the sum of weights exceeds `goal`; by the warp that has it.
__device__ int token_at(const Row& row, uint64_t least, int warp, uint64_t goal) {
  const int lane = static_cast<int>(threadIdx.x) % kDrawLanes;
  const int end = stretch_begin(row, warp + 1);
  uint64_t before = 0;
  for (int first = stretch_begin(row, warp); first < end; first += kDrawLanes) {
    const int token = first + lane;
    uint64_t weight = 0;
    if (token < end) {
      const float log_prob = row.log_prob(token);
      const uint64_t key = Row::key(log_prob, token);
      if (key != 0 && key >= least) weight = row.weight(log_prob);
    }
    uint64_t sum = weight;  // of this lane and those before it
    for (int distance = 1; distance < kDrawLanes; distance *= 2) {
      const uint64_t other =
          __shfl_up_sync(kEveryLane, static_cast<unsigned long long>(sum), distance);
      if (lane >= distance) sum += other;
    }
    const unsigned beyond = __ballot_sync(kEveryLane, before + sum > goal);
    if (beyond != 0) return first + __ffs(static_cast<int>(beyond)) - 1;
    before += __shfl_sync(kEveryLane, static_cast<unsigned long long>(sum), kDrawLanes - 1);
  }
  return end - 1;  // unreachable: the goal is below the warp's sum
}

__device__ uint64_t random_bits(const TokenDraw& draw) {
  const Words4 words =
      philox(draw.seed, {static_cast<uint32_t>(draw.stream),
                         static_cast<uint32_t>(draw.stream >> 32), draw.sample, draw.position});
  return static_cast<uint64_t>(words[0]) << 32 | words[1];
}

// A block per draw.
__global__ void __launch_bounds__(kDrawThreads) draw_kernel(const DrawTokens a) {
  __shared__ Stretches stretches;
  const TokenDraw draw = a.draws[blockIdx.x];
  if (draw.row < 0) return;
  Row row{a.logits + draw.row * a.stride,
          a.sets == nullptr ? a.allowed : a.allowed + a.sets[draw.row] * a.set_words,
          a.norms[draw.row],
          -INFINITY,
          draw.temperature,
          static_cast<int>(a.vocab)};
  int32_t* const tokens = a.tokens + draw.row * a.choices;
  float* const log_probs = a.log_probs + draw.row * a.choices;
  for (int64_t i = threadIdx.x; i < a.choices; i += kDrawThreads) {
    tokens[i] = -1;
    log_probs[i] = -INFINITY;
  }
  float largest = -INFINITY;
  for (int token = static_cast<int>(threadIdx.x); token < row.vocab; token += kDrawThreads) {
    largest = fmaxf(largest, row.log_prob(token));
  }
  row.largest = largest_of_block(largest);
  if (row.largest == -INFINITY) return;  // nothing may be drawn
  uint64_t least = 0;
  if (draw.top_k > 0 && draw.top_k < row.vocab) {
    const auto wanted = static_cast<unsigned long long>(draw.top_k);
    least = least_key_reaching(
        row, least, [](float) { return 1; },
        [wanted](unsigned long long sum) { return sum >= wanted; });
  }
  if (draw.top_p < 1.0) {
    weigh(row, least, stretches);
    const double goal = draw.top_p * static_cast<double>(stretches.total);
    least = least_key_reaching(
        row, least, [&row](float log_prob) { return row.weight(log_prob); },
        [goal](unsigned long long sum) { return static_cast<double>(sum) >= goal; });
  }
  weigh(row, least, stretches);
  const uint64_t goal = __umul64hi(random_bits(draw), stretches.total);
  const int warp = static_cast<int>(threadIdx.x) / kDrawLanes;
  if (goal < stretches.before[warp] || goal >= stretches.before[warp] + stretches.of[warp]) return;
  const int token = token_at(row, least, warp, goal - stretches.before[warp]);
  if (threadIdx.x % kDrawLanes != 0) return;
  tokens[0] = token;
  log_probs[0] = row.log_prob(token);
}

}  // namespace

void draw_tokens(Stream stream, const DrawTokens& args) {
  if (args.count == 0) return;
  softmax_normalisers(stream, {args.logits, args.rows, args.vocab, args.stride, args.norms});
  draw_kernel<<<static_cast<unsigned>(args.count), kDrawThreads, 0,
                static_cast<cudaStream_t>(stream.handle)>>>(args);
}

}  // namespace tril::kernels::cuda
