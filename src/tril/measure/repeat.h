// Shared by all measurements: repeat, take the median, report.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tril/base/clock.h"
#include "tril/measure/measure.h"

namespace tril {

// The median time of one call, over as many calls as fit into the given time, at least `least`. The
// caller has warmed up caches, threads and the arena.
template <class F>
double median_of_warm(double budget, const F& call, size_t least) {
  std::vector<double> times;
  const Stopwatch all;
  do {
    const Stopwatch one;
    call();
    times.push_back(one.seconds());
  } while (all.seconds() < budget || times.size() < least);
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

// The same, after warm-up calls that are not counted.
template <class F>
double median_seconds(double budget, const F& call, size_t least = 5) {
  call();
  if (least > 3) call();
  return median_of_warm(budget, call, least);
}

// The results of a group, reported as they come.
class Results {
 public:
  Results(std::string group, const MeasureOptions& options)
      : group_(std::move(group)), options_(options) {}

  // Whether a measurement is requested; reports it as progress.
  bool wants(const std::string& name) const {
    if (name.find(options_.match) == std::string::npos) return false;
    tell(name);
    return true;
  }
  void tell(const std::string& what) const {
    if (options_.progress) options_.progress(group_ + " " + what);
  }
  void add(Measurement result) {
    result.group = group_;
    if (options_.peaks && result.seconds > 0.0) {
      const Roof roof = roof_of(*options_.peaks, result.arithmetic, result.gflop, result.traffic);
      result.roof = roof.name;
      result.share = roof.seconds / result.seconds;
    }
    if (options_.done) options_.done(result);
    list_.push_back(std::move(result));
  }
  std::vector<Measurement> take() { return std::move(list_); }

 private:
  std::string group_;
  const MeasureOptions& options_;
  std::vector<Measurement> list_;
};

}  // namespace tril
