// Progress of something long: one live line on a terminal, occasional plain lines elsewhere. And
// stopping it by a signal.
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
  // The current activity: always shown, replacing the one before.
  void tell(const std::string& what);
  // For an unknown total.
  void count(int64_t done, const std::string& what);
  // One of several parts, each announced when it begins, with its progress.
  void part(std::string_view what, int64_t done, int64_t all);
  // A line that stays.
  void say(const std::string& text);
  void clear();

 private:
  bool is_time();
  // On a terminal, replaces the previous line; cut at the terminal's width.
  void show_line(const std::string& text);

  std::string part_;  // the last one announced
  bool shown_ = false;
  double last_ = 0.0;  // when it was last shown
};

// While it lives, Ctrl-C, SIGTERM and SIGHUP only request a stop; a second Ctrl-C ends the program
// at once. Signals that the program was started to ignore, as nohup does, stay ignored. One at a
// time.
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
  std::array<struct sigaction, kSignals.size()> before_{};  // the previous actions
};

// Thrown when a signal stopped the program: it ends with 128 + signal, as shells expect.
struct Stopped {
  int signal;
};

}  // namespace tril::app
