// Which average of the weights becomes the model (train/average.h says how it is computed).
#pragma once

#include <cstdint>

namespace tril {

enum class AverageType { none, exponential, checkpoints };

struct AverageOptions {
  AverageType type = AverageType::exponential;
  double decay = 0.998;     // exponential
  int64_t checkpoints = 5;  // how many
};

}  // namespace tril
