// TextJob: one TextCall being carried out.
//
// Its texts are cut into units, each of which is answered from the cache or submitted to the
// model's engine, where it is decoded together with the units of all other clients. Parsing and
// submitting happen on the caller's thread, assembling the answer on a worker. The engine's thread
// counts, and notes the text of streams.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tril/decode/engine.h"
#include "tril/serve/api_error.h"
#include "tril/serve/cache.h"
#include "tril/serve/metrics.h"
#include "tril/serve/text_call.h"
#include "tril/serve/waiting.h"
#include "tril/serve/workers.h"

namespace tril::serve {

class TextJob;

// The jobs there are, so that what they use can wait for them.
class LiveJobs {
 public:
  void add(TextJob& job);
  void remove(TextJob& job);
  // Cancels all and waits until they are gone.
  void end();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<TextJob*> jobs_;  // guarded by the mutex
};

// Where jobs run; all of it outlives them.
struct JobServices {
  AnswerCache& cache;
  Metrics& metrics;
  WaitingTokens& waiting;
  LiveJobs& live;
  // These put answers together.
  Workers& quick;
  Workers& large;  // answers with many results
  Workers& slow;   // those that need another pass of the model: alignments
};

// For whom a job runs.
struct JobClient {
  uint64_t id = 0;                                       // whose turn it is
  EngineClock::time_point arrived = EngineClock::now();  // from when on its time counts
  // Called while the job is started, which may take long: raises an error if it should not go on.
  std::function<void()> check{};
};

class TextJob : public std::enable_shared_from_this<TextJob> {
 public:
  using Done = std::function<void(TextJob&)>;

  TextJob(TextCall call, JobServices services);
  ~TextJob();
  TextJob(const TextJob&) = delete;
  TextJob& operator=(const TextJob&) = delete;

  // Starts. `done` is called once, on a worker; `news`, if there is one, whenever text_so_far() has
  // grown, on the engine's thread. Raises an ApiError or Error for what cannot be done; then
  // nothing was started.
  void start(const JobClient& client, const CallLimits& limits, Done done,
             std::function<void()> news = {});
  // Its sentences leave the engine within a step or two, and nothing more is made of them; `done`
  // is called as always.
  void cancel();

  const TextCall& call() const { return call_; }
  const std::vector<TextPlan>& plans() const { return plans_; }
  // Of this text, what is certain already; it only grows, to the joined texts of the results. Any
  // thread.
  std::string text_so_far(size_t text) const;
  // The text that the texts of its first units make.
  std::string join(size_t text, std::span<const std::string> units) const;

  // When done: what went wrong, or the results by text and unit.
  const std::optional<ApiError>& error() const { return error_; }
  const std::vector<std::vector<std::shared_ptr<const UnitResult>>>& results() const {
    return results_;
  }
  // Source tokens of all its sentences, those found in the cache included.
  int64_t source_tokens() const { return submitted_tokens_ + cached_tokens_; }

 private:
  struct Unit {
    size_t text = 0;
    size_t part = 0;
    std::string key{};
    PendingTranslation pending{};
    int64_t tokens = 0;
    // Submitted, and ready: after the second of the two its tokens no longer wait.
    std::atomic<int> before_settled = 2;
  };

  void plan(const CallLimits& limits, const std::function<void()>& check);
  void submit(Unit& unit, int64_t number);
  void settle(Unit& unit);
  void tell(const Unit& unit, const StreamedText& news);
  void tell_whole(const Unit& unit);
  void count_down();
  // Puts the answer together, as one task or in steps; false: that was the last.
  bool finish(bool in_steps);
  bool collect(bool in_steps);
  // Why the answer is not to be made any more.
  std::optional<ApiError> unwanted() const;

  TextCall call_;
  const JobServices services_;
  Done done_;
  std::function<void()> news_;
  uint64_t client_ = 0;
  EngineClock::time_point deadline_{};
  int64_t results_wanted_ = 0;
  std::vector<TextPlan> plans_;
  std::deque<Unit> units_;  // those submitted; their addresses are kept
  size_t collected_ = 0;    // of them
  std::atomic<int64_t> left_ = 1;
  std::atomic<bool> cancelled_ = false;

  struct Written {
    std::vector<int32_t> tokens{};
    std::string text{};
    bool whole = false;
  };
  // The text of the first units that are whole, joined.
  struct Joined {
    std::string text{};
    size_t parts = 0;
  };
  mutable std::mutex mutex_;                   // of the next three
  std::vector<std::vector<Written>> written_;  // by text and part, so far
  mutable std::vector<Joined> joined_;         // by text
  bool finished_ = false;                      // `pending` of the units is no more

  std::vector<std::vector<std::shared_ptr<const UnitResult>>> results_;
  std::optional<ApiError> error_;
  int64_t submitted_tokens_ = 0;
  int64_t cached_tokens_ = 0;   // of units found in the cache
  int64_t waiting_tokens_ = 0;  // those of them that wait until the answer is made
};

}  // namespace tril::serve
