// What a run has found.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace load {

// The least value that so large a share (0 to 1) of the values does not exceed; 0 of none. Sorts
// them.
double percentile(std::vector<double>& values, double share);

struct Report {
  // Requests of the time that counts, by how they ended. Errors by status, or by what went wrong:
  // "connect", "closed" (before an answer), "malformed", "timeout", "event" (an error event in a
  // stream), "status" as in "503".
  int64_t sent = 0, answered = 0, cancelled = 0;
  std::map<std::string, int64_t> errors;

  double seconds = 0;             // that time
  int64_t finished = 0;           // answers that came within it, also to earlier requests
  int64_t target_tokens = 0;      // of these
  std::vector<double> latencies;  // of answers to its requests, seconds
  std::vector<double> first_events;
  std::vector<double> lateness;  // from when a request was due to when it was written

  // Of all answers, warm-up included.
  int64_t checked = 0, wrong = 0;  // compared with --verify; not equal
  int64_t unequal = 0;             // bodies that differ from an earlier one to the same question
  int64_t torn = 0;                // streams whose texts did not grow into the last

  int64_t opened = 0, most_open = 0;  // connections
  double own_cpu = 0, wall = 0;       // seconds of this program, from start to end
  int64_t cores = 1;                  // of this machine

  bool faultless() const { return wrong == 0 && unequal == 0 && torn == 0; }
};

// As JSON, milliseconds for latencies. `about`: members to begin with.
std::string to_json(Report& report, const std::string& about);

}  // namespace load
