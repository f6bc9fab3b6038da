#include <cooperative_groups.h>
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

using ChoiceCandidate = Ranked<float>;  // a token by its logit, or by its log-probability

// Extracts the best `count` of what the threads hold, best first, one after the other: held(f)
// calls f with each candidate of this thread. Slow, but works for any number and any ties.
template <int kThreads, class Held, class Put>
__device__ void draw_best(int64_t count, const Held& held, const Put& put) {
  ChoiceCandidate last{INFINITY, -1};
  for (int64_t n = 0; n < count; ++n) {
    ChoiceCandidate mine;
    held([&](const ChoiceCandidate& each) {
      if (better(last, each) && better(each, mine)) mine = each;
    });
    last = best_of_block<kThreads>(mine);
    if (threadIdx.x == 0) put(n, last);
  }
}

__device__ void put_choice(const ChooseTokens& args, int64_t row, int64_t n,
                           const ChoiceCandidate& c) {
  args.tokens[row * args.count + n] = c.number == ChoiceCandidate::kNone ? -1 : c.number;
  args.log_probs[row * args.count + n] = c.value;
}
__device__ void put_wanted(const ChooseTokens& args, int64_t row, float norm) {
  if (args.wanted == nullptr) return;
  const int32_t wanted = args.wanted[row];
  args.wanted_log_probs[row] = wanted < 0 ? 0.0f : args.logits[row * args.stride + wanted] - norm;
}
// The tokens that may be chosen in a row, one bit per token.
__device__ const uint32_t* allowed_in(const ChooseTokens& args, int64_t row) {
  return args.sets == nullptr ? args.allowed : args.allowed + args.sets[row] * args.set_words;
}
__device__ bool has_bit(const uint32_t* bits, int64_t token) {
  return (bits[token / 32] >> (token % 32) & 1u) != 0;
}
__device__ ChoiceCandidate candidate_at(const uint32_t* allowed, const float* logits, float norm,
                                        int64_t token) {
  const float log_prob = logits[token] - norm;
  if (!has_bit(allowed, token) || !(log_prob > -INFINITY)) return {};
  return {log_prob, static_cast<int32_t>(token)};
}

// ---- a few of a row that is read once -----------------------------------------------------------
// The 1,024 threads that share a row (softmax_sums.cuh) are eight blocks. A block passes on the
// sums of its warps and its kept = count + 1 best logits: of equal log-probabilities one more than
// needed shows whether others could be among the best.
constexpr int kPartThreads = 128;
constexpr int kPartWarps = kPartThreads / kWarp;
constexpr int kParts = kSoftmaxThreads / kPartThreads;
constexpr int kMostKept = 17;
constexpr int kListed = kPartThreads;
constexpr int kPartStep = kSoftmaxThreads * kPack;  // from a thread's pack to its next
constexpr int64_t kMostScanned = int64_t{1} << 30;  // places are int

// What a block passes on.
struct Scanned {
  Sums sums[kPartWarps];
  ChoiceCandidate kept[kMostKept];  // best first
};

// Numbers in the order of floats, except that -0 is below 0.
__device__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ float from_ordered(uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key & 0x7FFFFFFFu : ~key);
}

// A value that at least `kept` of the block's numbers reach, if there are that many: the kept-th
// largest of a warp, for the warp where it is largest.
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

// Puts each element of the list in its place: the number of better ones.
template <class Put>
__device__ void put_by_rank(const ChoiceCandidate* list, int size, int kept, const Put& put) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kPartThreads) {
    const ChoiceCandidate mine = list[i];
    if (mine.number == ChoiceCandidate::kNone) continue;
    int rank = 0;
#pragma unroll 2
    for (int other = 0; other < size; ++other) rank += better(list[other], mine) ? 1 : 0;
    if (rank < kept) put(rank, mine);
  }
}

// Not inlined, to keep the rare case out of the common code.
__device__ __noinline__ float largest_allowed(Pack x, uint32_t allowed) {
  float largest = -INFINITY;
#pragma unroll
  for (int e = 0; e < kPack; ++e) {
    largest = fmaxf(largest, (allowed >> e & 1u) != 0 ? x.at[e] : -INFINITY);
  }
  return largest;
}
__device__ __noinline__ Sums with_one_by_one(Pack x, int count, Sums sums) {
  add_one_by_one(x, count, sums);
  return sums;
}

// Some packs of one of the threads that share a row, in registers, so that all loads are in flight
// at once. After the end of the vocabulary rows have room for a whole pack.
class HeldPacks {
 public:
  static constexpr int kHeld = 8;

