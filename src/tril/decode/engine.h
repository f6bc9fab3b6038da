// Engine: decodes many requests together, each with options of its own.
//
// Requests join while others are being decoded; each one streams, is cancelled, times out, finishes
// or fails by itself. Greedy search, beams of any width, sampling, n-best lists, forced prefixes,
// shortlists and limits share one step of the model. What a request gets is a function of the
// model, the request and its options alone: it does not depend on other requests, on when they join
// or are cancelled, or on the number of slots or threads.
//
//   Engine engine(model, {.slots = 64}, session);
//   engine.submit({.source = tokens}, options,
//                 {.done = [](RequestOutcome&& outcome) { ... }});
//   while (engine.step()) {
//   }
//
// On a GPU the engine enqueues a step before it has seen the result of the one before, so one step
// of a request that is cancelled or done is wasted.
//
// An engine belongs to one thread at a time. Callbacks run inside step() and cancel(); they may
// submit and cancel, and use the session, but not destroy the engine. An exception that a callback
// throws leaves step() or cancel(); it concerns no request, and the engine can go on: what has not
// been told because of it is told by the next step.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tril/base/error.h"
#include "tril/decode/search.h"

namespace tril {

using RequestId = int64_t;
using EngineClock = std::chrono::steady_clock;

// How a request left the engine.
enum class RequestEnd { finished, cancelled, timed_out, failed };

struct RequestOutcome {
  RequestId id = 0;
  int64_t number = 0;  // the request's
  RequestEnd end = RequestEnd::finished;
  std::vector<Hypothesis> hypotheses{};  // if it finished: as in SearchResult
  std::optional<Error> error{};          // if it did not: why
};

// Tokens as soon as they are certain. Joined, the tokens of one sample are those of its hypothesis,
// the forced prefix and END included; beam search has one sample, its best result, and a token of
// it is certain when all hypotheses agree on it.
struct StreamedTokens {
  RequestId id = 0;
  int64_t sample = 0;
  std::span<const int32_t> tokens;
  std::span<const float> log_probs;  // of each token
};

// Callbacks of a request. All but `done` may be empty.
struct RequestEvents {
  std::function<void(RequestOutcome&&)> done{};         // exactly once, as the last call
  std::function<void(const StreamedTokens&)> tokens{};  // after each step that makes tokens certain
  SearchTrace step{};                                   // after each step; must not call the engine
};

// Scheduling of a request.
struct RequestTerms {
  // The client who has had the least work done comes next, so that one with many requests does not
  // keep others waiting.
  uint64_t client = 0;
  std::optional<EngineClock::time_point> deadline{};  // the request times out then
};

struct EngineOptions {
  int64_t slots = 64;  // hypotheses decoded at a time; at least one request is decoded
  // The current time; tests replace it.
  std::function<EngineClock::time_point()> now = [] { return EngineClock::now(); };
};

class Engine {
 public:
  // The model and the session must outlive the engine. Raises `invalid_argument` where a tape is
  // recording on the session.
  Engine(const Transformer& model, EngineOptions options, Session& session);
  // Releases everything it took from the session. Callbacks of remaining requests are not called.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Raises what submit() would raise for these options in an engine with this many slots.
  static void check(const SearchOptions& options, int64_t slots, const Transformer& model);
  // Takes in a request; it joins the next step that has room for it. Raises `invalid_argument`
  // naming the option or, by its number, the request, and `unsupported` for an option that the
  // model's device does not have. Whatever it throws, nothing was taken in, and no callback of the
  // request is called.
  RequestId submit(SearchRequest request, std::shared_ptr<const SearchOptions> options,
                   RequestEvents events, const RequestTerms& terms = {});
  // The request leaves at once, and `done` is called before this returns. False if there is no such
  // request (any more).
  bool cancel(RequestId id);
  // The same for many, in one pass over those that wait. Returns how many there were.
  int64_t cancel(std::span<const RequestId> ids);

  // One step: requests time out and join, one token is decoded for each, and those that are done
  // leave. Returns whether there is more to do. A request that cannot join, or whose
  // log-probabilities are NaN, fails alone. Where the model itself fails (out of memory, a lost
  // GPU), every request fails with its error, which this throws; the engine is then empty, and
  // usable.
  bool step();
  bool idle() const;

  // Whether a request of this width (its beam, or samples) would be decoded soon: there are slots
  // for it, and fewer requests wait than are encoded together.
  bool has_room_for(int64_t width) const;
  int64_t requests() const;  // waiting or being decoded

  // Changes how many hypotheses are decoded at a time; requests being decoded stay.
  void set_slots(int64_t slots);
  int64_t slots() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tril
