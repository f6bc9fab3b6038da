// Embedding lookup and its gradient, for which rows are sorted by id.
#include "tril/kernels/cuda/launch.cuh"
#include "tril/kernels/cuda/rows.cuh"
#include "tril/kernels/cuda/rows.h"

namespace tril::kernels::cuda {
namespace {

constexpr int kRowThreads = 128;  // four rows, or entries, one per warp

// ---- lookup -------------------------------------------------------------------------------------
template <class T, class Entry>
__global__ void __launch_bounds__(kRowThreads) lookup_kernel(Embedding<T, Entry> e, Access access) {
  // In this order, so that a kernel that begins after this knows that everything before it has
  // ended (launch.cuh).
  wait_for_earlier();
  let_next_begin();
  const int64_t row = int64_t{blockIdx.x} * (kRowThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= e.rows) return;
  const Entry* entry = e.table + e.ids[row] * e.table_stride;
  const float* position =
      e.position_ids == nullptr ? nullptr : e.position_table + e.position_ids[row] * e.columns;
  over_row<0>(e.columns, [&](int, int64_t at, int count) {
    if (count == 0) return;
    const Pack from = rounded<T>(load(entry + at, count, access));
    const Pack place = load(position + at, position == nullptr ? 0 : count, access);
    Pack to;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      to.at[i] =
          position == nullptr ? from.at[i] * e.scale : __fmaf_rn(from.at[i], e.scale, place.at[i]);
    }
    store(to, e.out + row * e.columns + at, count, access);
  });
}

// ---- sorting ------------------------------------------------------------------------------------
// By digits of eight bits, the lowest first. One tile of rows per block; each pass counts the
// digits of every tile, and then moves its rows to the places given by the counts of all tiles.
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kSortThreads = kDigits;  // one thread per digit, when digits are counted
constexpr int kSortWarps = kSortThreads / kWarp;
constexpr int kRounds = 4;  // rows per thread
constexpr int64_t kTile = kSortThreads * kRounds;

int64_t tiles_of(int64_t rows) { return (rows + kTile - 1) / kTile; }

struct SortPass {
  int64_t rows = 0;
  const int32_t* keys = nullptr;
  const int32_t* values = nullptr;  // null: the rows' own numbers
  int shift = 0;
  int32_t* counts = nullptr;  // [tiles, digits]
  int32_t* to_keys = nullptr;
  int32_t* to_values = nullptr;
};

// The row of this thread in a round: a warp has kRounds * 32 consecutive ones.
__device__ inline int64_t row_of_round(int round) {
  return int64_t{blockIdx.x} * kTile + static_cast<int>(threadIdx.x) / kWarp * kRounds * kWarp +
         round * kWarp + lane_of_thread();
}
__device__ inline int digit_of(const SortPass& pass, int64_t row) {
  return pass.keys[row] >> pass.shift & (kDigits - 1);
}

__global__ void __launch_bounds__(kSortThreads) count_kernel(SortPass pass) {
  __shared__ int32_t counts[kDigits];
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (int round = 0; round < kRounds; ++round) {
    const int64_t row = row_of_round(round);
    if (row < pass.rows) atomicAdd(&counts[digit_of(pass, row)], 1);
  }
  __syncthreads();
  pass.counts[int64_t{blockIdx.x} * kDigits + threadIdx.x] = counts[threadIdx.x];
}

// Where the rows of digit threadIdx.x of this tile begin: after all lower digits, and after the
// same digit of earlier tiles.
__device__ int32_t first_place(const SortPass& pass) {
  __shared__ int32_t totals[2][kDigits];
  int32_t before = 0;
  int32_t total = 0;
  for (unsigned tile = 0; tile < gridDim.x; ++tile) {
    const int32_t count = pass.counts[int64_t{tile} * kDigits + threadIdx.x];
    if (tile < blockIdx.x) before += count;
    total += count;
  }
  int from = 0;
  totals[from][threadIdx.x] = total;
  for (int step = 1; step < kDigits; step *= 2, from = 1 - from) {  // sums up to each digit
    __syncthreads();
    const bool far = static_cast<int>(threadIdx.x) >= step;
    totals[1 - from][threadIdx.x] =
        totals[from][threadIdx.x] + (far ? totals[from][threadIdx.x - step] : 0);
  }
  return totals[from][threadIdx.x] - total + before;
}

__global__ void __launch_bounds__(kSortThreads) move_kernel(SortPass pass) {
  __shared__ int32_t places[kSortWarps][kDigits];  // counts of each warp, then their places
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = lane_of_thread();
  for (int i = 0; i < kSortWarps; ++i) places[i][threadIdx.x] = 0;
  const int32_t first = first_place(pass);
  __syncthreads();
  int digits[kRounds];
  unsigned equals[kRounds];  // lanes with the same digit
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t row = row_of_round(round);
    // Lanes past the end have a digit of their own, which is not counted.
    digits[round] = row < pass.rows ? digit_of(pass, row) : kDigits;
    equals[round] = __match_any_sync(kAllLanes, digits[round]);
    const bool lowest = lane == __ffs(static_cast<int>(equals[round])) - 1;
    if (lowest && digits[round] < kDigits) {
      places[warp][digits[round]] += __popc(equals[round]);
    }
    __syncwarp();
  }
  __syncthreads();
  int32_t place = first;
  for (int i = 0; i < kSortWarps; ++i) {
    const int32_t count = places[i][threadIdx.x];
    places[i][threadIdx.x] = place;
    place += count;
  }
  __syncthreads();
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t row = row_of_round(round);
    const bool inside = digits[round] < kDigits;
    const int32_t begin = inside ? places[warp][digits[round]] : 0;
    __syncwarp();
    const unsigned lower = equals[round] & ((1u << lane) - 1u);
    if (inside) {
      const int32_t to = begin + __popc(lower);
      pass.to_keys[to] = pass.keys[row];
      pass.to_values[to] = pass.values == nullptr ? static_cast<int32_t>(row) : pass.values[row];
      if (lower == 0) places[warp][digits[round]] = begin + __popc(equals[round]);
    }
    __syncwarp();
  }
}

