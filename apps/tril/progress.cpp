#include "progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "output.h"
#include "terminal.h"
#include "tril/text/display.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool on_terminal() {
  static const bool is = isatty(STDERR_FILENO) != 0;
  return is;
}

template <class... Parts>
void write(fmt::format_string<Parts...> format, Parts&&... parts) {
  message(fmt::format(format, std::forward<Parts>(parts)...));
}

volatile std::sig_atomic_t received = 0;
volatile std::time_t received_at = 0;

// One press of Ctrl-C may arrive more than once: through a script and from the terminal.
void on_signal(int signal) {
  const std::time_t time = std::time(nullptr);
  if (received != 0 && time > received_at + 1) _exit(128 + signal);
  if (received == 0) received_at = time;
  received = signal;
}

}  // namespace

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

void ProgressLine::show(int64_t done, int64_t all, const std::string& what, double seconds_left) {
  if (!is_time() && done != all) return;
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(all, 1));
  if (!on_terminal()) {
    write("{:3.0f}%  {}/{}  {}  {} left\n", share * 100.0, done, all, what, duration(seconds_left));
    return;
  }
  const std::string figures = fmt::format(" {:3.0f}%  {}/{}  {}  {} left", share * 100.0, done, all,
                                          what, duration(seconds_left));
  // The bar takes the rest of the line.
  const int64_t room = columns(Stream::err) - 1 - display_width(figures);
  const int64_t width = std::clamp<int64_t>(room, 0, 24);
  const auto full = static_cast<int64_t>(share * static_cast<double>(width));
  std::string bar;
  for (int64_t i = 0; i < width; ++i) bar += i < full ? "█" : "░";
  show_line(bar + figures);
}

void ProgressLine::count(int64_t done, const std::string& what) {
  if (is_time()) tell(fmt::format("{} {}", done, what));
}

void ProgressLine::tell(const std::string& what) {
  if (on_terminal()) {
    show_line(what);
  } else {
    write("{}\n", what);
  }
}

void ProgressLine::show_line(const std::string& text) {
  // One column stays free: on some terminals a line that fills them all begins a new one.
  write("\r\033[K{}", shortened(text, columns(Stream::err) - 1));
  shown_ = true;
}

void ProgressLine::part(std::string_view what, int64_t done, int64_t all) {
  if (what != part_) {
    part_ = what;
    tell(part_);
  }
  if (is_time()) tell(fmt::format("{} of {}: {}", done, all, part_));
}

bool ProgressLine::is_time() {
  const double time = now();
  if (last_ == 0.0) last_ = time;  // what is done at once needs no progress line
  if (time - last_ < (on_terminal() ? 0.1 : 30.0)) return false;
  last_ = time;
  return true;
}

void ProgressLine::say(const std::string& text) {
  clear();
  // In a log a message stays on one line; on a terminal it is wrapped.
  write("{}", on_terminal() ? set_text(text, "", "  ", Stream::err) : text + "\n");
}

void ProgressLine::clear() {
  if (shown_) write("\r\033[K");
  shown_ = false;
}

StopOnSignal::StopOnSignal() {
  received = 0;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction asking {};
    asking.sa_handler = on_signal;
    asking.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], &asking, nullptr);
  }
}

StopOnSignal::~StopOnSignal() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

int StopOnSignal::signal() const { return received; }

}  // namespace tril::app
