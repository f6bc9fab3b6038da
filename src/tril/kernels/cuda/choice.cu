#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "tril/kernels/cuda/best.cuh"
#include "tril/kernels/cuda/choice.h"
#include "tril/kernels/cuda/launch.cuh"
#include "tril/kernels/cuda/rows.h"
#include "tril/kernels/cuda/softmax_sums.cuh"

namespace tril::kernels::cuda {
namespace {

using Candidate = Ranked<float>;  // a token by its logit, or by its log-probability

// Draws the best `count` of what the threads hold, best first, one after the other: held(f) calls f
// with each candidate of this thread. Slow, but for any number and any ties.
template <int kThreads, class Held, class Put>
__device__ void draw_best(int64_t count, const Held& held, const Put& put) {
  Candidate last{INFINITY, -1};
  for (int64_t n = 0; n < count; ++n) {
    Candidate mine;
    held([&](const Candidate& each) {
      if (better(last, each) && better(each, mine)) mine = each;
    });
    last = best_of_block<kThreads>(mine);
    if (threadIdx.x == 0) put(n, last);
  }
}

__device__ void put_choice(const ChooseTokens& args, int64_t row, int64_t n, const Candidate& c) {
  args.tokens[row * args.count + n] = c.number == Candidate::kNone ? -1 : c.number;
  args.log_probs[row * args.count + n] = c.value;
}
__device__ void put_wanted(const ChooseTokens& args, int64_t row, float norm) {
  const int32_t wanted = args.wanted == nullptr ? -1 : args.wanted[row];
  if (wanted < 0) return;
  args.wanted_log_probs[row] = args.logits[row * args.stride + wanted] - norm;
}
__device__ Candidate candidate_at(const ChooseTokens& args, const float* logits, float norm,
                                  int64_t token) {
  const float log_prob = logits[token] - norm;
  const bool allowed = (args.allowed[token / 32] >> (token % 32) & 1u) != 0;
  if (!allowed || !(log_prob > -INFINITY)) return {};
  return {log_prob, static_cast<int32_t>(token)};
}

// ---- a few of a row that is read once -----------------------------------------------------------
// The 1,024 threads that share a row (softmax_sums.cuh) are eight blocks. A block hands on the sums
// of its warps and its kept = count + 1 best logits: of equal log-probabilities one more than is
// needed tells whether others could be among the best.
constexpr int kPartThreads = 128;
constexpr int kPartWarps = kPartThreads / kWarp;
constexpr int kParts = kSoftmaxThreads / kPartThreads;
constexpr int kMostKept = 17;
constexpr int kListed = kPartThreads;
// A block holds its part of the row in shared memory.
constexpr int kPartStep = kSoftmaxThreads * kPack;  // places from a thread's pack to its next
// Of a pack of all threads: itself, the largest of it that may be chosen, and a bit for each that
// says whether it may.
constexpr int kPackBytes = kPartThreads * ((kPack + 1) * int{sizeof(float)} + kPack / 8);
constexpr uint32_t kAllAllowed = (1u << kPack) - 1u;
constexpr int kMostHeldBytes = 96 << 10;
constexpr int64_t kMostScanned = int64_t{kMostHeldBytes / kPackBytes} * kPartStep;

struct Scanned {
  Sums* sums = nullptr;             // [rows, kSoftmaxWarps]
  Candidate* candidates = nullptr;  // [rows, kParts, kept]: best first
  int kept = 0;
};

// Numbers that are ordered as floats are, but that -0 is below 0.
__device__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ float from_ordered(uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key & 0x7FFFFFFFu : ~key);
}

// What at least `kept` of the block's numbers reach, if there are so many: the kept-th of a warp's
// largest, of the warp for which that is most.
__device__ float reached_by(float largest, int kept) {
  __shared__ float by_warp[kPartWarps];
  uint32_t mine = ordered(largest);
  uint32_t most = 0;
#pragma unroll 1
  for (int n = 0; n < kept; ++n) {
    most = __reduce_max_sync(kAllLanes, mine);
    const unsigned there = __ballot_sync(kAllLanes, mine == most);
    if (lane_of_thread() == __ffs(static_cast<int>(there)) - 1) mine = ordered(-INFINITY);
  }
  if (lane_of_thread() == 0) by_warp[threadIdx.x / kWarp] = from_ordered(most);
  __syncthreads();
  float reached = by_warp[0];
#pragma unroll
  for (int warp = 1; warp < kPartWarps; ++warp) reached = fmaxf(reached, by_warp[warp]);
  return reached;
}

// Each of the list goes to its place: as many as are better are before it.
template <class Put>
__device__ void put_by_rank(const Candidate* list, int size, int kept, const Put& put) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kPartThreads) {
    const Candidate mine = list[i];
    if (mine.number == Candidate::kNone) continue;
    int rank = 0;
#pragma unroll 2
    for (int other = 0; other < size; ++other) rank += better(list[other], mine) ? 1 : 0;
    if (rank < kept) put(rank, mine);
  }
}

