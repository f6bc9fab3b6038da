// Random inputs of kernels, for the measurements.
#pragma once

#include <algorithm>
#include <vector>

#include "tril/base/rng.h"
#include "tril/tensor/arena.h"
#include "tril/tensor/mask.h"
#include "tril/tensor/tensor.h"

namespace tril {

inline Tensor random_tensor(Arena& arena, const Shape& shape, Random& random) {
  const Tensor tensor(arena, shape);
  std::generate_n(tensor.data(), tensor.size(), [&] { return random.uniform(-1.0f, 1.0f); });
  return tensor;
}

// For causal attention on packed sequences.
struct AttentionInputs {
  Arena arena;
  Mask mask;
  Tensor q, k, v, dout;

  AttentionInputs(int64_t batch, int64_t length, int64_t heads, int64_t head_dim) {
    std::vector<Segment> segments;
    for (int64_t i = 0; i < batch; ++i) {
      segments.push_back({static_cast<int32_t>(i * length), static_cast<int32_t>(length)});
    }
    mask = Mask::causal(segments);
    Random random(1);
    for (Tensor* tensor : {&q, &k, &v, &dout}) {
      *tensor = random_tensor(arena, {batch * length, heads, head_dim}, random);
    }
  }
};

}  // namespace tril
