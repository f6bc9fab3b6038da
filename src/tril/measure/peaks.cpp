#include "tril/measure/peaks.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "tril/base/clock.h"
#include "tril/base/cpu.h"
#include "tril/base/error.h"
#include "tril/base/parallel.h"
#include "tril/measure/peak_loops.h"
#include "tril/tensor/arena.h"

namespace tril {
namespace {

// The most work per second of `call`, which returns how much it did.
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

// Runs a loop on all threads: returns the total number of operations.
int64_t on_all(const Parallel& parallel, int64_t (*loop)(int64_t), int64_t rounds) {
  std::vector<int64_t> done(static_cast<size_t>(parallel.threads()));
  parallel(parallel.threads(),
           [&](int64_t task) { done[static_cast<size_t>(task)] = loop(rounds); });
  int64_t sum = 0;
  for (const int64_t operations : done) sum += operations;
  return sum;
}

// Each thread goes through its own part of an array of this many bytes again and again.
MemoryPeak memory_peak(const std::string& name, int64_t holds, const Parallel& parallel,
                       int64_t bytes, double budget) {
  const int64_t threads = parallel.threads();
  const int64_t part = bytes / threads / static_cast<int64_t>(sizeof(float));
  Arena arena;  // memory like the kernels': in huge pages if the system has them
  float* array = arena.allocate_array<float>(part * threads);
  std::fill_n(array, part * threads, 0.0f);
  std::vector<float> sums(static_cast<size_t>(threads));
  // A try must last long enough for the threads to wake up: at least 64 MiB per thread.
  const int64_t times = std::max<int64_t>(1, 16 * kMebibyte / part);
  const double each = static_cast<double>(times * part * threads) * sizeof(float);
  const auto on_parts = [&](const auto& loop) {
    parallel(threads, [&](int64_t task) {
      for (int64_t i = 0; i < times; ++i) loop(task, array + task * part);
    });
  };
  MemoryPeak peak{name, holds};
  peak.read = 1e-9 * best_per_second(budget, [&] {
                on_parts([&](int64_t task, const float* from) {
                  sums[static_cast<size_t>(task)] += read_loop(from, part);
                });
                return each;
              });
  peak.update = 1e-9 * best_per_second(budget, [&] {
                  on_parts([&](int64_t, float* own) { update_loop(own, part); });
                  return 2.0 * each;
                });
  return peak;
}

// The size of a cache as the system reports it; all data caches of a level have the same size. Not
// from sysconf: glibc multiplies the last level by the cores of some processors.
int64_t cache_bytes(int64_t level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = concat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    int64_t found = 0;
    int64_t size = 0;
    char unit = 'K';
    std::ifstream(folder + "level") >> found;
    std::ifstream(folder + "size") >> size >> unit;
    if (found == level && level > 1) return size * (unit == 'M' ? kMebibyte : 1024);
  }
  return 0;
}

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
  // Arrays that take a half or a quarter of a cache, so that it certainly holds them; the last
  // level is shared, perhaps with other processes.
  const int64_t near = cache_bytes(2) * peaks.threads;
  const int64_t far = cache_bytes(3);
  if (near > 0) {
    peaks.memory.push_back(memory_peak("L2", near, parallel, near / 2, seconds_each));
  }
  if (far > near) {
    peaks.memory.push_back(memory_peak("L3", far, parallel, far / 4, seconds_each));
  }
  peaks.memory.push_back(memory_peak("memory", std::numeric_limits<int64_t>::max(), parallel,
                                     std::max(256 * kMebibyte, 4 * far), seconds_each));
  return peaks;
}

double MemoryPeak::seconds(const Traffic& traffic) const {
  const double writing = std::max(0.0, 2.0 / update - 1.0 / read);
  return traffic.read / read + traffic.written * writing;
}

Roof roof_of(const Peaks& peaks, Arithmetic arithmetic, double gflop, const Traffic& traffic) {
  struct Peak {
    const char* name;
    double each_second;
  };
  const Peak all[] = {
      {"fp32", peaks.gflops}, {"int8", peaks.int8_gops}, {"bf16", peaks.bf16_gflops}};
  const Peak& peak = all[static_cast<size_t>(arithmetic)];
  Roof roof;
  if (gflop > 0.0 && peak.each_second > 0.0) roof = {peak.name, gflop / peak.each_second};
  const double bytes = 1e9 * (traffic.read + traffic.written);
  if (bytes <= 0.0) return roof;
  for (const MemoryPeak& memory : peaks.memory) {
    if (bytes > static_cast<double>(memory.holds)) continue;
    const double seconds = memory.seconds(traffic);
    if (seconds > roof.seconds) roof = {memory.name, seconds};
    break;
  }
  return roof;
}

}  // namespace tril