// The packs of one of the threads that share a row: brought into shared memory, where this thread
// alone reads them. Nothing is unrolled: code has to come from memory, too.
class RowPacks {
 public:
  __device__ RowPacks(int64_t vocab, int member, unsigned char* memory)
      : vocab_(static_cast<int>(vocab)), first_(member * kPack) {
    const int count = (vocab_ + kPartStep - 1) / kPartStep;
    auto* const packs = reinterpret_cast<float4*>(memory);
    auto* const largest = reinterpret_cast<float*>(packs + 2 * count * kPartThreads);
    packs_ = packs + threadIdx.x;
    largest_ = largest + threadIdx.x;
    bits_ = reinterpret_cast<unsigned char*>(largest + count * kPartThreads) + threadIdx.x;
  }
  __device__ bool has(int number) const { return place(number) < vocab_; }
  __device__ int size(int number) const { return min(vocab_ - place(number), kPack); }
  __device__ void bring_allowed(const uint32_t* allowed) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(allowed);
#pragma unroll 4
    for (int number = 0; has(number); ++number) {
      const uint32_t there = (1u << size(number)) - 1u;
      bits_[number * kPartThreads] = static_cast<unsigned char>(bytes[place(number) / 8] & there);
    }
  }
  __device__ void bring_logits(const float* logits, Access access) {
    int number = 0;
    if (access == Access::vector) {
#pragma unroll 4  // a copy holds on to its registers
      for (; place(number) + kPack <= vocab_; ++number) {
        copy_16(low(number), logits + place(number));
        copy_16(high(number), logits + place(number) + kPack / 2);
      }
    }
#pragma unroll 1
    for (; has(number); ++number) {
      const Pack pack = load(logits + place(number), size(number), Access::scalar);
      const StoredPack<float> as_stored = stored<float>(pack);
      *low(number) = as_stored.low;
      *high(number) = as_stored.high;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  __device__ Pack at(int number) const {
    return widened(StoredPack<float>{*low(number), *high(number)});
  }
  __device__ uint32_t allowed(int number) const { return bits_[number * kPartThreads]; }
  __device__ void keep_largest(int number, float x) { largest_[number * kPartThreads] = x; }
  // f with each that may be chosen and is `least` or more.
  template <class F>
  __device__ void each_from(float least, const F& f) const {
#pragma unroll 1
    for (int number = 0; has(number); ++number) {
      const float largest = largest_[number * kPartThreads];
      if (!(largest >= least && largest > -INFINITY)) continue;
      const Pack x = at(number);
      uint32_t bits = 0;
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        bits |= x.at[e] >= least && x.at[e] > -INFINITY ? 1u << e : 0u;
      }
      for (bits &= allowed(number); bits != 0; bits &= bits - 1) {
        const int e = __ffs(static_cast<int>(bits)) - 1;
        const float4* half = e < kPack / 2 ? low(number) : high(number);
        f(Candidate{reinterpret_cast<const float*>(half)[e % (kPack / 2)], place(number) + e});
      }
    }
  }

 private:
  __device__ int place(int number) const { return first_ + number * kPartStep; }
  // Halves of a pack lie apart, so that neighbours read from different banks.
  __device__ float4* low(int number) const { return packs_ + 2 * number * kPartThreads; }
  __device__ float4* high(int number) const { return low(number) + kPartThreads; }
  __device__ static void copy_16(float4* to, const float* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
  }

  int vocab_;
  int first_;
  float4* packs_;
  float* largest_;
  unsigned char* bits_;
};

// The largest of a pack that may be chosen.
__device__ float largest_allowed(const Pack& x, uint32_t allowed) {
  float largest = -INFINITY;
#pragma unroll
  for (int e = 0; e < kPack; ++e) {
    largest = fmaxf(largest, (allowed >> e & 1u) != 0 ? x.at[e] : -INFINITY);
  }
  return largest;
}

// The kept best of a block, one after the other: where so many are equal that no list holds them.
__device__ __noinline__ void draw_kept(const RowPacks& packs, int kept, Candidate* found) {
  draw_best<kPartThreads>(
      kept, [&](const auto& f) { packs.each_from(-INFINITY, f); },
      [&](int64_t n, const Candidate& c) { found[n] = c; });
}

