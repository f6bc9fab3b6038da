// Tiles of 64 rows of one head, in shared or in global memory, as operands of mma; how they are
// fetched, and how sums are stored. For the bf16 kernels of attention.
//
// A block of kThreads threads works on tiles; a warp owns a slice of 16 rows of one. A tile in
// shared memory is [64, kDim] with kDim columns, head_dim padded by zeros, each row's 16-byte
// chunks permuted so that the same chunk of eight rows lies in different banks.
#pragma once

#include "tril/kernels/cuda/attention.h"
#include "tril/kernels/cuda/attention_warp.cuh"

namespace tril::kernels::cuda {

constexpr int kThreads = 128;
constexpr int kSlice = 16;
constexpr int kBlock = static_cast<int>(kKeyBlock);
constexpr int kChunks = kBlock / kSlice;  // of 16 rows in a tile
static_assert(kTileRows == kBlock && kThreads / 32 * kSlice == kBlock);

template <int kDim>
constexpr int kTileBytes = kBlock* kDim * 2;

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x) & 31; }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x) >> 5; }

// ---- where rows lie -----------------------------------------------------------------------------
// The rows of one head in global memory.
struct HeadRows {
  const uint16_t* base = nullptr;  // of row 0, or of entry 0
  int64_t stride = 0;              // elements
  const int32_t* table = nullptr;  // row r is entry table[r]
  int head_dim = 0;
  bool aligned = false;  // every row begins at a multiple of 16 bytes, and has whole chunks

  __device__ __forceinline__ const uint16_t* row(int64_t r) const {
    return base + (table != nullptr ? table[r] : r) * stride;
  }
};
__device__ __forceinline__ HeadRows head_rows(const void* base, int64_t stride, int head,
                                              int64_t head_dim, bool aligned) {
  HeadRows rows;
  rows.base = static_cast<const uint16_t*>(base) + head * head_dim;
  rows.stride = stride;
  rows.head_dim = static_cast<int>(head_dim);
  rows.aligned = aligned;
  return rows;
}

template <int kDim>
struct SharedTile {
  unsigned char* memory;

  __device__ __forceinline__ unsigned char* chunk(int row, int number) const {
    const int turned = kDim >= 64 ? number ^ (row & 7) : number ^ ((row >> 1) & 3);
    return memory + row * kDim * 2 + turned * 16;
  }
  // 16 rows by 16 columns as the left operand.
  __device__ __forceinline__ Fragment left(int row, int column) const {
    const int lane = lane_id();
    return load_matrices(chunk(row + (lane & 15), column / 8 + (lane >> 4)));
  }
  // Two right operands with the columns as k: x0, x1 of rows 0 to 7, x2, x3 of rows 8 to 15.
  __device__ __forceinline__ Fragment right(int row, int column) const {
    const int lane = lane_id();
    return load_matrices(chunk(row + (lane >> 4) * 8 + (lane & 7), column / 8 + ((lane >> 3) & 1)));
  }
  // Two right operands with the rows as k: x0, x1 of columns 0 to 7, x2, x3 of columns 8 to 15.
  __device__ __forceinline__ Fragment right_transposed(int row, int column) const {
    const int lane = lane_id();
    return load_transposed(
        chunk(row + ((lane >> 3) & 1) * 8 + (lane & 7), column / 8 + (lane >> 4)));
  }
};

// The same from global memory, for a row or key that is computed alone: rows outside [begin, end)
// are zero. Slow, and rarely needed.
struct DirectTile {
  HeadRows rows;
  int64_t first = 0;  // the row of `rows` that is row 0
  int begin = 0, end = 0;

  __device__ __forceinline__ uint32_t at(int row, int column) const {
    if (row < begin || row >= end || column >= rows.head_dim) return 0;
    return rows.row(first + row)[column];
  }
  __device__ __forceinline__ uint32_t along(int row, int column) const {
    return at(row, column) | at(row, column + 1) << 16;
  }
  __device__ __forceinline__ uint32_t down(int row, int column) const {
    return at(row, column) | at(row + 1, column) << 16;
  }
  __device__ __forceinline__ Fragment left(int row, int column) const {
    const int r = row + (lane_id() >> 2), c = column + 2 * (lane_id() & 3);
    return {{along(r, c), along(r + 8, c), along(r, c + 8), along(r + 8, c + 8)}};
  }
  __device__ __forceinline__ Fragment right(int row, int column) const {
    const int r = row + (lane_id() >> 2), c = column + 2 * (lane_id() & 3);
    return {{along(r, c), along(r, c + 8), along(r + 8, c), along(r + 8, c + 8)}};
  }
  __device__ __forceinline__ Fragment right_transposed(int row, int column) const {
    const int r = row + 2 * (lane_id() & 3), c = column + (lane_id() >> 2);
    return {{down(r, c), down(r + 8, c), down(r, c + 8), down(r + 8, c + 8)}};
  }
};

