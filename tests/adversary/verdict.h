// The outcome of an experiment: a right result, a clear error, or a third, which must not occur.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "process.h"
#include "rng.h"

namespace adversary {

enum class Verdict {
  right,     // the complete, right result
  harmless,  // the damage went unnoticed and changed no result
  error,     // a clear error
  third,     // anything else
  skipped,   // this machine cannot do it
};

struct Outcome {
  std::string row = {};  // of the table it is counted in
  Verdict verdict = Verdict::right;
  std::string what = {};  // what was done, and for a third the result
  int64_t landed = 1;     // how many kills or faults hit a running program
};

// Why an error is not clear; empty if it is: exit code 2 (or 1 with `one_too`), and as the last
// line on stderr "tril: …", without the words of a library. With `names`, one of the lines must
// contain one of them.
std::string unclear(const Ended& ended, bool one_too = false,
                    const std::vector<std::string>& names = {});

// The same for `tril verify`, whose result is a report of damaged files: exit code 1, and a line on
// stdout with one of `names` that does not end in "sound".
std::string unclear_verify(const Ended& ended, const std::vector<std::string>& names);

// How it ended, in a few words, for reports.
std::string described(const Ended& ended);

struct Settings {
  std::string tril;
  std::string shim;
  std::string scratch;
  std::string program;  // this tool, for the command that repeats an experiment
  std::string campaign;
  std::string model;  // a folder to attack instead of those made here
  std::string text;   // lines to translate with it
  uint64_t seed = 1;
  int64_t budget = 0;  // 0: the campaign's own
  double seconds = 0;  // time limit; 0: none
  int64_t only = -1;   // run only this experiment
  int jobs = 2;
  bool all = false;     // the large budget
  bool strict = false;  // flips: unnoticed damage is a third, whatever it changes
  bool keep = false;    // keep the folders of experiments that end in a third
};

// Counts outcomes and prints them. Thread-safe.
class Report {
 public:
  explicit Report(const Settings& settings) : settings_(settings) {}
  void add(const std::string& campaign, int64_t experiment, const Outcome& outcome);
  int64_t thirds() const { return thirds_; }
  void print() const;  // the table, then each third with the command that repeats it

 private:
  struct Row {
    int64_t counts[5] = {};
    int64_t landed = 0;
  };
  Settings settings_;
  mutable std::mutex mutex_;
  std::map<std::string, Row> rows_;
  std::vector<std::string> failures_;
  int64_t thirds_ = 0;
};

// An experiment: its number, its random numbers, and its own empty folder.
using Experiment = std::function<Outcome(int64_t, Rng&, const std::string&)>;
// Whether a campaign has done enough, given the number of experiments begun and of kills or faults
// that hit a running program.
struct Budget {
  int64_t experiments = 0;  // at most
  int64_t landed = 0;       // enough; 0: does not count
};
void run_campaign(const std::string& name, const Budget& budget, const Settings& settings,
                  const Experiment& experiment, Report& report);

}  // namespace adversary
