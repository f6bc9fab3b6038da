#include "tril/train/schedule.h"

#include <algorithm>
#include <cmath>

#include "tril/base/math.h"

namespace tril {

double learning_rate(const ScheduleOptions& options, int64_t update) {
  const auto at = static_cast<double>(update);
  const auto warm_up = static_cast<double>(std::max<int64_t>(options.warm_up, 1));
  if (at < warm_up) return options.peak * at / warm_up;
  switch (options.type) {
    case ScheduleType::inverse_sqrt: return options.peak * std::sqrt(warm_up / at);
    case ScheduleType::cosine: {
      const double rest = std::max(static_cast<double>(options.updates) - warm_up, 1.0);
      const double share = std::min((at - warm_up) / rest, 1.0);
      return options.peak * 0.5 * (1.0 + math::cos(math::kPi * share));
    }
    case ScheduleType::constant: break;
  }
  return options.peak;
}

}  // namespace tril
