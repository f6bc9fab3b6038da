// Backend: takes joined sentences through the steps of the model. There are two: the host chooses
// tokens from log-probabilities (host_backend.h), or the device chooses them and the host follows
// one step behind (ahead_backend.h). Internal to decode/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tril/decode/encoded.h"
#include "tril/decode/sentence.h"

namespace tril {

// A sentence that leaves the engine, and why; it has released its slots.
struct Leaver {
  std::unique_ptr<Sentence> sentence;
  RequestEnd end = RequestEnd::finished;
  std::optional<Error> error{};
};

class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // The sentence is encoded, and there are slots for all its hypotheses. It takes part in the next
  // step. If this throws, the sentence is still the caller's, who releases its slots.
  virtual void join(std::unique_ptr<Sentence>&& sentence) = 0;
  // One step of all sentences; there is at least one. A SentenceFault fails that sentence alone;
  // what this throws is a failure of the model.
  virtual void step(std::vector<Leaver>& leavers) = 0;
  virtual Sentence* find(RequestId id) const = 0;  // null if it is not here
  // Removes a sentence and releases its slots; null if it is not here. Allocates nothing.
  virtual std::unique_ptr<Sentence> remove(RequestId id) = 0;
  // Removes one sentence, whatever state a failed step has left all of them in; null if none is
  // left. Allocates nothing. Until it has returned null, nothing else may be called.
  virtual std::unique_ptr<Sentence> remove_any() = 0;

  virtual int64_t slots_taken() const = 0;
  virtual int64_t size() const = 0;  // the number of sentences
  bool empty() const { return size() == 0; }
  // f(sentence) for each that is being decoded.
  virtual void each(const std::function<void(Sentence&)>& f) const = 0;
};

}  // namespace tril