  // Loads the packs from number `base` on. Which tokens may be chosen is loaded first, because no
  // kernel of the chain writes it.
  __device__ void bring_allowed(const ChooseTokens& args, const uint32_t* allowed, int member,
                                int base) {
    first_ = member * kPack + base * kPartStep;
    left_ = static_cast<int>(args.vocab) - first_;
    const auto* bytes = reinterpret_cast<const unsigned char*>(allowed) + first_ / 8;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) allowed_[i] = has(i) ? bytes[i * (kPartStep / 8)] : 0u;
  }
  __device__ void bring_logits(const float* row) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (has(i)) packs_[i] = *reinterpret_cast<const StoredPack<float>*>(row + place(i));
    }
  }
  __device__ bool has(int i) const { return i * kPartStep < left_; }
  __device__ int place(int i) const { return first_ + i * kPartStep; }
  __device__ Pack at(int i) const { return widened(packs_[i]); }
  // One bit for each token of the pack that may be chosen.
  __device__ uint32_t allowed(int i) const {
    const int there = left_ - i * kPartStep;
    return there >= kPack ? allowed_[i] : allowed_[i] & ((1u << max(there, 0)) - 1u);
  }
  // Adds all to the sums, and returns the largest that may be chosen.
  __device__ float add_to(Sums& sums) const {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (!has(i)) continue;
      const Pack x = at(i);
      const float top = largest_of(x);
      const int count = min(left_ - i * kPartStep, kPack);
      if (is_added_whole(x, count, sums)) {
        add_whole_pack(x, top, sums);
      } else {
        sums = with_one_by_one(x, count, sums);
      }
      const uint32_t bits = allowed(i);
      largest = fmaxf(largest, bits == kAllAllowed ? top : largest_allowed(x, bits));
    }
    return largest;
  }
  // Calls f with each that may be chosen and is at least `least`.
  template <class F>
  __device__ void each_from(float least, const F& f) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (!has(i)) continue;
      const Pack x = at(i);
      if (!(largest_of(x) >= least)) continue;
      visit_from(x, allowed(i), least, place(i), f);
    }
  }

 private:
  static constexpr uint32_t kAllAllowed = (1u << kPack) - 1u;

  template <class F>
  __device__ static __noinline__ void visit_from(Pack x, uint32_t allowed, float least, int place,
                                                 const F& f) {
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      if ((allowed >> e & 1u) != 0 && x.at[e] >= least && x.at[e] > -INFINITY) {
        f(ChoiceCandidate{x.at[e], place + e});
      }
    }
  }

  int first_, left_;
  uint32_t allowed_[kHeld];
  StoredPack<float> packs_[kHeld];
};

// The kept best of a block, one after the other: if so many are equal that no list holds them.
__device__ __noinline__ void draw_kept(const ChooseTokens& args, const uint32_t* allowed,
                                       const float* row, int member, int kept,
                                       ChoiceCandidate* found) {
  draw_best<kPartThreads>(
      kept,
      [&](const auto& f) {
        for (int at = member * kPack; at < args.vocab; at += kPartStep) {
          for (int token = at; token < min(at + kPack, static_cast<int>(args.vocab)); ++token) {
            if (has_bit(allowed, token) && row[token] > -INFINITY) {
              f(ChoiceCandidate{row[token], token});
            }
          }
        }
      },
      [&](int64_t n, const ChoiceCandidate& c) { found[n] = c; });
}

// A part of a row; by all threads of a block.
__device__ void scan_part(const ChooseTokens& args, int64_t row, int part, int kept, Scanned& to) {
  __shared__ ChoiceCandidate list[kListed];
  __shared__ int listed;
  const int member = part * kPartThreads + static_cast<int>(threadIdx.x);
  const float* const logits = args.logits + row * args.stride;
  const uint32_t* const allowed = allowed_in(args, row);
  const int packs = static_cast<int>((args.vocab + kPartStep - 1) / kPartStep);
  if (threadIdx.x == 0) listed = 0;
  HeldPacks held;
  Sums sums{-INFINITY, 0.0f, 0.0f};
  float largest = -INFINITY;
#pragma unroll 1
  for (int base = 0; base < packs; base += HeldPacks::kHeld) {
    held.bring_allowed(args, allowed, member, base);
    wait_for_earlier();  // returns at once except the first time
    held.bring_logits(logits);
    largest = fmaxf(largest, held.add_to(sums));
  }
  sums = joined_in_warp(sums);
  if (lane_of_thread() == 0) to.sums[threadIdx.x / kWarp] = sums;
  const float reached = reached_by(largest, kept);
  if (largest >= reached) {
#pragma unroll 1
    for (int base = 0; base < packs; base += HeldPacks::kHeld) {
      if (packs > HeldPacks::kHeld) {  // otherwise they are still in registers
        held.bring_allowed(args, allowed, member, base);
        held.bring_logits(logits);
      }
      held.each_from(reached, [&](const ChoiceCandidate& each) {
        const int at = atomicAdd(&listed, 1);  // the order does not matter
        if (at < kListed) list[at] = each;
      });
    }
  }
  if (static_cast<int>(threadIdx.x) < kept) to.kept[threadIdx.x] = ChoiceCandidate();
  __syncthreads();
  if (listed <= kListed) {
    put_by_rank(list, listed, kept, [&](int rank, const ChoiceCandidate& c) { to.kept[rank] = c; });
  } else {
    draw_kept(args, allowed, logits, member, kept, to.kept);
  }
}

