// Moment: a point in time of std::chrono::steady_clock, for public headers, which do without
// <chrono> because including it takes long. Whoever has a time_point of that clock passes it as it
// is:
//
//   pending.wait_until(std::chrono::steady_clock::now() + 2s);
#pragma once

#include <cstdint>

namespace tril {

struct Moment {
  int64_t nanoseconds = 0;  // since the clock's epoch

  Moment() = default;
  template <class TimePoint>
  requires(TimePoint::clock::is_steady)
      Moment(const TimePoint& time)  // NOLINT: the same point in time
      : nanoseconds(static_cast<int64_t>(time.time_since_epoch().count()) *
                    (TimePoint::period::num * (1'000'000'000 / TimePoint::period::den))) {
    static_assert(1'000'000'000 % TimePoint::period::den == 0, "not a number of nanoseconds");
  }
};

}  // namespace tril
