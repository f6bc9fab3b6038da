// The machine's own peaks, and how near to them a measurement comes: the roofline.
//
// Arithmetic is timed by loops that do nothing else, on registers; memory by reading an array that
// fits into a cache, or into none, and by adding to it in place. A peak is the best of several
// tries, because disturbances can only make it smaller. The roof of a piece of work is the least
// time it needs: its operations at the peak of the arithmetic, or its bytes at the speed of the
// nearest memory that holds them all, whichever is longer (Williams, Waterman and Patterson, CACM
// 52(4), 2009).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tril/device/device.h"

namespace tril {

// The type of operation: fused multiply-adds in fp32, int8 products, or bf16 products summed in
// fp32, as on CUDA GPUs.
enum class Arithmetic { fp32, int8, bf16 };

// Bytes moved: inputs read once, results written once. In 10^9.
struct Traffic {
  double read = 0.0;
  double written = 0.0;
};

inline constexpr int64_t kMebibyte = int64_t{1} << 20;

struct MemoryPeak {
  std::string name{};   // "L2", "L3", "memory"
  int64_t holds = 0;    // bytes, over all threads; memory holds everything
  double read = 0.0;    // 10^9 bytes per second, reading
  double update = 0.0;  // the same for adding in place, bytes read and written together
  // Reading costs its bytes at `read`; writing costs what adding in place costs above reading.
  double seconds(const Traffic& traffic) const;
};

struct Peaks {
  int threads = 0;
  double gflops = 0.0;               // a multiply-add counts as two; 0 if not measured
  double int8_gops = 0.0;            // 0 if there is no instruction for int8 products
  double bf16_gflops = 0.0;          // of a CUDA GPU
  std::vector<MemoryPeak> memory{};  // from near to far; caches of unknown size are left out
};
// Takes about eight times `seconds_each`. Raises `invalid_argument` for a time that is not above 0.
Peaks measure_peaks(int threads, double seconds_each = 0.1);
// A GPU's: a large product of bf16 by whatever algorithm cuBLASLt likes best; reading and
// copying, which stands for adding in place, within its memory and within its L2.
// Medians: what a GPU does for a moment it does not keep up.
// Raises `device` for one that cannot be used.
Peaks measure_cuda_peaks(Device device, double seconds_each = 0.1);

// The least time for this many 10^9 operations and this traffic, and what limits it.
struct Roof {
  // "fp32", "int8", "bf16" or the name of a memory; empty where no peak applies
  std::string name{};
  double seconds = 0.0;
};
Roof roof_of(const Peaks& peaks, Arithmetic arithmetic, double gflop, const Traffic& traffic);

}  // namespace tril
