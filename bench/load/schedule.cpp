#include "schedule.h"

#include <algorithm>
#include <cmath>

namespace load {
namespace {

// Splitmix64's step: every bit of the result depends on every bit of x.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

enum What : uint64_t { kArrival, kOptions, kStream, kCancel, kReset, kCancelAfter };

}  // namespace

double uniform(uint64_t seed, uint64_t what, uint64_t number) {
  return double(mixed(mixed(mixed(seed) + what) + number) >> 11) * 0x1p-53;
}

double PoissonArrivals::next() {
  now_ -= std::log1p(-uniform(seed_, kArrival, number_++)) / rate_;
  return now_;
}

Choice choose(const Mixture& mixture, uint64_t request) {
  const auto draw = [&](What what) { return uniform(mixture.seed, what, request); };
  Choice choice;
  choice.options =
      std::min(uint64_t(draw(kOptions) * double(mixture.options)), mixture.options - 1);
  choice.stream = draw(kStream) < mixture.stream;
  choice.cancel = draw(kCancel) < mixture.cancel;
  choice.reset = draw(kReset) < 0.5;
  choice.cancel_after = draw(kCancelAfter) * mixture.cancel_within;
  return choice;
}

}  // namespace load
