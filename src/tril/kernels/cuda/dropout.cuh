// The bits of a dropout mask, computed by a warp (kernels/dropout.h says which number decides
// what).
#pragma once

#include <cmath>

#include "tril/base/rng.h"
#include "tril/kernels/cuda/rows.cuh"
#include "tril/kernels/cuda/rows.h"
#include "tril/kernels/dropout.h"

namespace tril::kernels::cuda {

// The arguments of dropout in the form kernels take.
struct Mask {
  const DropoutSeed* seed = nullptr;
  const int32_t* sentences = nullptr;
  const int32_t* positions = nullptr;
  uint32_t first_counter = 0;  // of the site
  uint32_t threshold = 0;      // kept if the 16 bits are not below it
  float scale = 1.0f;
};

inline float dropout_scale(float probability) { return 1.0f / (1.0f - probability); }

inline Mask mask_of(const Dropout& args) {
  // u is a multiple of 2^-16: u >= p means that multiple >= p 2^16, rounded up.
  return {args.seed,
          args.sentences,
          args.positions,
          args.site << 16,
          static_cast<uint32_t>(std::ceil(args.probability * 0x1p16f)),
          dropout_scale(args.probability)};
}

// The random numbers of a row.
struct RowMask {
  uint64_t seed = 0;
  Words4 counter{};  // the last word is that of the site
  uint32_t threshold = 0;

  __device__ RowMask() {}
  __device__ RowMask(const Mask& mask, int64_t row)
      : seed(mask.seed->seed),
        counter{mask.seed->step, static_cast<uint32_t>(mask.sentences[row]),
                static_cast<uint32_t>(mask.positions[row]), mask.first_counter},
        threshold(mask.threshold) {}

  // The byte of bits of the lane's pack in stretch `stretch` of 256 features. All lanes must call
  // it. 256 features are twice 128, whose 16 counters serve features 16 apart: lane l draws counter
  // l mod 16 of half l / 16, so the ballot over its j-th number has the bits of features 16 j to 16
  // j + 15 of both halves one after the other; eight of them are one byte.
  __device__ uint32_t kept(int stretch) const {
    const int lane = lane_of_thread();
    Words4 mine = counter;
    mine[3] += static_cast<uint32_t>(stretch * kWarp + lane);
    const Words4 words = philox(seed, mine);
    const int wanted = lane % 16 / 2;
    uint32_t bits = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const uint32_t u = j < 4 ? words[j] & 0xFFFFu : words[j - 4] >> 16;
      const uint32_t ballot = __ballot_sync(kAllLanes, u >= threshold);
      if (j == wanted) bits = ballot;
    }
    return bits >> (lane / 16 * 16 + lane % 2 * 8) & 0xFFu;
  }
};

// x times `scale` where the bit is set, else zero.
__device__ inline Pack keep(const Pack& x, uint32_t bits, float scale) {
  Pack y;
#pragma unroll
  for (int i = 0; i < kPack; ++i) y.at[i] = (bits >> i & 1) != 0 ? x.at[i] * scale : 0.0f;
  return y;
}

}  // namespace tril::kernels::cuda
