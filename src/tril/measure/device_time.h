// The time a device takes for something short, without that of the host that asks for it.
#pragma once

#include <algorithm>
#include <cmath>

#include "tril/measure/repeat.h"
#include "tril/tensor/context.h"

namespace tril {

// The median time of one `call()` on the context's device. Many calls are one kept step
// (device/queue.h), so that there is no gap between them; and while one such step runs, which is
// not timed, the host walks and launches the next, which is: from the end of the first to the end
// of the second. Should the host be slower than the device its time counts too, so that nothing
// looks faster than it is. What `call` takes from context.arena is given back after it; it may
// upload nothing and may not end the step.
template <class F>
double device_seconds(Context& context, double budget, const F& call) {
  const auto calls_of = [&](int64_t calls) {
    for (int64_t i = 0; i < calls; ++i) {
      const Arena::Scope given_back(context.arena);
      call();
    }
  };
  if (context.device() == Device::cpu) return median_seconds(budget, [&] { calls_of(1); });
  Queue& queue = context.queue;
  const auto enqueue = [&](int64_t calls) { queue.step([&] { calls_of(calls); }); };
  // Algorithms are chosen by the first call; the next ones say about how long one takes.
  constexpr int64_t kTrial = 10;
  enqueue(1);
  queue.wait();
  const Stopwatch trial;
  enqueue(kTrial);
  queue.wait();
  constexpr double kStepSeconds = 0.01;  // far more than the host needs to walk and launch it
  constexpr double kMostCalls = 1000;    // in one graph
  const double about = std::max(trial.seconds() / kTrial, 1e-9);
  const auto calls = static_cast<int64_t>(std::clamp(kStepSeconds / about, 1.0, kMostCalls));
  constexpr int kUntilKept = 4;
  for (int i = 0; i < kUntilKept; ++i) enqueue(calls);
  Arena own(context.device());
  const Tensor mark(own, {1});  // its bytes mean nothing: when they come does
  set_zero(mark);
  const auto once = [&] {
    enqueue(calls);
    const int64_t first = queue.fetch(mark.raw(), sizeof(float));
    const Stopwatch watch;
    enqueue(calls);
    const double launched = watch.seconds();
    float nothing = 0.0f;
    queue.fetched(first, &nothing, sizeof nothing);
    const double began = watch.seconds();
    queue.wait();
    constexpr double kAtOnce = 2e-5;  // nobody had to wait: the first step was over before
    const double uncounted = began - launched < kAtOnce ? 0.0 : began;
    return (watch.seconds() - uncounted) / static_cast<double>(calls);
  };
  std::vector<double> times;
  const Stopwatch all;
  while (all.seconds() < budget || times.size() < 5) times.push_back(once());
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace tril
