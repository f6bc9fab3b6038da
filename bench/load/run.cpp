#include "run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <queue>

#include "answers.h"
#include "events.h"
#include "http_reader.h"
#include "json_text.h"
#include "schedule.h"
#include "socket.h"
#include "target.h"

namespace load {
namespace {

// A request of the plan.
struct Request {
  uint64_t number = 0;
  double due = 0;  // seconds since the run began
  bool counts = false;
};

// A connection and the request it is busy with. Its place in the list of connections is its key for
// good; the socket in it changes.
struct Connection {
  Descriptor socket;
  bool busy = false;
  bool writing = false;  // the socket waits until it can be written
  Request request;
  Choice choice;
  size_t line = 0;
  std::string bytes;  // of the request
  size_t written = 0;
  HttpReader http;
  EventReader events;
  std::string partial;  // the last of a stream
  std::string last;     // the whole answer at the end of a stream
  std::string problem;  // of a stream
  bool partly = false;  // a partial event has come
};

// Something to look after at a time: a request that is cancelled or has waited long enough, or a
// client's pause.
struct Alarm {
  double time = 0;
  enum Kind { cancel, timeout, pause } kind = pause;
  size_t key = 0;
  uint64_t number = 0;  // the request; another one has taken its place if they differ

  bool operator>(const Alarm& other) const { return time > other.time; }
};

double own_seconds() {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  return double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * double(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        lines_(read_lines(options.lines)),
        address_(options.address),
        target_(options, address_.host()),
        answers_(options, lines_.size()),
        mixture_{options.seed, options.mix.size(), options.stream, options.cancel,
                 options.cancel_within},
        arrivals_(options.rate, options.seed),
        limit_(options.rate > 0 ? options.connections : options.clients) {
    if (options.rate > 0) next_arrival_ = arrivals_.next();
  }

  Report go() {
    const double cpu = own_seconds();
    while (!done()) {
      plan();
      begin_waiting();
      for (const epoll_event& event : poll_.wait(next_time() - now())) {
        handle(event.data.u64, event.events);
      }
      ring();
    }
    if (options_.seconds > 0) {
      report_.seconds = options_.seconds;
    } else {
      report_.seconds = last_end_ - std::max(first_due_, 0.0);
    }
    report_.own_cpu = own_seconds() - cpu;
    report_.wall = now();
    report_.cores = ::sysconf(_SC_NPROCESSORS_ONLN);
    return std::move(report_);
  }

 private:
  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  // The plan.

  bool planned(double time) const {
    if (options_.requests > 0) return report_.sent < options_.requests;
    return time < options_.warm_up + options_.seconds;
  }

  bool open_loop() const { return options_.rate > 0; }

  bool done() const {
    const double next = open_loop() ? next_arrival_ : now();
    return busy_ == 0 && waiting_.empty() && !planned(next);
  }

  void add_request(double due) {
    Request request{.number = number_++, .due = due};
    request.counts =
        due >= options_.warm_up && request.number >= uint64_t(options_.warm_up_requests);
    if (request.counts) {
      ++report_.sent;
      if (first_due_ < 0) first_due_ = due;
    }
    waiting_.push_back(request);
  }

  // Adds the requests that are due.
  void plan() {
    const double time = now();
    if (open_loop()) {
      while (next_arrival_ <= time && planned(next_arrival_)) {
        add_request(next_arrival_);
        next_arrival_ = arrivals_.next();
      }
      return;
    }
    while (int64_t(busy_ + waiting_.size()) + pausing_ < options_.clients && planned(time)) {
      add_request(time);
    }
  }

  double next_time() const {
    double time = now() + 1;
    if (open_loop() && planned(next_arrival_)) time = std::min(time, next_arrival_);
    if (!alarms_.empty()) time = std::min(time, alarms_.top().time);
    return time;
  }

  // Connections.

  // One that is free: an idle one, the last used first, or a new one. None at the bound.
  std::optional<size_t> free_connection() {
    if (!idle_.empty()) {
      const size_t key = idle_.back();
      idle_.pop_back();
      return key;
    }
    if (!empty_.empty()) {
      const size_t key = empty_.back();
      empty_.pop_back();
      return key;
    }
    if (int64_t(connections_.size()) == limit_) return std::nullopt;
    connections_.push_back(std::make_unique<Connection>());
    return connections_.size() - 1;
  }

  void begin_waiting() {
    while (!waiting_.empty()) {
      const std::optional<size_t> key = free_connection();
      if (!key) return;
      const Request request = waiting_.front();
      waiting_.pop_front();
      begin(*key, request);
    }
  }

  void begin(size_t key, const Request& request) {
    Connection& it = *connections_[key];
    it.busy = true;
    ++busy_;
    it.request = request;
    it.choice = choose(mixture_, request.number);
    it.line = request.number % lines_.size();
    it.bytes = target_.request(lines_[it.line], it.choice.options, it.choice.stream);
    it.written = 0;
    it.http.reset();
    it.events.reset();
    it.partial.clear();
    it.last.clear();
    it.problem.clear();
    it.partly = false;
    alarms_.push({request.due + options_.timeout, Alarm::timeout, key, request.number});
    if (it.choice.cancel) {
      alarms_.push({now() + it.choice.cancel_after, Alarm::cancel, key, request.number});
    }
    if (it.socket.open()) return write(key);
    it.socket = address_.connect();
    if (!it.socket.open()) return fail(key, "connect");
    it.writing = true;
    poll_.add(it.socket, key);
    ++report_.opened;
    report_.most_open = std::max(report_.most_open, int64_t(++open_));
  }

  void close(size_t key) {
    Connection& it = *connections_[key];
    if (it.socket.open()) --open_;
    it.socket.close();
  }

  // Events.

  void handle(size_t key, uint32_t events) {
    Connection& it = *connections_[key];
    if (!it.socket.open()) return;
    if (!it.busy) {  // The server closes a connection that has nothing to do.
      idle_.erase(std::find(idle_.begin(), idle_.end(), key));
      empty_.push_back(key);
      return close(key);
    }
    if (it.writing && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
      if (it.written == 0 && failed(it.socket)) return fail(key, "connect");
      write(key);
      if (!it.busy) return;
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) read(key);
  }

  void write(size_t key) {
    Connection& it = *connections_[key];
    if (it.written == 0 && it.request.counts) {
      report_.lateness.push_back(now() - it.request.due);
    }
    while (it.written < it.bytes.size()) {
      const int64_t count = write_some(it.socket, std::string_view(it.bytes).substr(it.written));
      if (count == 0) break;
      // A server may answer and close before it has read everything.
      if (count < 0) return read(key);
      it.written += size_t(count);
    }
    const bool more = it.written < it.bytes.size();
    if (more != it.writing) poll_.change(it.socket, key, more);
    it.writing = more;
  }

  void read(size_t key) {
    Connection& it = *connections_[key];
    try {
      while (it.busy) {
        const int64_t count = read_some(it.socket, buffer_);
        if (count == 0) return;
        if (count < 0) {
          it.http.end();
        } else {
          it.http.feed({buffer_.data(), size_t(count)});
        }
        if (it.choice.stream && it.http.status() == 200) read_events(it);
        if (it.http.complete()) return end(key);
        if (size_t(count) < buffer_.size()) return;
      }
    } catch (const std::exception&) {
      fail(key, it.http.begun() ? "malformed" : "closed");
    }
  }

  void read_events(Connection& it) {
    while (const std::optional<Event> event = it.events.next(it.http.body())) {
      if (event->name == "partial") {
        if (!it.partly && it.request.counts) {
          report_.first_events.push_back(now() - it.request.due);
        }
        it.partly = true;
        const std::string text = json_string(json_at(event->data, "text"));
        if (!text.starts_with(it.partial)) it.problem = "torn";
        it.partial = text;
      } else if (event->name == "done") {
        it.last = event->data;
      } else if (event->name == "error") {
        it.problem = "event";
      }
    }
  }

  // Ends of requests.

  void end(size_t key) {
    Connection& it = *connections_[key];
    const int status = it.http.status();
    if (status != 200) return finish(key, std::to_string(status));
    if (it.problem == "event") return finish(key, it.problem);
    const std::string& body = it.choice.stream ? it.last : it.http.body();
    Answer answer;
    try {
      answer = target_.answer(body);
    } catch (const std::exception&) {
      return fail(key, "malformed");
    }
    const double time = now();
    last_end_ = time;
    if (it.problem == "torn" || !answer.text.starts_with(it.partial)) ++report_.torn;
    answers_.add(it.line, it.choice.options, it.choice.stream, body, answer.text, report_);
    if (it.request.counts) {
      ++report_.answered;
      report_.latencies.push_back(time - it.request.due);
    }
    const bool within = options_.seconds > 0
                            ? time >= options_.warm_up && time < options_.warm_up + options_.seconds
                            : it.request.counts;
    if (within) {
      ++report_.finished;
      report_.target_tokens += answer.target_tokens;
    }
    finish(key, "");
  }

  // The connection is of no more use.
  void fail(size_t key, const std::string& problem) {
    close(key);
    finish(key, problem);
  }

  // `problem`: what kept the request from being answered, if anything.
  void finish(size_t key, const std::string& problem) {
    Connection& it = *connections_[key];
    if (!problem.empty()) {
      if (it.request.counts) ++report_.errors[problem];
      pause();
    }
    const bool whole = it.written == it.bytes.size();
    if (it.socket.open() && !(it.http.keeps_alive() && whole)) close(key);
    release(key);
  }

  void release(size_t key) {
    Connection& it = *connections_[key];
    it.busy = false;
    --busy_;
    (it.socket.open() ? idle_ : empty_).push_back(key);
  }

  // A closed loop would otherwise ask a server that refuses as fast as it can refuse.
  void pause() {
    if (open_loop() || options_.pause == 0) return;
    ++pausing_;
    alarms_.push({now() + options_.pause, Alarm::pause, 0, 0});
  }

  void cancel(size_t key) {
    Connection& it = *connections_[key];
    if (it.request.counts) ++report_.cancelled;
    if (it.choice.reset && it.socket.open()) {
      --open_;
      it.socket.reset();
    }
    close(key);
    release(key);
  }

  void ring() {
    const double time = now();
    while (!alarms_.empty() && alarms_.top().time <= time) {
      const Alarm alarm = alarms_.top();
      alarms_.pop();
      if (alarm.kind == Alarm::pause) {
        --pausing_;
        continue;
      }
      const Connection& it = *connections_[alarm.key];
      if (!it.busy || it.request.number != alarm.number) continue;
      alarm.kind == Alarm::cancel ? cancel(alarm.key) : fail(alarm.key, "timeout");
    }
    while (!waiting_.empty() && waiting_.front().due + options_.timeout <= time) {
      if (waiting_.front().counts) ++report_.errors["timeout"];
      waiting_.pop_front();
    }
  }

  const Options& options_;
  const std::vector<std::string> lines_;
  const Address address_;
  const Target target_;
  Answers answers_;
  const Mixture mixture_;
  PoissonArrivals arrivals_;
  const int64_t limit_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Report report_;

  uint64_t number_ = 0;  // of the next request
  double next_arrival_ = 0;
  double first_due_ = -1, last_end_ = 0;
  std::deque<Request> waiting_;  // due, without a connection
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  int64_t pausing_ = 0;

  Poll poll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<size_t> idle_, empty_;  // connected; without a socket
  size_t busy_ = 0, open_ = 0;
  std::vector<char> buffer_ = std::vector<char>(64 * 1024);
};

}  // namespace

Report run(const Options& options) { return Run(options).go(); }

}  // namespace load
