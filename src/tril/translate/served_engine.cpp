#include "tril/translate/served_engine.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tril {

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
    if (!engine) {
      session.emplace(model, threads);
      engine.emplace(model, EngineOptions{}, *session);
      thread.add(*engine);
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
  auto end = [served = std::move(served_), thread = thread_.get()]() mutable {
    if (served->engine) thread->remove(*served->engine);
    served.reset();
  };
  if (thread_->is_this_thread()) {
    thread_->post([end = std::move(end), keep = thread_]() mutable { end(); });
  } else {
    thread_->call(std::move(end));
  }
}

void ServedEngine::check(const SearchOptions& options, int64_t slots) const {
  Engine::check(options, slots, model_.config());
}

std::shared_ptr<ServedEngine::Ticket> ServedEngine::submit(
    SearchRequest request, std::shared_ptr<const SearchOptions> options, int64_t slots,
    RequestEvents events, const RequestTerms& terms) {
  auto ticket = std::make_shared<Ticket>();
  auto task = [served = served_, thread = thread_.get(), ticket, slots, terms,
               request = std::move(request), options = std::move(options),
               events = std::move(events)]() mutable {
    const auto done = events.done;
    const int64_t number = request.number;
    const auto refuse = [&](RequestEnd end, const Error& error) {
      done({.id = 0, .number = number, .end = end, .hypotheses = {}, .error = error});
    };
    if (ticket->cancelled) {
      return refuse(
          RequestEnd::cancelled,
          Error(ErrorCode::cancelled, concat("search: request ", number, " was cancelled")));
    }
    bool registered = false;
    try {
      Engine& engine = served->started(*thread);
      served->want_slots(slots);
      registered = true;
      events.done = [served = served.get(), ticket, slots, done](RequestOutcome&& outcome) {
        ticket->id = 0;
        served->release_slots(slots);
        done(std::move(outcome));
      };
      ticket->id = engine.submit(std::move(request), std::move(options), std::move(events), terms);
    } catch (const std::exception& failure) {
      if (registered) served->release_slots(slots);
      const auto* error = dynamic_cast<const Error*>(&failure);
      refuse(RequestEnd::failed,
             error != nullptr ? *error : Error(ErrorCode::internal, failure.what()));
    }
  };
  // std::function must be copyable; the task is not.
  thread_->post([shared = std::make_shared<decltype(task)>(std::move(task))] { (*shared)(); });
  return ticket;
}

void ServedEngine::cancel(std::shared_ptr<Ticket> ticket) {
  thread_->post([served = served_, ticket = std::move(ticket)] {
    ticket->cancelled = true;
    if (ticket->id != 0) served->engine->cancel(ticket->id);
  });
}

}  // namespace tril
