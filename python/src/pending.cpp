// A line that was submitted, and the bell that tells Python's threads what has arrived. The
// engine's thread never takes Python's lock: it only rings.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "bind.h"
#include "flow.h"
#include "model.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

constexpr std::chrono::milliseconds kSignals{50};

// Collects the numbers of those for whom something has arrived, for a thread that waits for them,
// or for an event loop that watches a descriptor.
class Bell {
 public:
  Bell() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    require(descriptor_ >= 0, ErrorCode::io, "a bell for an event loop: ", std::strerror(errno));
  }
  ~Bell() { ::close(descriptor_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring(uint64_t number) {
    bool is_first = false;
    {
      const std::lock_guard lock(mutex_);
      is_first = numbers_.empty();
      numbers_.push_back(number);
    }
    changed_.notify_one();
    if (is_first) eventfd_write(descriptor_, 1);
  }
  // Readable while there are numbers.
  int descriptor() const { return descriptor_; }
  std::vector<uint64_t> take() {
    const std::lock_guard lock(mutex_);
    eventfd_t count = 0;
    eventfd_read(descriptor_, &count);
    return std::exchange(numbers_, {});
  }
  // Waits; nothing once it is silenced.
  std::vector<uint64_t> wait() {
    const WithoutGil unlocked;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return silent_ || !numbers_.empty(); });
    return silent_ ? std::vector<uint64_t>() : std::exchange(numbers_, {});
  }
  void silence() {
    {
      const std::lock_guard lock(mutex_);
      silent_ = true;
    }
    changed_.notify_all();
  }

 private:
  const int descriptor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> numbers_;
  bool silent_ = false;
};

// What the engine's thread has put down for one line.
struct Mail {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Step> steps;
  bool ready = false;
  struct Listener {
    std::shared_ptr<Bell> bell;
    uint64_t number = 0;
  };
  std::vector<Listener> listeners;

  template <class F>
  void put(const F& change) {
    {
      const std::lock_guard lock(mutex);
      change();
      for (const Listener& listener : listeners) listener.bell->ring(listener.number);
    }
    changed.notify_all();
  }
};

class Pending {
 public:
  Pending(const Model& model, std::string line, std::string prefix, TranslateOptions options,
          int64_t number, bool steps, double timeout)
      : line_(submit(model, std::move(line), std::move(prefix), std::move(options), number, steps,
                     timeout)) {}

  // Nobody can take the result any more, so the line need not be decoded.
  ~Pending() {
    if (!done()) cancel();
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  bool done() const {
    const std::lock_guard lock(mail_->mutex);
    return mail_->ready;
  }
  // Waits at most so many seconds (negative: for ever) for the result, or for a step.
  bool wait(double seconds, bool or_step) const {
    begin_use();
    const auto begin = Clock::now();
    WithoutGil unlocked;
    for (;;) {
      const double left = seconds - std::chrono::duration<double>(Clock::now() - begin).count();
      const auto turn = seconds < 0 || left > 0.05
                            ? std::chrono::duration<double>(kSignals)
                            : std::chrono::duration<double>(std::max(0.0, left));
      if (wait_turn(turn, or_step)) return true;
      if (seconds >= 0 && left <= 0) return false;
      unlocked.check_signals();
    }
  }
  Translation result() const {
    begin_use();
    wait(-1, false);
    const WithoutGil unlocked;
    return (*line_).pending.get();
  }
  std::vector<Step> take_steps() const {
    const std::lock_guard lock(mail_->mutex);
    return std::exchange(mail_->steps, {});
  }
  void cancel() const {
    if (!is_stranded()) (*line_).pending.cancel();
  }
  // Rings for every arrival from now on, and at once if something is there.
  void listen(const std::shared_ptr<Bell>& bell, uint64_t number) const {
    const std::lock_guard lock(mail_->mutex);
    mail_->listeners.push_back({bell, number});
    if (mail_->ready || !mail_->steps.empty()) bell->ring(number);
  }
  // Numbers are those of one bell: others may count the same.
  void forget(const std::shared_ptr<Bell>& bell, uint64_t number) const {
    const std::lock_guard lock(mail_->mutex);
    std::erase_if(mail_->listeners,
                  [&](const auto& each) { return each.bell == bell && each.number == number; });
  }

 private:
  struct Line {
    PendingTranslation pending;
    InFlight in_flight;
  };

  Held<Line> submit(const Model& model, std::string line, std::string prefix,
                    TranslateOptions options, int64_t number, bool steps, double timeout) {
    begin_use();
    const WithoutGil unlocked;
    options.slots = std::max(options.slots, width_of(*model.translator, options));
    SubmitOptions how;
    how.number = number;
    how.client = reinterpret_cast<uintptr_t>(this);
    constexpr double kLongest = 1e9;  // seconds: thirty years, which nobody waits for
    if (timeout >= 0 && timeout < kLongest) {
      how.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(timeout));
    }
    how.ready = [mail = mail_] { mail->put([&] { mail->ready = true; }); };
    if (steps) {
      how.stream = [mail = mail_, number](const StreamedText& text) {
        Step step{number,
                  text.sample,
                  {text.tokens.begin(), text.tokens.end()},
                  {text.log_probs.begin(), text.log_probs.end()},
                  std::string(text.text)};
        mail->put([&] { mail->steps.push_back(std::move(step)); });
      };
    }
    const PendingTranslation pending =
        model.translator->submit({std::move(line), std::move(prefix)}, options, how);
    return Held<Line>({pending, InFlight(pending)});
  }

  bool wait_turn(std::chrono::duration<double> turn, bool or_step) const {
    const auto is_there = [&] { return mail_->ready || (or_step && !mail_->steps.empty()); };
    std::unique_lock lock(mail_->mutex);
    if (mail_->changed.wait_for(lock, turn, is_there)) return true;
    lock.unlock();
    // Where the system could start no thread for the engine, waiting for a line does its work.
    (*line_).pending.wait_until(Clock::now() + kSignals);
    return false;
  }

  const std::shared_ptr<Mail> mail_ = std::make_shared<Mail>();
  Held<Line> line_;
};

}  // namespace

void bind_pending(nb::module_& module) {
  nb::class_<Bell>(module, "Bell", "Numbers of those for whom something has arrived.")
      .def(nb::init<>())
      .def("fileno", &Bell::descriptor)
      .def("take", &Bell::take, "The numbers that came since the last time.")
      .def("wait", &Bell::wait, "Waits for numbers; nothing once it is silenced.")
      .def("silence", &Bell::silence);
  nb::class_<Pending>(module, "Pending", "A line that was submitted.")
      .def(nb::init<const Model&, std::string, std::string, TranslateOptions, int64_t, bool,
                    double>(),
           "model"_a, "line"_a, "prefix"_a, "options"_a, "number"_a = 0, "steps"_a = false,
           "timeout"_a = -1.0)
      .def("done", &Pending::done)
      .def("wait", &Pending::wait, "seconds"_a = -1.0, "or_step"_a = false)
      .def("result", &Pending::result)
      .def("take_steps", &Pending::take_steps)
      .def("cancel", &Pending::cancel)
      .def("listen", &Pending::listen, "bell"_a, "number"_a)
      .def("forget", &Pending::forget, "bell"_a, "number"_a);
  module.def("end_of_interpreter", &end_of_interpreter,
             "Cancels what is on its way; to be called when the interpreter begins to end.");
}

}  // namespace tril::python
