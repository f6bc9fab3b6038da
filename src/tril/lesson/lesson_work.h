// Lesson `work`: "sequential training is O(n), parallel training is O(1)". That is true only of the
// number of steps that wait for each other: the work of a parallel step grows with the length too.
// What parallel training gains is that the machine has much to do at once.
//
// Counted: calls of forward(), which wait for each other if each reads what the one before
// predicted, and positions computed. Measured: the time of one training step, and from it the share
// of the machine's peak that was used.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tril/models/transformer.h"

namespace tril {

struct WorkWay {
  int64_t steps = 0;      // calls of forward()
  int64_t positions = 0;  // over all calls
  double gflop = 0.0;     // multiplications and additions of the step, in 10^9
  double seconds = 0.0;
  double gflops() const { return gflop / seconds; }
};

struct WorkRow {
  int64_t words = 0;  // of the target; END adds one position
  WorkWay sequential{}, parallel{};
  // The necessary work, divided by the time it took prefix by prefix: everything else computed
  // there is repeated work.
  double useful_gflops() const { return parallel.gflop / sequential.seconds; }
};

struct WorkLesson {
  TransformerConfig config{};
  Device device = Device::cpu;
  double peak_gflops = 0.0;  // as given
  std::vector<WorkRow> rows{};

  // n + 1 steps against 1, whatever n is; the parallel work grows with the length, so it is not
  // constant; prefix by prefix it grows with the square.
  bool counts_hold = false;
  // And for the longest target the parallel way does more useful work per second, in this run.
  bool holds = false;
};

struct WorkOptions {
  std::vector<int64_t> words = {7, 31, 127};  // ascending, at least two
  TransformerConfig config = default_config();
  Placement placement{};
  int threads = 0;
  double peak_gflops = 0.0;  // of the machine, for comparison; 0: unknown
  // Called before each row, and each of its sequential steps; may be empty.
  std::function<void(int64_t words, int64_t done, int64_t all)> progress{};

  // A decoder-only model of 4 layers, 256 wide: large enough to fill a CPU.
  static TransformerConfig default_config();
};
WorkLesson teach_work(const WorkOptions& options = {});

}  // namespace tril