__global__ void __launch_bounds__(kPartThreads)
    scan_kernel(ChooseTokens args, Access access, Scanned to) {
  extern __shared__ __align__(16) unsigned char held[];
  __shared__ Candidate list[kListed];
  __shared__ int listed;
  let_next_begin();
  const int64_t row = blockIdx.x / kParts;
  const int part = static_cast<int>(blockIdx.x) % kParts;
  RowPacks packs(args.vocab, part * kPartThreads + static_cast<int>(threadIdx.x), held);
  packs.bring_allowed(args.allowed);
  if (threadIdx.x == 0) listed = 0;
  wait_for_earlier();
  packs.bring_logits(args.logits + row * args.stride, access);
  Sums sums{-INFINITY, 0.0f, 0.0f};
  float largest = -INFINITY;
#pragma unroll 1
  for (int number = 0; packs.has(number); ++number) {
    const Pack x = packs.at(number);
    const float top = largest_of(x);
    const uint32_t allowed = packs.allowed(number);
    const float choosable = allowed == kAllAllowed ? top : largest_allowed(x, allowed);
    packs.keep_largest(number, choosable);
    largest = fmaxf(largest, choosable);
    add_pack(x, packs.size(number), top, sums);
  }
  sums = joined_in_warp(sums);
  if (lane_of_thread() == 0) {
    to.sums[row * kSoftmaxWarps + part * kPartWarps + threadIdx.x / kWarp] = sums;
  }
  Candidate* const found = to.candidates + (row * kParts + part) * to.kept;
  const float reached = reached_by(largest, to.kept);
  if (largest >= reached) {
    packs.each_from(reached, [&](const Candidate& each) {
      const int at = atomicAdd(&listed, 1);  // the order is of no account
      if (at < kListed) list[at] = each;
    });
  }
  if (static_cast<int>(threadIdx.x) < to.kept) found[threadIdx.x] = Candidate();
  __syncthreads();
  if (listed <= kListed) {
    put_by_rank(list, listed, to.kept, [&](int rank, const Candidate& c) { found[rank] = c; });
  } else {
    draw_kept(packs, to.kept, found);
  }
}

// The best of a row by what it is, one after the other: where log-probabilities are equal that
// logits were not, and a part may not have kept enough.
__device__ __noinline__ void draw_choices(const ChooseTokens& args, int64_t row, float norm) {
  const float* logits = args.logits + row * args.stride;
  draw_best<kPartThreads>(
      args.count,
      [&](const auto& f) {
        for (int64_t token = threadIdx.x; token < args.vocab; token += kPartThreads) {
          f(candidate_at(args, logits, norm, token));
        }
      },
      [&](int64_t n, const Candidate& c) { put_choice(args, row, n, c); });
}

__global__ void __launch_bounds__(kPartThreads) decide_kernel(ChooseTokens args, Scanned from) {
  __shared__ Candidate list[kParts * kMostKept];
  __shared__ float norm_of_row;
  __shared__ float last;  // log p at the last place
  let_next_begin();
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  const int size = kParts * from.kept;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kWarp) {
    const Sums sums = joined_in_warp(from.sums[row * kSoftmaxWarps + thread]);
    if (thread == 0) norm_of_row = normaliser(sums);
  }
#pragma unroll 1
  for (int i = thread; i < size; i += kPartThreads) list[i] = from.candidates[row * size + i];
  if (thread == 0) last = -INFINITY;
  __syncthreads();
  const float norm = norm_of_row;
#pragma unroll 1
  for (int i = thread; i < size; i += kPartThreads) {
    const float log_prob = list[i].value - norm;
    list[i] = log_prob > -INFINITY ? Candidate{log_prob, list[i].number} : Candidate();
  }
#pragma unroll 1
  for (int64_t n = thread; n < args.count; n += kPartThreads) put_choice(args, row, n, {});
  if (thread == 0) put_wanted(args, row, norm);
  __syncthreads();
  put_by_rank(list, size, static_cast<int>(args.count), [&](int rank, const Candidate& c) {
    put_choice(args, row, rank, c);
    if (rank == args.count - 1) last = c.value;
  });
  __syncthreads();
  // What a part did not keep is no better than the last it kept: one of the best only if that one's
  // log p is not below all of theirs.
  bool open = false;
  if (thread < kParts) {
    const Candidate& kept_last = list[(thread + 1) * from.kept - 1];
    open = kept_last.number != Candidate::kNone && kept_last.value >= last;
  }
  if (__syncthreads_or(open)) draw_choices(args, row, norm);
}