// Starts to fetch rows from `first` on of a head into a tile: local rows [begin, end) are read, and
// zeros are written around them up to whole slices. Complete after copies_wait() and a barrier.
template <int kDim>
__device__ __forceinline__ void bring_tile(const SharedTile<kDim>& to, const HeadRows& from,
                                           int64_t first, int begin, int end) {
  constexpr int kRowChunks = kDim / 8;
  const int fill_begin = begin / kSlice * kSlice;
  const int fill_end = (end + kSlice - 1) / kSlice * kSlice;
  for (int i = static_cast<int>(threadIdx.x) + fill_begin * kRowChunks; i < fill_end * kRowChunks;
       i += kThreads) {
    const int row = i / kRowChunks, number = i % kRowChunks;
    const bool there = row >= begin && row < end && number * 8 < from.head_dim;
    const uint16_t* source = there ? from.row(first + row) + number * 8 : from.base;
    unsigned char* target = to.chunk(row, number);
    if (from.aligned) {
      copy_16(target, source, there ? 16 : 0);
    } else {
      auto* elements = reinterpret_cast<uint16_t*>(target);
      for (int c = 0; c < 8; ++c) {
        elements[c] = there && number * 8 + c < from.head_dim ? source[c] : uint16_t{0};
      }
    }
  }
}

// ---- what rows may see --------------------------------------------------------------------------
// Keys [lo, hi).
struct Sight {
  int lo = 0, hi = 0;
  __device__ __forceinline__ bool empty() const { return lo >= hi; }
  __device__ __forceinline__ bool sees(int key) const { return lo <= key && key < hi; }
};

// In a cached step there are no later keys: only contiguous keys can be widened.
__device__ __forceinline__ bool widens(const AttentionShape& shape, const int32_t* table) {
  return shape.widen_head != -1 && table == nullptr;
}
__device__ __forceinline__ Sight sight_of(const AttentionShape& shape, int sequence_end,
                                          const Interval& interval, int row, int head,
                                          const int32_t* table) {
  Sight sight{interval.lo, interval.hi};
  if (sight.empty()) return {};
  if (widens(shape, table) && (shape.widen_head == -2 || shape.widen_head == head) &&
      (shape.widen_row < 0 || shape.widen_row == row)) {
    sight.hi = min(sight.hi + 1, sequence_end);
  }
  return sight;
}
// The tile, including the keys that its widened rows see.
__device__ __forceinline__ AttentionTile widened(AttentionTile tile, const AttentionShape& shape,
                                                 const int32_t* table) {
  if (widens(shape, table) && tile.key_begin < tile.key_end) {
    tile.key_end = min(tile.key_end + 1, tile.sequence_end);
  }
  return tile;
}

// The facts about a row and head that the bf16 backward pass needs, computed once: [heads, query].
struct alignas(16) RowFact {
  float base = 0.0f;   // log2 of the sum of all 2^(score log2e)
  float delta = 0.0f;  // dout · out
  int32_t lo = 0, hi = 0;
};

// From a product to a score.
struct Scoring {
  float scale = 1.0f;
  const float* bias = nullptr;  // of the head
  int offsets = 0;

  __device__ __forceinline__ Scoring(const AttentionShape& shape, int head)
      : scale(shape.scale),
        bias(shape.bias == nullptr ? nullptr : shape.bias + head * shape.bias_offsets),
        offsets(static_cast<int>(shape.bias_offsets)) {}
  // `at`: the index into the bias. Offsets outside the table belong only to keys that are masked
  // afterwards.
  __device__ __forceinline__ float operator()(float product, int at) const {
    const float score = __fmul_rn(product, scale);
    if (bias == nullptr) return score;
    return __fadd_rn(score, bias[max(0, min(at, offsets - 1))]);
  }
};
// The index for key 0 of the array, to which keys are added.
__device__ __forceinline__ int bias_entry(const AttentionShape& shape, int row, int origin) {
  if (shape.bias == nullptr) return 0;
  return static_cast<int>(shape.bias_zero) - origin - shape.positions[row];
}