// The best of a row by log-probability, one after the other: if log-probabilities are equal
// although logits were not, and a part may not have kept enough.
__device__ __noinline__ void draw_choices(const ChooseTokens& args, int64_t row, float norm) {
  const float* logits = args.logits + row * args.stride;
  const uint32_t* allowed = allowed_in(args, row);
  draw_best<kPartThreads>(
      args.count,
      [&](const auto& f) {
        for (int64_t token = threadIdx.x; token < args.vocab; token += kPartThreads) {
          f(candidate_at(allowed, logits, norm, token));
        }
      },
      [&](int64_t n, const ChoiceCandidate& c) { put_choice(args, row, n, c); });
}

// Combines what the parts of a row have found: part(i) is the i-th of them.
template <class Parts>
__device__ void decide_row(const ChooseTokens& args, int64_t row, int kept, const Parts& part) {
  __shared__ ChoiceCandidate list[kParts * kMostKept];
  __shared__ float norm_of_row;
  __shared__ float last;  // log p at the last place
  const int size = kParts * kept;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kWarp) {
    const Sums sums = joined_in_warp(part(thread / kPartWarps)->sums[thread % kPartWarps]);
    if (thread == 0) norm_of_row = normaliser(sums);
  }
#pragma unroll 1
  for (int i = thread; i < size; i += kPartThreads) list[i] = part(i / kept)->kept[i % kept];
  if (thread == 0) last = -INFINITY;
  __syncthreads();
  const float norm = norm_of_row;
#pragma unroll 1
  for (int i = thread; i < size; i += kPartThreads) {
    const float log_prob = list[i].value - norm;
    list[i] = log_prob > -INFINITY ? ChoiceCandidate{log_prob, list[i].number} : ChoiceCandidate();
  }
#pragma unroll 1
  for (int64_t n = thread; n < args.count; n += kPartThreads) put_choice(args, row, n, {});
  if (thread == 0) put_wanted(args, row, norm);
  __syncthreads();
  put_by_rank(list, size, static_cast<int>(args.count), [&](int rank, const ChoiceCandidate& c) {
    put_choice(args, row, rank, c);
    if (rank == args.count - 1) last = c.value;
  });
  __syncthreads();
  // What a part did not keep is no better than the last it kept: it can be among the best only if
  // that one's log p is not below all of theirs.
  bool open = false;
  if (thread < kParts) {
    const ChoiceCandidate& kept_last = list[(thread + 1) * kept - 1];
    open = kept_last.number != ChoiceCandidate::kNone && kept_last.value >= last;
  }
  if (__syncthreads_or(open)) draw_choices(args, row, norm);
}

// If the parts of a row are a cluster, the first of them decides, which saves a kernel...
__global__ void __launch_bounds__(kPartThreads, 4) choose_kernel(ChooseTokens args) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __shared__ alignas(Scanned) unsigned char memory[sizeof(Scanned)];  // not initialised
  Scanned& mine = *reinterpret_cast<Scanned*>(memory);
  let_next_begin();
  const auto cluster = cooperative_groups::this_cluster();
  const int64_t row = blockIdx.x / kParts;
  const int part = static_cast<int>(cluster.block_rank());
  const int kept = static_cast<int>(args.count + 1);
  scan_part(args, row, part, kept, mine);
  cluster.sync();
  if (part == 0) {
    decide_row(args, row, kept, [&](int i) { return cluster.map_shared_rank(&mine, i); });
  }
  cluster.sync();  // until then the others' memory is read
#endif
}
// ... otherwise a second kernel does.
__global__ void __launch_bounds__(kPartThreads, 4) scan_kernel(ChooseTokens args, Scanned* to) {
  let_next_begin();
  scan_part(args, blockIdx.x / kParts, static_cast<int>(blockIdx.x) % kParts,
            static_cast<int>(args.count + 1), to[blockIdx.x]);
}
__global__ void __launch_bounds__(kPartThreads) decide_kernel(ChooseTokens args, Scanned* from) {
  let_next_begin();
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  decide_row(args, row, static_cast<int>(args.count + 1),
             [&](int i) { return from + row * kParts + i; });
}

