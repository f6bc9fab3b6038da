// Backend: what takes the sentences that have joined through the steps of the model. There are two:
// the host chooses tokens from log-probabilities it sees (host_backend.h), or the device chooses
// them and the host follows one step behind (ahead_backend.h). Internal to decode/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tril/decode/encoded.h"
#include "tril/decode/sentence.h"

namespace tril {

// A sentence that a step finished, or that failed alone.
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
  // One step of all sentences. Those that leave have given their slots back.
  virtual void step(std::vector<Leaver>& leavers) = 0;
  // Takes a sentence out, its slots given back; null where it is not here.
  virtual std::unique_ptr<Sentence> remove(RequestId id) = 0;
  // Takes one out, whatever state a failed step has left all of them in; null where none is left.
  // Needs no memory. Until null has come, nothing else may be asked.
  virtual std::unique_ptr<Sentence> remove_any() = 0;

  virtual int64_t slots_taken() const = 0;
  virtual bool empty() const = 0;
  // f(sentence) for each that is being decoded.
  virtual void each(const std::function<void(Sentence&)>& f) const = 0;
};

}  // namespace tril
