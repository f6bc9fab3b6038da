// The time a device takes for something short, without the time of the host that launches it.
#pragma once

#include <algorithm>
#include <cmath>

#include "tril/measure/repeat.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril {

// The median time of one `call()` on the context's device. Many calls form one kept step
// (device/queue.h), so that there is no gap between them; while one such step runs, which is not
// timed, the host walks and launches the next, which is timed from the end of the first to its own
// end. If the host is slower than the device, its time counts too, so that nothing looks faster
// than it is. What `call` allocates from context.arena is given back after it; it must not upload
// anything or end the step.
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
  // Algorithms are chosen by the first call; the next ones give an estimate of the time.
  constexpr int64_t kTrial = 10;
  enqueue(1);
  queue.wait();
  const Stopwatch trial;
  enqueue(kTrial);
  queue.wait();
  constexpr double kStepSeconds = 0.01;  // far longer than the host needs to walk and launch a step
  constexpr double kMostCalls = 1000;    // in one graph
  const double about = std::max(trial.seconds() / kTrial, 1e-9);
  const auto calls = static_cast<int64_t>(std::clamp(kStepSeconds / about, 1.0, kMostCalls));
  constexpr int kUntilKept = 4;
  for (int i = 0; i < kUntilKept; ++i) enqueue(calls);
  Arena own(context.device());
  const Tensor mark(own, {1});  // only the time of its arrival matters, not its bytes
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
    constexpr double kAtOnce = 2e-5;  // no waiting: the first step had already ended
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
