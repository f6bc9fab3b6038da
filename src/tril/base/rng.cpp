#include "tril/base/rng.h"

#include <cmath>

#include "tril/base/math.h"

namespace tril {

float Random::normal() {
  // 1 - u lies in (0, 1], so the logarithm is finite. sqrt is exact by IEEE 754.
  const double radius = std::sqrt(-2.0 * math::log(1.0 - static_cast<double>(uniform())));
  const double angle = 2.0 * math::kPi * static_cast<double>(uniform());
  return static_cast<float>(radius * math::cos(angle));
}

}  // namespace tril