// ---- many, or of very many ----------------------------------------------------------------------
constexpr int kDrawThreads = 256;
constexpr int kDrawn = 16;  // tokens a thread holds
constexpr int64_t kDrawPart = int64_t{kDrawThreads} * kDrawn;

__global__ void __launch_bounds__(kDrawThreads)
    draw_parts_kernel(ChooseTokens args, const float* norms, int64_t parts, Candidate* found) {
  const int64_t row = blockIdx.y;
  const int64_t part = blockIdx.x;
  const float* logits = args.logits + row * args.stride;
  const float norm = norms[row];
  Candidate held[kDrawn];
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) {
    const int64_t token = part * kDrawPart + i * kDrawThreads + threadIdx.x;
    if (token < args.vocab) held[i] = candidate_at(args, logits, norm, token);
  }
  Candidate* to = found + (row * parts + part) * args.count;
  draw_best<kDrawThreads>(
      args.count,
      [&](const auto& f) {
#pragma unroll
        for (const Candidate& each : held) f(each);
      },
      [&](int64_t n, const Candidate& best) { to[n] = best; });
  if (part == 0 && threadIdx.x == 0) put_wanted(args, row, norm);
}

__global__ void __launch_bounds__(kDrawThreads)
    merge_parts_kernel(ChooseTokens args, int64_t parts, const Candidate* found) {
  const int64_t row = blockIdx.x;
  const int64_t candidates = parts * args.count;
  const Candidate* from = found + row * candidates;
  draw_best<kDrawThreads>(
      args.count,
      [&](const auto& f) {
        for (int64_t i = threadIdx.x; i < candidates; i += kDrawThreads) f(from[i]);
      },
      [&](int64_t n, const Candidate& best) { put_choice(args, row, n, best); });
}

bool is_scanned(int64_t vocab, int64_t count) {
  return vocab <= kMostScanned && count + 1 <= kMostKept;
}
int64_t draw_parts(int64_t vocab) { return (vocab + kDrawPart - 1) / kDrawPart; }

void scan(Stream stream, const ChooseTokens& args) {
  auto* sums = static_cast<Sums*>(args.workspace);
  const Scanned scanned{sums, reinterpret_cast<Candidate*>(sums + args.rows * kSoftmaxWarps),
                        static_cast<int>(args.count + 1)};
  static const bool allowed =
      cudaFuncSetAttribute(scan_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kMostHeldBytes) == cudaSuccess;
  static_cast<void>(allowed);  // else the launch fails, and says so
  const int64_t packs = (args.vocab + kPartStep - 1) / kPartStep;
  launch(stream, scan_kernel, dim3(static_cast<unsigned>(args.rows * kParts)), kPartThreads,
         static_cast<int>(packs) * kPackBytes, args, access_of(args.stride, args.logits), scanned);
  launch(stream, decide_kernel, dim3(static_cast<unsigned>(args.rows)), kPartThreads, 0, args,
         scanned);
}

void draw(Stream stream, const ChooseTokens& args) {
  const auto handle = handle_of(stream);
  const int64_t parts = draw_parts(args.vocab);
  auto* norms = static_cast<float*>(args.workspace);
  auto* found = reinterpret_cast<Candidate*>(norms + (args.rows + 1) / 2 * 2);
  softmax_normalisers(stream, args.logits, args.rows, args.vocab, args.stride, norms);
  const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(args.rows));
  draw_parts_kernel<<<grid, kDrawThreads, 0, handle>>>(args, norms, parts, found);
  merge_parts_kernel<<<static_cast<unsigned>(args.rows), kDrawThreads, 0, handle>>>(args, parts,
                                                                                    found);
}

}  // namespace

int64_t choose_tokens_workspace(int64_t rows, int64_t vocab, int64_t count) {
  constexpr auto kCandidate = static_cast<int64_t>(sizeof(Candidate));
  if (is_scanned(vocab, count)) {
    return rows *
           (kSoftmaxWarps * static_cast<int64_t>(sizeof(Sums)) + kParts * (count + 1) * kCandidate);
  }
  return (rows + 1) * static_cast<int64_t>(sizeof(float)) +
         rows * draw_parts(vocab) * count * kCandidate;
}

void choose_tokens(Stream stream, const ChooseTokens& args) {
  if (args.rows == 0) return;
  if (is_scanned(args.vocab, args.count)) return scan(stream, args);
  draw(stream, args);
}

}  // namespace tril::kernels::cuda
