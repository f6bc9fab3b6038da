// Shared by the kernels for long sequences: tiles of 64 rows in panels, as the copy engine
// addresses and fetches them, products of a warpgroup with whole tiles, and the order of the list
// of work. For the sources of this folder.
#pragma once

#include "tril/kernels/cuda/attention_tiles.cuh"
#include "tril/kernels/cuda/attention_wgmma.cuh"

namespace tril::kernels::cuda {

constexpr int kGroupThreads = 128;  // of a warpgroup
static_assert(kBlock * kPanelColumns * 2 == kPanelBytes);

// Describes panels in [rows, heads, head_dim] to the copy engine. False if that is not possible.
bool describe_rows(CUtensorMap* map, const void* base, int64_t rows, int64_t heads,
                   int64_t head_dim, int64_t stride);

// Whether the kernels for long sequences support this shape; the backward pass without a bias only.
inline bool is_long_shape(const AttentionShape& shape) {
  return !shape.portable && shape.type == DType::bf16 &&
         (shape.head_dim == 64 || shape.head_dim == 128) && shape.widen_head == -1 &&
         !shape.descending_blocks && shape.scale > 0.0f;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A number that is the same for a whole warp, in a form that tells the compiler so.
__device__ __forceinline__ int same_for_warp(int x) { return __reduce_max_sync(kAllLanes, x); }
__device__ __forceinline__ uint32_t place_of(const unsigned char* memory) {
  return __reduce_max_sync(kAllLanes, operand_place(memory));
}
// The parity of the phase in which a buffer is used for the `use`-th time.
__device__ __forceinline__ int parity_of(int use) { return use & 1; }

// ---- the list of work ---------------------------------------------------------------------------
// Item number `number` of this block: rounds go back and forth, since items get shorter.
__device__ __forceinline__ int long_item(int number) {
  const int grid = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  return number * grid + (number % 2 == 0 ? block : grid - 1 - block);
}
__device__ __forceinline__ int long_items(int items) {
  const int rounds = items / static_cast<int>(gridDim.x);
  return rounds + (long_item(rounds) < items ? 1 : 0);
}
struct LongItem {
  int tile, head;
  __device__ __forceinline__ LongItem(int64_t heads, int number)
      : tile(long_item(number) / static_cast<int>(heads)),
        head(long_item(number) % static_cast<int>(heads)) {}
};

// ---- tiles --------------------------------------------------------------------------------------
// Starts to fetch 64 rows of a head.
template <int kDim>
__device__ __forceinline__ void copy_tile(unsigned char* to, const CUtensorMap& from, int head,
                                          int row, Barrier* barrier) {
#pragma unroll
  for (int panel = 0; panel < kDim / kPanelColumns; ++panel) {
    copy_panel(to + panel * kPanelBytes, from, panel * kPanelColumns, head, row, barrier);
  }
}

// The offset of k16 columns of a tile, in units of 16 bytes.
__device__ __forceinline__ constexpr uint32_t slice_place(int k) {
  return static_cast<uint32_t>(k / 4 * kPanelBytes + k % 4 * 32) / 16;
}
// Starts c = a bᵀ of two tiles.
template <int kDim>
__device__ __forceinline__ void start_rows(float (&c)[8][4], uint32_t a, uint32_t b) {
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    multiply_rows(c, operand(a + slice_place(k)), operand(b + slice_place(k)), k > 0 ? 1 : 0);
  }
}
// The same with a in registers.
template <int kCount>
__device__ __forceinline__ void start_rows(float (&c)[8][4], const Fragment (&a)[kCount],
                                           uint32_t b) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    multiply_rows(c, a[k], operand(b + slice_place(k)), k > 0 ? 1 : 0);
  }
}
// The 16 rows of this warp of a tile, in the form that start_rows() expects; a panel is a
// SharedTile.
template <int kCount>
__device__ __forceinline__ void load_rows(Fragment (&a)[kCount], unsigned char* tile) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const SharedTile<kPanelColumns> panel{tile + k / 4 * kPanelBytes};
    a[k] = panel.left(warp_id() % 4 * kSlice, k % 4 * 16);
  }
}
// Starts c += a b of weights [64, 64], two columns per register as start_rows() leaves them, and a
// tile.
template <int kCount>
__device__ __forceinline__ void start_columns(float (&c)[kCount][4], const uint32_t (&a)[8][2],
                                              uint32_t b) {
#pragma unroll
  for (int group = 0; group < kChunks; ++group) {
    const Fragment part{
        {a[2 * group][0], a[2 * group][1], a[2 * group + 1][0], a[2 * group + 1][1]}};
    add_columns(c, part, operand(b + group * kSlice * 128 / 16));
  }
}

// Whether an existing row of this thread contains an infinity or NaN.
template <int kCount>
__device__ __forceinline__ bool rows_not_finite(const float (&sums)[kCount][4],
                                                const int64_t (&row)[2]) {
  float test[2] = {0.0f, 0.0f};
#pragma unroll
  for (const auto& each : sums) {
#pragma unroll
    for (int e = 0; e < 4; ++e) test[e / 2] = __fmaf_rn(each[e], 0.0f, test[e / 2]);
  }
  return (row[0] >= 0 && test[0] != 0.0f) || (row[1] >= 0 && test[1] != 0.0f);
}

#endif  // sm_90a

}  // namespace tril::kernels::cuda
