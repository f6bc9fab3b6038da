// Building blocks of products on tensor cores: asynchronous copies into shared memory, tiles laid
// out so that loads have no bank conflicts, fragments of such tiles, and the multiply-add.
// Everything is available from compute capability 8.0 on.
//
// A tile is a part of a matrix in shared memory: rows of 64 or more bf16 elements, in pieces of 8
// (16 bytes). Piece p of row r is stored at the place of piece p ^ (r mod 8).
#pragma once

#include <cstdint>

namespace tril::kernels::cuda::core {

constexpr int kPiece = 8;   // elements in 16 bytes
constexpr int kTerms = 16;  // of one multiply-add

// In elements, from the beginning of the tile.
template <int kColumns>
__host__ __device__ constexpr int place(int row, int piece) {
  static_assert(kColumns % 64 == 0, "eight pieces change places");
  return row * kColumns + ((piece ^ (row & 7)) * kPiece);
}

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Writes 16 bytes of shared memory: the first `bytes` from `from`, then zeros.
__device__ inline void copy_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes)
               : "memory");
}
// The copies since the last commit are a group; wait_for_copies<n>() waits for all but the last n
// groups of this thread.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int kGroups>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kGroups) : "memory");
}

// Four 8x8 matrices, whose row addresses the lanes give: lanes 8 i to 8 i + 7 those of matrix i.
// Lane l gets of each the elements 2 (l mod 4) and the next of row l / 4; transposed: of column l /
// 4.
__device__ inline void load_matrices(uint32_t (&to)[4], const void* row_of_lane) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row_of_lane))
               : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], const void* row_of_lane) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row_of_lane))
               : "memory");
}

// c[16][8] += a[16][16] b[16][8]. Lane l holds of a the rows l / 4 and 8 below and the terms
// 2 (l mod 4), the next, and those 8 on; of b the same terms of column l / 4; of c rows l / 4 and
// 8 below, columns 2 (l mod 4) and the next.
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b_low,
                                    uint32_t b_high) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

}  // namespace tril::kernels::cuda::core
