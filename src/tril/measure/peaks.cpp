#include "tril/measure/peaks.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "tril/base/clock.h"
#include "tril/base/cpu.h"
#include "tril/base/error.h"
#include "tril/base/parallel.h"
#include "tril/measure/peak_loops.h"

namespace tril {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

// The most that `call`, which returns how much it did, did in a second.
template <class F>
double best_per_second(double budget, const F& call) {
  double best = 0.0;
  const Stopwatch all;
  do {
    const Stopwatch one;
    const auto done = static_cast<double>(call());
    best = std::max(best, done / one.seconds());
  } while (all.seconds() < budget);
  return best;
}

// All threads run a loop of so many rounds: operations done.
int64_t on_all(const Parallel& parallel, int64_t (*loop)(int64_t), int64_t rounds) {
  std::vector<int64_t> done(static_cast<size_t>(parallel.threads()));
  parallel(parallel.threads(),
           [&](int64_t task) { done[static_cast<size_t>(task)] = loop(rounds); });
  int64_t sum = 0;
  for (const int64_t operations : done) sum += operations;
  return sum;
}

// 10^9 bytes a second, each thread reading its own part of an array of so many bytes again and
// again.
double read_peak(const Parallel& parallel, int64_t bytes, double budget) {
  const int64_t threads = parallel.threads();
  const int64_t part = bytes / threads / static_cast<int64_t>(sizeof(float));
  const auto array = std::make_unique<float[]>(static_cast<size_t>(part * threads));
  std::vector<float> sums(static_cast<size_t>(threads));
  // A try lasts long enough for the threads to wake up: at least 64 MiB a thread.
  const int64_t times = std::max<int64_t>(1, 16 * kMebibyte / part);
  const double best = best_per_second(budget, [&] {
    parallel(threads, [&](int64_t task) {
      for (int64_t i = 0; i < times; ++i) {
        sums[static_cast<size_t>(task)] += read_loop(array.get() + task * part, part);
      }
    });
    return times * part * threads * static_cast<int64_t>(sizeof(float));
  });
  return 1e-9 * best;
}

int64_t cache_bytes(int name) { return std::max<int64_t>(0, ::sysconf(name)); }

}  // namespace

Peaks measure_peaks(int threads, double seconds_each) {
  require(seconds_each > 0.0, ErrorCode::invalid_argument,
          "measure_peaks: seconds are above 0, not ", seconds_each);
  current_target();  // chooses the instruction set
  const Parallel parallel(threads);
  Peaks peaks;
  peaks.threads = parallel.threads();
  constexpr int64_t kRounds = 2'000'000;  // some milliseconds
  peaks.gflops =
      1e-9 * best_per_second(seconds_each, [&] { return on_all(parallel, fma_loop, kRounds); });
  if (int8_loop(1) > 0) {
    peaks.int8_gops =
        1e-9 * best_per_second(seconds_each, [&] { return on_all(parallel, int8_loop, kRounds); });
  }
  // Half of a cache is read, so that it surely holds the array; the last level is shared.
  const int64_t near = cache_bytes(_SC_LEVEL2_CACHE_SIZE) * peaks.threads;
  const int64_t far = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
  if (near > 0) peaks.memory.push_back({"L2", near, read_peak(parallel, near / 2, seconds_each)});
  if (far > near) peaks.memory.push_back({"L3", far, read_peak(parallel, far / 2, seconds_each)});
  const int64_t beyond = std::max(256 * kMebibyte, 8 * far);
  peaks.memory.push_back({"memory", std::numeric_limits<int64_t>::max(),
                          read_peak(parallel, beyond, 2.0 * seconds_each)});
  return peaks;
}

Roof roof_of(const Peaks& peaks, Arithmetic arithmetic, double gflop, double gigabytes) {
  Roof roof;
  const double operations = arithmetic == Arithmetic::fp32 ? peaks.gflops : peaks.int8_gops;
  if (gflop > 0.0 && operations > 0.0) {
    roof = {arithmetic == Arithmetic::fp32 ? "fp32" : "int8", gflop / operations};
  }
  if (gigabytes <= 0.0) return roof;
  for (const MemoryPeak& memory : peaks.memory) {
    if (1e9 * gigabytes > static_cast<double>(memory.holds)) continue;
    const double seconds = gigabytes / memory.gigabytes_per_s;
    if (seconds > roof.seconds) roof = {memory.name, seconds};
    break;
  }
  return roof;
}

}  // namespace tril
