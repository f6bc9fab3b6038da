// Running averages of weights on CUDA: many tensors in one launch.
//
//   to[i] = to[i] + share (from[i] - to[i]), each operation rounded on its own
//
// Elementwise. Kernels neither allocate nor throw.
#pragma once

#include <cstdint>

#include "tril/base/stream.h"

namespace tril::kernels::cuda {

constexpr int64_t kWeightChunk = 4096;  // elements of one block

struct WeightPair {
  const float* from = nullptr;
  float* to = nullptr;
  int64_t size = 0;
};
// `pairs` and `starts` lie on the device: starts [count + 1] holds the first chunk of each pair,
// and at the end their total.
struct MoveTowards {
  const float* share = nullptr;  // [1], on the device too
  const WeightPair* pairs = nullptr;
  const int32_t* starts = nullptr;
  int64_t count = 0;
  int64_t chunks = 0;
};
void move_towards(Stream stream, const MoveTowards& args);

}  // namespace tril::kernels::cuda