// The first place in ascending keys whose key is not below `entry`.
__global__ void __launch_bounds__(kSortThreads)
    starts_kernel(const int32_t* keys, int64_t rows, int64_t entries, int32_t* starts) {
  const int64_t entry = int64_t{blockIdx.x} * kSortThreads + threadIdx.x;
  if (entry > entries) return;
  int64_t low = 0;
  int64_t high = rows;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys[middle] < entry) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  starts[entry] = static_cast<int32_t>(low);
}

// ---- gradient -----------------------------------------------------------------------------------
// An entry looked up by more rows than a slice holds is processed by many blocks: window k of the
// sorted rows, [64 k, 64 k + 64), takes the slices that begin in it. There are at most two: one of
// an entry that began before, and the first of one that begins in it, because an entry with several
// slices has more rows than a window. They are partial[k][0] and partial[k][1].
__host__ __device__ inline bool has_slices(int64_t rows) { return rows > kEmbeddingSlice; }

// The entry that the row at `place` of the order looked up.
template <class T>
__device__ int64_t entry_at(const EmbeddingBackward<T>& e, int64_t place) {
  int64_t low = 0;
  int64_t high = e.entries;  // the first entry that starts after `place` is at most this
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (e.starts[middle] <= place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

constexpr int kSliceThreads = 256;

template <class T>
__device__ void sum_slice(const EmbeddingBackward<T>& e, int64_t begin, int64_t end,
                          float* partial) {
  for (int64_t column = threadIdx.x; column < e.columns; column += kSliceThreads) {
    float sum = 0.0f;
#pragma unroll 8
    for (int64_t i = begin; i < end; ++i) sum += widened(e.dout[e.order[i] * e.columns + column]);
    partial[column] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kSliceThreads) slices_kernel(EmbeddingBackward<T> e) {
  const int64_t begin = int64_t{blockIdx.x} * kEmbeddingSlice;
  const int64_t end = begin + kEmbeddingSlice < e.rows ? begin + kEmbeddingSlice : e.rows;
  float* sums = e.partial + int64_t{blockIdx.x} * 2 * e.columns;
  const int64_t before = entry_at(e, begin);
  const int64_t start = e.starts[before];
  const int64_t stop = e.starts[before + 1];
  if (has_slices(stop - start)) {
    const int64_t whole = (begin - start + kEmbeddingSlice - 1) / kEmbeddingSlice;
    const int64_t at = start + whole * kEmbeddingSlice;
    if (at < end && at < stop) {
      const int64_t until = at + kEmbeddingSlice < stop ? at + kEmbeddingSlice : stop;
      sum_slice(e, at, until, sums + (whole == 0 ? e.columns : 0));
    }
  }
  const int64_t last = entry_at(e, end - 1);
  const int64_t from = e.starts[last];
  if (last != before && has_slices(e.starts[last + 1] - from)) {
    sum_slice(e, from, from + kEmbeddingSlice, sums + e.columns);
  }
}

// One entry per warp: its rows, or its slices.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    entries_kernel(EmbeddingBackward<T> e, Access access) {
  const int64_t entry = int64_t{blockIdx.x} * (kRowThreads / kWarp) + threadIdx.x / kWarp;
  if (entry >= e.entries) return;
  const int64_t begin = e.starts[entry];
  const int64_t end = e.starts[entry + 1];
  if (begin == end && e.adds) return;
  over_row<0>(e.columns, [&](int, int64_t at, int count) {
    if (count == 0) return;
    Pack sum = {};
    const auto add = [&](const Pack& p) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum.at[i] += p.at[i];
    };
    if (has_slices(end - begin)) {
#pragma unroll 4
      for (int64_t slice = begin; slice < end; slice += kEmbeddingSlice) {
        const int64_t which = 2 * (slice / kEmbeddingSlice) + (slice == begin ? 1 : 0);
        add(load(e.partial + which * e.columns + at, count, access));
      }
    } else {
#pragma unroll 4
      for (int64_t i = begin; i < end; ++i) {
        add(load(e.dout + e.order[i] * e.columns + at, count, access));
      }
    }
    float* to = e.dtable + entry * e.columns + at;
    Pack result = e.adds ? load(to, count, access) : Pack{};
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float gradient = sum.at[i] * e.scale;
      result.at[i] = e.adds ? result.at[i] + gradient : gradient;
    }
    store(result, to, count, access);
  });
}

