// What only sm_90a has, for attention: barriers in shared memory, tiles fetched by the copy engine,
// and warpgroup products. For the sources of this folder; all PTX of the attention kernels is here
// and in attention_warp.cuh.
//
// A warpgroup is four warps, the first a multiple of four; in the product c += a b of m64nNk16,
// warp w of it has rows 16 w to 16 w + 15 of a and c, as a and c of m16n8k16 side by side. b lies
// in shared memory, a there or in registers.
//
// A panel is [64 rows, 64 columns] of bf16, 128 bytes per row, beginning at a multiple of 1024
// bytes, each row's eight chunks of 16 bytes permuted by row % 8: what the copy engine calls a
// swizzle of 128 bytes. Wider tiles are consecutive panels.
#pragma once

#include <cuda.h>

#include "tril/kernels/cuda/attention_warp.cuh"

namespace tril::kernels::cuda {

constexpr int kPanelColumns = 64;
constexpr int kPanelBytes = 64 * kPanelColumns * 2;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ---- barriers -----------------------------------------------------------------------------------
// A barrier has phases; a phase ends when `count` threads have arrived and all expected bytes have
// come.
using Barrier = uint64_t;

__device__ __forceinline__ void barrier_init(Barrier* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
}
// To be called after all inits, before other threads use them.
__device__ __forceinline__ void barriers_made() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
// Arrives, and makes the phase wait for this many bytes of copies.
__device__ __forceinline__ void barrier_expect(Barrier* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
// Whether the phase of this parity has ended; the one before the first has parity 1 and counts as
// ended.
__device__ __forceinline__ bool barrier_ended(Barrier* barrier, int parity) {
  uint32_t ended;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(ended)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return ended != 0;
}
__device__ __forceinline__ void barrier_wait(Barrier* barrier, int parity) {
  uint32_t ended = 0;
  do {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(ended)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  } while (ended == 0);
}

// True for one lane of the warp, always the same; the compiler knows that there is only one.
__device__ __forceinline__ bool is_elected() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

// ---- registers ----------------------------------------------------------------------------------
// Warps that need few registers release some; then other warps can take them.
template <int kCount>
__device__ __forceinline__ void registers_down_to() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void registers_up_to() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// ---- copies -------------------------------------------------------------------------------------
// Fetches a panel from columns `column`.. of rows `row`.. of a head; rows that do not exist are
// zero. One thread issues it, and the barrier counts the bytes.
__device__ __forceinline__ void copy_panel(unsigned char* to, const CUtensorMap& from, int column,
                                           int head, int row, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
      "l"(&from), "r"(column), "r"(head), "r"(row), "r"(shared_address(barrier))
      : "memory");
}

// This many contiguous bytes; address and number are multiples of 16.
__device__ __forceinline__ void copy_bytes(void* to, const void* from, int bytes,
                                           Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// ---- products -----------------------------------------------------------------------------------
// The location of an operand: the lower half is the address, to which multiples of 16 bytes may be
// added; the upper half, the same for all, says that rows are swizzled and groups of eight of them
// 1024 bytes apart. The address part also says how far apart panels are, for products over columns
// of several at once.
__device__ __forceinline__ uint32_t operand_place(const unsigned char* memory) {
  return shared_address(memory) / 16 | static_cast<uint32_t>(kPanelBytes / 16) << 16;
}
__device__ __forceinline__ uint64_t operand(uint32_t place) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kGroupStride = uint64_t{1024 / 16} << 32;
  return kSwizzle128 | kGroupStride | place;
}

// Registers are ready for products; the products so far form a group; all groups are done.
__device__ __forceinline__ void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// Products write these registers without the compiler's knowledge: prevents moving code across.
template <int kCount>
__device__ __forceinline__ void pin(float (&c)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(c[i][e])::"memory");
  }
}
template <int kCount>
__device__ __forceinline__ void pin(uint32_t (&a)[kCount][2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int e = 0; e < 2; ++e) asm volatile("" : "+r"(a[i][e])::"memory");
  }
}

#define TRIL_PINNED_4(c, i) "+f"((c)[i][0]), "+f"((c)[i][1]), "+f"((c)[i][2]), "+f"((c)[i][3])
#define TRIL_PINNED_32(c, i)                                                                      \
  TRIL_PINNED_4(c, i), TRIL_PINNED_4(c, i + 1), TRIL_PINNED_4(c, i + 2), TRIL_PINNED_4(c, i + 3), \
      TRIL_PINNED_4(c, i + 4), TRIL_PINNED_4(c, i + 5), TRIL_PINNED_4(c, i + 6),                  \
      TRIL_PINNED_4(c, i + 7)

// c = a bᵀ, or c += a bᵀ, of k16 columns of rows; both in shared memory.
__device__ __forceinline__ void multiply_rows(float (&c)[8][4], uint64_t a, uint64_t b, int adds) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, p, 1, 1, 0, 0;\n"
      "}"
      : TRIL_PINNED_32(c, 0)
      : "l"(a), "l"(b), "r"(adds));
}
// The same with a in registers.
__device__ __forceinline__ void multiply_rows(float (&c)[8][4], const Fragment& a, uint64_t b,
                                              int adds) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n"
      "}"
      : TRIL_PINNED_32(c, 0)
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "l"(b), "r"(adds));
}
// c += a b of k16 rows; a in registers.
__device__ __forceinline__ void add_columns(float (&c)[8][4], const Fragment& a, uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.eq.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n"
      "}"
      : TRIL_PINNED_32(c, 0)
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "l"(b));
}
__device__ __forceinline__ void add_columns(float (&c)[16][4], const Fragment& a, uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.eq.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n"
      "}"
      : TRIL_PINNED_32(c, 0), TRIL_PINNED_32(c, 8)
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "l"(b));
}

#undef TRIL_PINNED_32
#undef TRIL_PINNED_4

#endif  // sm_90a

}  // namespace tril::kernels::cuda
