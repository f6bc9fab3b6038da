// What people see while something long is running: one live line on a terminal, plain lines now and
// then elsewhere. And the way a signal stops it.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>

namespace tril::app {

// "48 s", "3 min 20 s", "2 h 5 min".
std::string duration(double seconds);

class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  void show(int64_t done, int64_t all, const std::string& what, double seconds_left);
  // What is being done now: always shown, the next thing in its place.
  void tell(const std::string& what);
  // Where nobody knows how many there will be.
  void count(int64_t done, const std::string& what);
  // One of several things, each told when it begins, and how far it is.
  void part(std::string_view what, int64_t done, int64_t all);
  // A line that stays.
  void say(const std::string& text);
  void clear();

 private:
  bool is_time();
  // On a terminal, in place of the line before; cut where the terminal ends.
  void show_line(const std::string& text);

  std::string part_;  // the last one told
  bool shown_ = false;
  double last_ = 0.0;  // when it was shown
};

// While it lives, Ctrl-C, SIGTERM and SIGHUP only ask; a second Ctrl-C ends the program at once.
// Those that the program was started to ignore, as nohup does, stay ignored. One at a time.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  bool asked() const { return signal() != 0; }
  int signal() const;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};  // what they did
};

// Thrown when a signal stopped the program: it ends with 128 + signal, as shells expect.
struct Stopped {
  int signal;
};

}  // namespace tril::app
