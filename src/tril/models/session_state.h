// What a Session consists of, for code that reaches inside: `session->cache`, `session->observer`.
// A session is also a Context wherever an operation takes one.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "tril/models/observer.h"
#include "tril/models/session.h"
#include "tril/nn/cache.h"
#include "tril/tensor/context.h"

namespace tril {

// Context::reset() ends a step; slots of the cache and memories encoded without a tape stay.
struct SessionState : Context {
  SessionState(const Transformer& model, int threads);

  // Queue::step(), except with an observer, which must see tensors when they are computed.
  void step(const std::function<void()>& body) {
    if (observer == nullptr) {
      queue.step(body);
    } else {
      body();
    }
  }

  Cache cache;
  // What an engine leaves for the next one (decode/ahead_backend.h).
  std::shared_ptr<void> kept_for_engine;
  Observer* observer = nullptr;
  std::optional<DropoutStep> dropout;
  Masking masking = Masking::causal;
};

// Sets a session's observer (null: none) during its lifetime, then restores the previous one.
class ObserverScope {
 public:
  ObserverScope(Session& session, Observer* observer)
      : session_(session), before_(session->observer) {
    session_->observer = observer;
  }
  ~ObserverScope() { session_->observer = before_; }
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  Session& session_;
  Observer* before_;
};

// Sets a session's masking during its lifetime, then restores the previous one.
class MaskingScope {
 public:
  MaskingScope(Session& session, Masking masking) : session_(session), before_(session->masking) {
    session_->masking = masking;
  }
  ~MaskingScope() { session_->masking = before_; }
  MaskingScope(const MaskingScope&) = delete;
  MaskingScope& operator=(const MaskingScope&) = delete;

 private:
  Session& session_;
  Masking before_;
};

}  // namespace tril