// ---- many, or of very many ----------------------------------------------------------------------
constexpr int kManyThreads = 256;
constexpr int kDrawn = 16;  // tokens a thread holds
constexpr int64_t kDrawPart = int64_t{kManyThreads} * kDrawn;

__global__ void __launch_bounds__(kManyThreads)
    draw_parts_kernel(ChooseTokens args, const float* norms, int64_t parts,
                      ChoiceCandidate* found) {
  const int64_t row = blockIdx.y;
  const int64_t part = blockIdx.x;
  const float* logits = args.logits + row * args.stride;
  const float norm = norms[row];
  const uint32_t* allowed = allowed_in(args, row);
  ChoiceCandidate held[kDrawn];
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) {
    const int64_t token = part * kDrawPart + i * kManyThreads + threadIdx.x;
    if (token < args.vocab) held[i] = candidate_at(allowed, logits, norm, token);
  }
  ChoiceCandidate* to = found + (row * parts + part) * args.count;
  draw_best<kManyThreads>(
      args.count,
      [&](const auto& f) {
#pragma unroll
        for (const ChoiceCandidate& each : held) f(each);
      },
      [&](int64_t n, const ChoiceCandidate& best) { to[n] = best; });
  if (part == 0 && threadIdx.x == 0) put_wanted(args, row, norm);
}

__global__ void __launch_bounds__(kManyThreads)
    merge_parts_kernel(ChooseTokens args, int64_t parts, const ChoiceCandidate* found) {
  const int64_t row = blockIdx.x;
  const int64_t candidates = parts * args.count;
  const ChoiceCandidate* from = found + row * candidates;
  draw_best<kManyThreads>(
      args.count,
      [&](const auto& f) {
        for (int64_t i = threadIdx.x; i < candidates; i += kManyThreads) f(from[i]);
      },
      [&](int64_t n, const ChoiceCandidate& best) { put_choice(args, row, n, best); });
}

bool is_scanned(int64_t vocab, int64_t count) {
  return vocab <= kMostScanned && count + 1 <= kMostKept;
}
// Whether rows can be read in whole packs, even past their end.
bool in_packs(const ChooseTokens& args) {
  return access_of(args.stride, args.logits) == Access::vector;
}
int64_t draw_parts(int64_t vocab) { return (vocab + kDrawPart - 1) / kDrawPart; }

void scan(Stream stream, const ChooseTokens& args) {
  const dim3 parts(static_cast<unsigned>(args.rows * kParts));
  constexpr int64_t kFewRows = 64;  // with many rows it takes long to find room for clusters
  if (args.rows <= kFewRows && is_made_for_hopper(choose_kernel)) {
    return launch_clusters(stream, choose_kernel, parts, kParts, kPartThreads, 0, args);
  }
  auto* scanned = static_cast<Scanned*>(args.workspace);
  launch(stream, scan_kernel, parts, kPartThreads, 0, args, scanned);
  launch(stream, decide_kernel, dim3(static_cast<unsigned>(args.rows)), kPartThreads, 0, args,
         scanned);
}

void draw(Stream stream, const ChooseTokens& args) {
  const auto handle = handle_of(stream);
  const int64_t parts = draw_parts(args.vocab);
  auto* norms = static_cast<float*>(args.workspace);
  auto* found = reinterpret_cast<ChoiceCandidate*>(norms + (args.rows + 1) / 2 * 2);
  softmax_normalisers(stream, {args.logits, args.rows, args.vocab, args.stride, norms});
  const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(args.rows));
  draw_parts_kernel<<<grid, kManyThreads, 0, handle>>>(args, norms, parts, found);
  merge_parts_kernel<<<static_cast<unsigned>(args.rows), kManyThreads, 0, handle>>>(args, parts,
                                                                                    found);
}

}  // namespace

int64_t choose_tokens_workspace(int64_t rows, int64_t vocab, int64_t count) {
  constexpr auto kCandidate = static_cast<int64_t>(sizeof(ChoiceCandidate));
  const int64_t drawn = (rows + 1) * static_cast<int64_t>(sizeof(float)) +
                        rows * draw_parts(vocab) * count * kCandidate;
  const int64_t scanned = rows * kParts * static_cast<int64_t>(sizeof(Scanned));
  return is_scanned(vocab, count) ? std::max(scanned, drawn) : drawn;
}

void choose_tokens(Stream stream, const ChooseTokens& args) {
  if (args.rows == 0) return;
  if (is_scanned(args.vocab, args.count) && in_packs(args)) return scan(stream, args);
  draw(stream, args);
}

}  // namespace tril::kernels::cuda
