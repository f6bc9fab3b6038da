// Flow: lines on their way through a Translator, submitted ahead of those that are taken, which
// come back in order. Knows nothing of Python; one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gil.h"
#include "tril/translate/translator.h"

namespace tril::python {

using Clock = std::chrono::steady_clock;

// Part of a translation that is certain already.
struct Step {
  int64_t number = 0;  // of the line
  int64_t sample = 0;
  std::vector<int32_t> tokens;  // new ones
  std::vector<float> log_probs;
  std::string text;  // all so far
};

// How many hypotheses of a line are alive at once.
int64_t width_of(const Translator& translator, const TranslateOptions& options);

class Flow {
 public:
  // Lines are numbered from `first`. With `steps` they are collected for take_steps().
  Flow(Translator translator, const TranslateOptions& options, int64_t first, bool steps);
  // Lines that were not taken are cancelled.
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Whether the engine can use another line, and the window has room for it.
  bool wants() const;
  void submit(TextRequest request);
  bool empty() const { return lines_.empty(); }
  // Waits until another line is ready, or there are steps, about this long at most. Returns whether
  // the next line in order is ready.
  bool wait(std::chrono::milliseconds at_most);
  // The next line, which must be ready. Raises as PendingTranslation::get() does; a line that
  // cannot be used is named, or skipped.
  Translation take();
  // What has arrived. All steps of a line are there before the line is ready.
  std::vector<Step> take_steps();
  // Adds a step to what is known of its line. False if the line was ended or taken.
  bool add(const Step& step);
  // Ends a line with the steps that were added to it.
  void end(int64_t number);

 private:
  struct Line {
    PendingTranslation pending;
    InFlight in_flight;
    TextHypothesis so_far{};  // with steps
    bool ended = false;       // by end()
  };
  // Shared with the engine's thread.
  struct News {
    std::mutex mutex;
    std::condition_variable changed;
    int64_t ready = 0;  // lines, taken ones too
    std::vector<Step> steps;
  };

  int64_t in_flight() const;
  Line* line(int64_t number);  // null: taken

  Translator translator_;
  TranslateOptions options_;
  int64_t next_;  // the number of the next line to be taken
  int64_t taken_ = 0;
  bool steps_;
  int64_t most_in_flight_ = 0;
  std::deque<Line> lines_;
  std::shared_ptr<News> news_ = std::make_shared<News>();
};

}  // namespace tril::python
