#include "tril/kernels/cuda/launch.cuh"
#include "tril/kernels/cuda/rows.cuh"
#include "tril/kernels/cuda/rows.h"

namespace tril::kernels::cuda {
namespace {

constexpr int kRotaryThreads = 128;

// One row per warp; a lane rotates eight pairs at a time.
template <class T>
__global__ void __launch_bounds__(kRotaryThreads) rotary_kernel(Rotary<T> r, Access access) {
  let_next_begin();
  wait_for_earlier();
  const int64_t row = int64_t{blockIdx.x} * (kRotaryThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= r.rows) return;
  const int half = static_cast<int>(r.head_dim / 2);
  const int packs = (half + kPack - 1) / kPack;
  const float* cosines = r.table + int64_t{r.positions[row]} * r.head_dim;
  for (int unit = lane_of_thread(); unit < static_cast<int>(r.heads) * packs; unit += kWarp) {
    const int at = unit % packs * kPack;
    const int count = count_below(at, half);
    const int64_t within = int64_t{unit / packs} * r.head_dim + at;
    const int64_t from = row * r.x_stride + within;
    const int64_t to = row * r.heads * r.head_dim + within;
    const Pack c = load(cosines + at, count, access);
    const Pack s = load(cosines + half + at, count, access);
    const Pack low = load(r.x + from, count, access);
    const Pack high = load(r.x + from + half, count, access);
    Pack turned_low, turned_high;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float sine = s.at[i] * r.sign;
      turned_low.at[i] = __fmaf_rn(-high.at[i], sine, low.at[i] * c.at[i]);
      turned_high.at[i] = __fmaf_rn(low.at[i], sine, high.at[i] * c.at[i]);
    }
    store(turned_low, r.y + to, count, access);
    store(turned_high, r.y + to + half, count, access);
  }
}

}  // namespace

template <class T>
void rotary(Stream stream, const Rotary<T>& args) {
  if (args.rows == 0) return;
  const bool whole = args.x_stride % kPack == 0;
  launch(stream, rotary_kernel<T>, blocks_for(args.rows, kRotaryThreads / kWarp), kRotaryThreads, 0,
         args, whole ? access_of(args.head_dim / 2, args.x, args.y, args.table) : Access::scalar);
}
template void rotary(Stream, const Rotary<float>&);
template void rotary(Stream, const Rotary<BFloat16>&);

}  // namespace tril::kernels::cuda
