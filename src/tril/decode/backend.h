// Backend: takes joined sentences through the steps of the model. There are two: the host chooses
// tokens from log-probabilities (host_backend.h), or the device chooses them and the host follows
// one step behind (ahead_backend.h). Internal to decode/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tril/decode/encoded.h"
#include "tril/decode/sentence.h"

namespace tril {

// A sentence that finished in a step, or that failed by itself.
struct Leaver {
  std::unique_ptr<Sentence> sentence;
  std::optional<Error> error{};
};

class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // The sentence is encoded, and there are slots for all its hypotheses. It takes part in the next
  // step.
  virtual void join(std::unique_ptr<Sentence> sentence) = 0;
  // One step of all sentences. Those that leave have released their slots.
  virtual void step(std::vector<Leaver>& leavers) = 0;
  // Removes a sentence and releases its slots; null if it is not here.
  virtual std::unique_ptr<Sentence> remove(RequestId id) = 0;
  // Removes one sentence, whatever state a failed step has left all of them in; null if none is
  // left. Allocates nothing. Until it has returned null, nothing else may be called.
  virtual std::unique_ptr<Sentence> remove_any() = 0;

  virtual int64_t slots_taken() const = 0;
  virtual bool empty() const = 0;
  // f(sentence) for each that is being decoded.
  virtual void each(const std::function<void(Sentence&)>& f) const = 0;
};

}  // namespace tril