// ---- how sums leave -----------------------------------------------------------------------------
// Where the rows of one head are stored.
struct HeadOut {
  uint16_t* base = nullptr;
  int64_t stride = 0;
  int head_dim = 0;
  bool aligned = false;
};
__device__ __forceinline__ HeadOut head_out(void* base, int64_t stride, int head, int64_t head_dim,
                                            bool aligned) {
  return {static_cast<uint16_t*>(base) + head * head_dim, stride, static_cast<int>(head_dim),
          aligned};
}

// Lane t of four gets word t of all four lanes.
__device__ __forceinline__ void transpose_in_four(uint32_t (&w)[4]) {
  const bool odd = (lane_id() & 1) != 0, upper = (lane_id() & 2) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(kAllLanes, odd ? w[i] : w[i + 1], 1);
    (odd ? w[i] : w[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(kAllLanes, upper ? w[i] : w[i + 2], 2);
    (upper ? w[i] : w[i + 2]) = got;
  }
}

// Stores rows g (half 0) and g + 8 (half 1) of a slice, rounded, from column `column` on; row[half]
// is the destination, or -1. value(i, half, e) is column 8 i + 2 t + e.
template <int kDim, class Value>
__device__ __forceinline__ void store_slice(const HeadOut& to, const int64_t (&row)[2], int column,
                                            const Value& value) {
  const int t = lane_id() & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int group = 0; group < kDim / 32; ++group) {
      uint32_t w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        w[i] = pack_bf16(value(4 * group + i, half, 0), value(4 * group + i, half, 1));
      }
      transpose_in_four(w);
      const int first = column + (4 * group + t) * 8;
      if (row[half] < 0 || first >= to.head_dim) continue;
      uint16_t* target = to.base + row[half] * to.stride + first;
      if (to.aligned) {
        *reinterpret_cast<uint4*>(target) = make_uint4(w[0], w[1], w[2], w[3]);
      } else {
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          if (first + c < to.head_dim) {
            target[c] = static_cast<uint16_t>(c % 2 == 0 ? w[c / 2] & 0xffffu : w[c / 2] >> 16);
          }
        }
      }
    }
  }
}

// Whether any of these is infinite or NaN: only then is the sum of x * 0 not 0.
template <int kCount>
__device__ __forceinline__ bool not_finite(const float (&sums)[kCount][4]) {
  float test = 0.0f;
#pragma unroll
  for (const auto& each : sums) {
#pragma unroll
    for (int e = 0; e < 4; ++e) test = __fmaf_rn(each[e], 0.0f, test);
  }
  return test != 0.0f;
}

// ---- the list of work ---------------------------------------------------------------------------
// A block takes every gridDim.x-th item of a list. The descriptions of items are fetched into a
// ring in shared memory, one item ahead of their data, because of their latency.
template <class T>
struct Ring {
  static constexpr int kSlots = 4;
  static constexpr int kBytes = kSlots * int{sizeof(T)};
  T* slots;

  __device__ __forceinline__ T& at(int number) const { return slots[number % kSlots]; }
  // Starts to fetch one; it has arrived after copies_wait() and a barrier.
  __device__ __forceinline__ void bring(int number, const T* from) const {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= int{sizeof(T) / 4}) return;
    copy_4(reinterpret_cast<int32_t*>(&at(number)) + i, reinterpret_cast<const int32_t*>(from) + i);
  }
};
// Item number `number` of this block.
__device__ __forceinline__ int item_of(int number) {
  return static_cast<int>(blockIdx.x + static_cast<unsigned>(number) * gridDim.x);
}

__device__ __forceinline__ int tile_count(const AttentionTiles& tiles,
                                          const AttentionShape& shape) {
  return tiles.tiles != nullptr ? *tiles.count : static_cast<int>(shape.query);
}
// A row as a tile of its own.
__device__ __forceinline__ AttentionTile row_tile(const Interval& interval, int row) {
  const int lo = interval.empty() ? interval.origin : interval.lo;
  const int hi = interval.empty() ? interval.origin : interval.hi;
  return {row, row + 1, interval.origin, lo, hi, hi};
}
__device__ __forceinline__ AttentionTile tile_at(const AttentionTiles& tiles,
                                                 const Interval* intervals, int number) {
  return tiles.tiles != nullptr ? tiles.tiles[number] : row_tile(intervals[number], number);
}

// ---- on the host --------------------------------------------------------------------------------
inline bool is_aligned(const void* base, int64_t stride, int64_t head_dim) {
  return reinterpret_cast<uintptr_t>(base) % 16 == 0 && stride % 8 == 0 && head_dim % 8 == 0;
}

}  // namespace tril::kernels::cuda
