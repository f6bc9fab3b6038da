// The engine behind a Translator: runs on its device's EngineThread, for callers on any thread.
// Internal to translate/.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "tril/decode/engine_thread.h"
#include "tril/tensor/context.h"

namespace tril {

// Deliberate faults of every model that is decoded here, for tests: set before the first request.
TestHooks& served_hooks();

class ServedEngine {
 public:
  // The model is shared: only handles are copied.
  ServedEngine(Transformer model, int threads);
  // Callbacks of requests in flight are not called any more.
  ~ServedEngine();
  ServedEngine(const ServedEngine&) = delete;
  ServedEngine& operator=(const ServedEngine&) = delete;

  // Identifies a request from the moment it is posted; only the engine's thread reads `id`.
  struct Ticket {
    RequestId id = 0;                     // 0: not yet or no longer in the engine
    std::atomic<bool> cancelled = false;  // before it got there
  };

  // `events.done` is called on the engine's thread, exactly once, even if the request is faulty.
  // `slots`: the engine decodes at least this many hypotheses at a time while the request is there.
  std::shared_ptr<Ticket> submit(SearchRequest request,
                                 std::shared_ptr<const SearchOptions> options, int64_t slots,
                                 RequestEvents events, const RequestTerms& terms);
  // Takes effect when the thread gets to it, for all of them at once; if there is no memory to
  // notify it, possibly only when the requests are done.
  void cancel(std::vector<std::shared_ptr<Ticket>> tickets) noexcept;
  // For callers that wait for a request: EngineThread::help().
  bool help() { return thread_->help(); }
  // Raises what submit() would raise for these options with this many slots.
  void check(const SearchOptions& options, int64_t slots) const;

 private:
  // The part that lives on the thread.
  struct Served;
  const Transformer model_;
  std::shared_ptr<EngineThread> thread_;
  std::shared_ptr<Served> served_;
};

}  // namespace tril
