#include "tril/translate/served_engine.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "tril/base/caught.h"
#include "tril/models/session_state.h"

namespace tril {

TestHooks& served_hooks() {
  static TestHooks hooks;
  return hooks;
}

struct ServedEngine::Served {
  Served(Transformer transformer, int thread_count)
      : model(std::move(transformer)), threads(thread_count) {}

  const Transformer model;
  const int threads;
  // Created for the first request.
  std::optional<Session> session;
  std::optional<Engine> engine;
  std::multiset<int64_t> slots;  // requested by requests in flight

  Engine& started(EngineThread& thread) {
    if (engine) return *engine;
    session.emplace(model, threads);
    (*session)->hooks = served_hooks();
    engine.emplace(model, EngineOptions{}, *session);
    try {
      thread.add(*engine);
    } catch (const std::bad_alloc&) {
      engine.reset();  // nobody would step it
      throw;
    }
    return *engine;
  }
  void want_slots(int64_t wanted) {
    slots.insert(wanted);
    engine->set_slots(*slots.rbegin());
  }
  void release_slots(int64_t wanted) {
    slots.erase(slots.find(wanted));
    if (!slots.empty()) engine->set_slots(*slots.rbegin());
  }
};

ServedEngine::ServedEngine(Transformer model, int threads)
    : model_(model),
      thread_(EngineThread::of(model.placement().device)),
      served_(std::make_shared<Served>(std::move(model), threads)) {}

// The last holder of a Translator may be a callback on the engine's thread, in the middle of a
// step: so what lives on that thread is destroyed between two steps, and only other threads wait
// for it.
ServedEngine::~ServedEngine() {
  const auto end = [](std::shared_ptr<Served>& served, EngineThread& thread) {
    if (served->engine) thread.remove(*served->engine);
    served.reset();
  };
  if (thread_->is_this_thread()) {
    thread_->post(
        [end, served = std::move(served_), keep = thread_]() mutable { end(served, *keep); });
  } else {
    const auto here = [&] { end(served_, *thread_); };
    thread_->call(std::cref(here));
  }
}

void ServedEngine::check(const SearchOptions& options, int64_t slots) const {
  Engine::check(options, slots, model_);
}

std::shared_ptr<ServedEngine::Ticket> ServedEngine::submit(
    SearchRequest request, std::shared_ptr<const SearchOptions> options, int64_t slots,
    RequestEvents events, const RequestTerms& terms) {
  auto ticket = std::make_shared<Ticket>();
  // Everything to be reported is allocated here: on the thread there may be no memory for it.
  const auto done = std::make_shared<const decltype(events.done)>(std::move(events.done));
  events.done = [served = served_.get(), ticket, slots, done](RequestOutcome&& outcome) {
    ticket->id = 0;
    served->release_slots(slots);
    (*done)(std::move(outcome));
  };
  auto task = [served = served_, thread = thread_.get(), ticket, slots, terms, done,
               request = std::move(request), options = std::move(options),
               events = std::move(events)]() mutable {
    const int64_t number = request.number;
    const auto refuse = [&](RequestEnd end, const Error& error) {
      (*done)({.id = 0, .number = number, .end = end, .hypotheses = {}, .error = error});
    };
    if (ticket->cancelled) {
      return refuse(RequestEnd::cancelled,
                    make_error(ErrorCode::cancelled, "search: request ", number, " was cancelled"));
    }
    bool registered = false;
    try {
      Engine& engine = served->started(*thread);
      served->want_slots(slots);
      registered = true;
      ticket->id = engine.submit(std::move(request), std::move(options), std::move(events), terms);
    } catch (const std::exception& failure) {
      if (registered) served->release_slots(slots);
      refuse(RequestEnd::failed, error_of(failure));
    }
  };
  // std::function must be copyable; the task is not.
  thread_->post([shared = std::make_shared<decltype(task)>(std::move(task))] { (*shared)(); });
  return ticket;
}

void ServedEngine::cancel(std::vector<std::shared_ptr<Ticket>> tickets) noexcept {
  for (const auto& ticket : tickets) ticket->cancelled = true;
  try {
    thread_->post([served = served_, tickets = std::move(tickets)] {
      try {
        std::vector<RequestId> ids;
        for (const auto& ticket : tickets) {
          if (ticket->id != 0) ids.push_back(ticket->id);
        }
        if (!ids.empty()) served->engine->cancel(ids);
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it goes on, or was told
      }
    });
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it goes on to its end
  }
}

}  // namespace tril
