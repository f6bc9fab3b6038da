// What is drawn at random: when requests arrive, and what each is like. All of it is the same for
// the same seed, however fast a server answers.
#pragma once

#include <cstdint>

namespace load {

// Evenly spread over [0, 1), the same for the same three numbers.
double uniform(uint64_t seed, uint64_t what, uint64_t number);

// Arrivals of many people who do not know of each other, so many a second on average.
class PoissonArrivals {
 public:
  PoissonArrivals(double rate, uint64_t seed) : rate_(rate), seed_(seed) {}

  // Seconds from the beginning to the next arrival.
  double next();

 private:
  double rate_;
  uint64_t seed_;
  uint64_t number_ = 0;
  double now_ = 0;
};

// Shares of requests.
struct Mixture {
  uint64_t seed = 1;
  uint64_t options = 1;  // objects to choose from
  double stream = 0;
  double cancel = 0;
  double cancel_within = 0;
};

struct Choice {
  uint64_t options = 0;
  bool stream = false;
  bool cancel = false;
  bool reset = false;  // a cancelled connection is reset, not closed
  double cancel_after = 0;
};

Choice choose(const Mixture& mixture, uint64_t request);

}  // namespace load
