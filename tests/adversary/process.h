// Runs a program for an experiment: with these descriptors, limits and permissions, killed after a
// given time. May be called by several threads at once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace adversary {

inline constexpr const char* kClosed = "<closed>";  // in place of a file: no descriptor at all

struct Child {
  std::vector<std::string> arguments;                            // the program is the first
  std::vector<std::pair<std::string, std::string>> environment;  // besides what is inherited
  std::string input = "/dev/null";
  std::string output;         // empty: a file in `folder`, which is read back
  std::string errors;         // the same
  std::string folder;         // where such files go
  double kill_after = -1;     // seconds until SIGKILL; negative: never
  double limit = 60;          // seconds after which it counts as hanging
  bool as_nobody = false;     // the user and group 65534
  int64_t largest_file = -1;  // RLIMIT_FSIZE, with SIGXFSZ ignored
};

struct Ended {
  int code = -1;  // exit code, -1 where a signal ended it
  int signal = 0;
  bool hung = false;
  double seconds = 0;
  std::string out, err;  // from files that were read back

  bool killed() const { return signal == 9 && !hung; }
};

Ended run(const Child& child);

// Quoted so that it can be pasted into a shell.
std::string shell_line(const std::vector<std::string>& arguments);

}  // namespace adversary
