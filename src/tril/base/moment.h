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
      : nanoseconds(whole(time.time_since_epoch().count(),
                          TimePoint::period::num * (1'000'000'000 / TimePoint::period::den))) {
    static_assert(1'000'000'000 % TimePoint::period::den == 0, "not a number of nanoseconds");
  }

 private:
  // Times that are too far away are the farthest there are; parts of a nanosecond are left out.
  template <class Count>
  static int64_t whole(Count count, int64_t factor) {
    constexpr int64_t kMost = INT64_MAX;
    const auto most = static_cast<Count>(kMost / factor);
    if (count >= most) return kMost;
    if (count <= -most) return -kMost;
    return static_cast<int64_t>(count * static_cast<Count>(factor));
  }
};

}  // namespace tril
