// What the kernels for long sequences share: tiles of 64 rows in panels, as the copy engine finds
// and brings them, products of a warpgroup with whole tiles, and the walk over a list of work. For
// the sources of this folder.
#pragma once

#include "tril/kernels/cuda/attention_tiles.cuh"
#include "tril/kernels/cuda/attention_wgmma.cuh"

namespace tril::kernels::cuda {

constexpr int kGroupThreads = 128;  // of a warpgroup
static_assert(kBlock * kPanelColumns * 2 == kPanelBytes);

// How the copy engine finds panels in [rows, heads, head_dim]. False where there is none.
bool describe_rows(CUtensorMap* map, const void* base, int64_t rows, int64_t heads,
                   int64_t head_dim, int64_t stride);

// Whether the kernels for long sequences know this shape.
inline bool is_long_shape(const AttentionShape& shape) {
  return !shape.portable && shape.type == DType::bf16 &&
         (shape.head_dim == 64 || shape.head_dim == 128) && shape.bias == nullptr &&
         shape.widen_head == -1 && !shape.descending_blocks && shape.scale > 0.0f;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A number that is the same for a whole warp, said so that the compiler knows.
__device__ __forceinline__ int same_for_warp(int x) { return __reduce_max_sync(kAllLanes, x); }
__device__ __forceinline__ uint32_t place_of(const unsigned char* memory) {
  return __reduce_max_sync(kAllLanes, operand_place(memory));
}
// The parity of the phase in which a place is used for the `use`-th time.
__device__ __forceinline__ int parity_of(int use) { return use & 1; }

// ---- the list of work ---------------------------------------------------------------------------
// Number `number` of a block's items: rounds go forth and back, since items get shorter.
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
// Asks for 64 rows of a head.
template <int kDim>
__device__ __forceinline__ void copy_tile(unsigned char* to, const CUtensorMap& from, int head,
                                          int row, Barrier* barrier) {
#pragma unroll
  for (int panel = 0; panel < kDim / kPanelColumns; ++panel) {
    copy_panel(to + panel * kPanelBytes, from, panel * kPanelColumns, head, row, barrier);
  }
}

// Where k16 columns of a tile begin, in 16ths of bytes.
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
// The 16 rows of this warp of a tile, as start_rows() wants them; a panel is a SharedTile.
template <int kCount>
__device__ __forceinline__ void load_rows(Fragment (&a)[kCount], unsigned char* tile) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const SharedTile<kPanelColumns> panel{tile + k / 4 * kPanelBytes};
    a[k] = panel.left(warp_id() % 4 * kSlice, k % 4 * 16);
  }
}
// Starts c += a b of weights [64, 64], two columns a register as they leave start_rows(), and a
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

// Whether a row of this thread that is there holds something infinite or not a number.
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
