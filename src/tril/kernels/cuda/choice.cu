#include <cuda_runtime.h>

#include <cstdint>

#include "tril/kernels/cuda/choice.h"

namespace tril::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = static_cast<int>(kChoicePart) / kThreads;  // tokens a thread holds
constexpr int kNoToken = INT32_MAX;

// No token: worse than every other.
struct Candidate {
  float log_prob = -INFINITY;
  int32_t token = kNoToken;
};

__device__ bool better(const Candidate& a, const Candidate& b) {
  return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.token < b.token;
}

// The best of the block's candidates, for every thread. An order that is total, so that any order
// of comparisons gives the same.
__device__ Candidate best_of_block(Candidate mine) {
  __shared__ Candidate by_warp[kThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    const Candidate other{__shfl_xor_sync(~0u, mine.log_prob, distance),
                          __shfl_xor_sync(~0u, mine.token, distance)};
    if (better(other, mine)) mine = other;
  }
  __syncthreads();  // who came before has read
  if (threadIdx.x % 32 == 0) by_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  Candidate best = by_warp[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    if (better(by_warp[warp], best)) best = by_warp[warp];
  }
  return best;
}

// Draws the best `count` of what the threads hold, best first: candidate(i) for i in [0, each).
template <int each, class Put>
__device__ void draw_best(Candidate (&held)[each], int64_t count, const Put& put) {
  Candidate last{INFINITY, -1};
  for (int64_t n = 0; n < count; ++n) {
    Candidate mine;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (better(last, held[i]) && better(held[i], mine)) mine = held[i];
    }
    last = best_of_block(mine);
    if (threadIdx.x == 0) put(n, last);
  }
}

__global__ void choose_in_parts(ChooseTokens args, int64_t parts, Candidate* found) {
  const int64_t row = blockIdx.y;
  const int64_t part = blockIdx.x;
  const float* logits = args.logits + row * args.vocab;
  const float norm = args.norms[row];
  Candidate held[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int64_t token = part * kChoicePart + i * kThreads + threadIdx.x;
    if (token >= args.vocab) continue;
    const float log_prob = logits[token] - norm;
    const bool allowed = (args.allowed[token / 32] >> (token % 32) & 1u) != 0;
    if (allowed && log_prob > -INFINITY) held[i] = {log_prob, static_cast<int32_t>(token)};
  }
  Candidate* to = found + (row * parts + part) * args.count;
  draw_best(held, args.count, [&](int64_t n, const Candidate& best) { to[n] = best; });
  if (part == 0 && threadIdx.x == 0) {
    const int32_t wanted = args.wanted == nullptr ? -1 : args.wanted[row];
    if (wanted >= 0) args.wanted_log_probs[row] = logits[wanted] - norm;
  }
}

__global__ void merge_parts(ChooseTokens args, int64_t parts, const Candidate* found) {
  const int64_t row = blockIdx.x;
  const Candidate* from = found + row * parts * args.count;
  const int64_t candidates = parts * args.count;
  Candidate last{INFINITY, -1};
  for (int64_t n = 0; n < args.count; ++n) {
    Candidate mine;
    for (int64_t i = threadIdx.x; i < candidates; i += kThreads) {
      const Candidate other = from[i];
      if (better(last, other) && better(other, mine)) mine = other;
    }
    last = best_of_block(mine);
    if (threadIdx.x == 0) {
      args.tokens[row * args.count + n] = last.token == kNoToken ? -1 : last.token;
      args.log_probs[row * args.count + n] = last.log_prob;
    }
  }
}

int64_t parts_of(int64_t vocab) { return (vocab + kChoicePart - 1) / kChoicePart; }

}  // namespace

int64_t choose_tokens_workspace(int64_t rows, int64_t vocab, int64_t count) {
  return rows * parts_of(vocab) * count * static_cast<int64_t>(sizeof(Candidate));
}

void choose_tokens(Stream stream, const ChooseTokens& args) {
  if (args.rows == 0) return;
  const auto handle = static_cast<cudaStream_t>(stream.handle);
  const int64_t parts = parts_of(args.vocab);
  auto* found = static_cast<Candidate*>(args.workspace);
  const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(args.rows));
  choose_in_parts<<<grid, kThreads, 0, handle>>>(args, parts, found);
  merge_parts<<<static_cast<unsigned>(args.rows), kThreads, 0, handle>>>(args, parts, found);
}

}  // namespace tril::kernels::cuda
