// The learning rate of each update.
//
// It rises linearly over the warm-up to its peak, and then falls: with the inverse square root of
// the update's number (Vaswani et al., section 5.3), or along half a cosine to zero at the last
// update, or not at all.
#pragma once

#include <cstdint>

namespace tril {

enum class ScheduleType { inverse_sqrt, cosine, constant };

struct ScheduleOptions {
  ScheduleType type = ScheduleType::cosine;
  double peak = 4e-3;
  int64_t warm_up = 500;  // updates
  int64_t updates = 4000;
};

// For update 1, 2, ....
double learning_rate(const ScheduleOptions& options, int64_t update);

}  // namespace tril