int64_t windows_of(int64_t rows) { return (rows + kEmbeddingSlice - 1) / kEmbeddingSlice; }

}  // namespace

template <class T, class Entry>
void embedding_forward(Stream stream, const Embedding<T, Entry>& args) {
  if (args.rows == 0) return;
  const bool whole = args.table_stride % kPack == 0;
  const Access access = access_of(args.columns, args.table, args.position_table, args.out);
  launch(stream, lookup_kernel<T, Entry>, blocks_for(args.rows, kRowThreads / kWarp), kRowThreads,
         0, args, whole ? access : Access::scalar);
}

int64_t sort_by_id_workspace(int64_t rows) {
  return (4 * rows + tiles_of(rows) * kDigits) * static_cast<int64_t>(sizeof(int32_t));
}

void sort_by_id(Stream stream, const SortById& args) {
  const cudaStream_t on = handle_of(stream);
  const int64_t rows = args.rows;
  auto* memory = static_cast<int32_t*>(args.workspace);
  int32_t* const keys[] = {memory, memory + rows};
  int32_t* const values[] = {memory + 2 * rows, memory + 3 * rows};
  SortPass pass;
  pass.rows = rows;
  pass.keys = args.ids;
  pass.counts = memory + 4 * rows;
  const auto tiles = static_cast<unsigned>(tiles_of(rows));
  bool last = rows == 0;
  for (int turn = 0; !last; turn = 1 - turn) {
    last = ((args.entries - 1) >> (pass.shift + kDigitBits)) == 0;
    pass.to_keys = keys[turn];
    pass.to_values = last ? args.order : values[turn];
    count_kernel<<<tiles, kSortThreads, 0, on>>>(pass);
    move_kernel<<<tiles, kSortThreads, 0, on>>>(pass);
    pass.keys = pass.to_keys;
    pass.values = pass.to_values;
    pass.shift += kDigitBits;
  }
  starts_kernel<<<blocks_for(args.entries + 1, kSortThreads), kSortThreads, 0, on>>>(
      pass.keys, rows, args.entries, args.starts);
}

int64_t embedding_backward_partial(int64_t rows, int64_t columns) {
  return windows_of(rows) * 2 * columns;
}

template <class T>
void embedding_backward(Stream stream, const EmbeddingBackward<T>& args) {
  const cudaStream_t on = handle_of(stream);
  if (has_slices(args.rows)) {
    slices_kernel<<<static_cast<unsigned>(windows_of(args.rows)), kSliceThreads, 0, on>>>(args);
  }
  if (args.entries == 0) return;
  entries_kernel<<<blocks_for(args.entries, kRowThreads / kWarp), kRowThreads, 0, on>>>(
      args, access_of(args.columns, args.dout, args.partial, args.dtable));
}

template void embedding_forward(Stream, const Embedding<float, float>&);
template void embedding_forward(Stream, const Embedding<BFloat16, float>&);
template void embedding_forward(Stream, const Embedding<BFloat16, BFloat16>&);
template void embedding_backward(Stream, const EmbeddingBackward<float>&);
template void embedding_backward(Stream, const EmbeddingBackward<BFloat16>&);

}  // namespace tril::kernels::cuda
