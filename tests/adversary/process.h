// Runs a program as an experiment wants it: with these descriptors, limits and rights, killed after
// so many seconds. May be called by several threads at once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace adversary {

inline constexpr const char* kClosed = "<closed>";  // in the place of a file: no descriptor at all

struct Child {
  std::vector<std::string> arguments;                            // the program is the first
  std::vector<std::pair<std::string, std::string>> environment;  // besides what is inherited
  std::string input = "/dev/null";
  std::string output;         // empty: a file of the caller's folder, which is read back
  std::string errors;         // the same
  std::string folder;         // where such files go
  double kill_after = -1;     // seconds until SIGKILL; negative: never
  double limit = 60;          // seconds after which it hangs
  bool as_nobody = false;     // the user and group 65534
  int64_t largest_file = -1;  // RLIMIT_FSIZE, with SIGXFSZ ignored
};

struct Ended {
  int code = -1;  // exit code, -1 where a signal ended it
  int signal = 0;
  bool hung = false;
  double seconds = 0;
  std::string out, err;  // of files that were read back

  bool killed() const { return signal == 9 && !hung; }
};

Ended run(const Child& child);

// As it can be pasted into a shell.
std::string shell_line(const std::vector<std::string>& arguments);

}  // namespace adversary
