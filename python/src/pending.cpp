// A line that was submitted, and the bell that tells Python's threads what has arrived. The
// engine's thread never takes Python's lock: it only rings.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <condition_variable>
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

// Collects the numbers of those for whom something has arrived. Never destroyed: the engine's
// thread may ring at the very end.
class Bell {
 public:
  static Bell& instance() {
    static Bell* const bell = new Bell;
    return *bell;
  }
  void ring(uint64_t number) {
    {
      const std::lock_guard lock(mutex_);
      numbers_.push_back(number);
    }
    changed_.notify_one();
  }
  // Waits; nothing once it is closed.
  std::vector<uint64_t> wait() {
    const WithoutGil unlocked;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !numbers_.empty(); });
    return closed_ ? std::vector<uint64_t>() : std::exchange(numbers_, {});
  }
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> numbers_;
  bool closed_ = false;
};

// What the engine's thread has put down for one line.
struct Mail {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Step> steps;
  bool ready = false;
  std::vector<uint64_t> listeners;  // to be rung for

  template <class F>
  void put(const F& change) {
    {
      const std::lock_guard lock(mutex);
      change();
      for (const uint64_t listener : listeners) Bell::instance().ring(listener);
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
    const auto begin = EngineClock::now();
    WithoutGil unlocked;
    for (;;) {
      const double left =
          seconds - std::chrono::duration<double>(EngineClock::now() - begin).count();
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
  void listen(uint64_t number) const {
    const std::lock_guard lock(mail_->mutex);
    mail_->listeners.push_back(number);
    if (mail_->ready || !mail_->steps.empty()) Bell::instance().ring(number);
  }
  void forget(uint64_t number) const {
    const std::lock_guard lock(mail_->mutex);
    std::erase(mail_->listeners, number);
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
    options.slots = std::max(options.slots, model.translator->search_options(options).width());
    SubmitOptions how;
    how.number = number;
    how.client = reinterpret_cast<uintptr_t>(this);
    if (timeout >= 0) {
      how.deadline = EngineClock::now() + std::chrono::duration_cast<EngineClock::duration>(
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
    (*line_).pending.wait_until(EngineClock::now() + kSignals);
    return false;
  }

  const std::shared_ptr<Mail> mail_ = std::make_shared<Mail>();
  Held<Line> line_;
};

}  // namespace

void bind_pending(nb::module_& module) {
  nb::class_<Pending>(module, "Pending", "A line that was submitted.")
      .def(nb::init<const Model&, std::string, std::string, TranslateOptions, int64_t, bool, double>(),
           "model"_a, "line"_a, "prefix"_a, "options"_a, "number"_a = 0, "steps"_a = false,
           "timeout"_a = -1.0)
      .def("done", &Pending::done)
      .def("wait", &Pending::wait, "seconds"_a = -1.0, "or_step"_a = false)
      .def("result", &Pending::result)
      .def("take_steps", &Pending::take_steps)
      .def("cancel", &Pending::cancel)
      .def("listen", &Pending::listen, "number"_a)
      .def("forget", &Pending::forget, "number"_a);
  module.def("wait_for_bell", [] { return Bell::instance().wait(); },
             "Waits for numbers that listen() was called with; nothing once the bell is closed.");
  module.def("close_bell", [] { Bell::instance().close(); });
  module.def("end_of_interpreter", &end_of_interpreter,
             "Cancels what is on its way; to be called when the interpreter begins to end.");
}

}  // namespace tril::python
