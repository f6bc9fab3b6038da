// Token by token with a cache: what decoding does, with every logit kept. Internal to prove/.
//
// Tokens are written by search() (decode/search.h), the very function that translates. It is
// watched from outside: its calls of the model by an observer, its choices by its trace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tril/prove/agreement.h"

namespace tril {

// The logits of one position; hypotheses that diverge later share those from before.
using LogitsRow = std::shared_ptr<const std::vector<float>>;

// What forward() was given step by step, and the resulting logits.
struct Transcript {
  size_t sentence = 0;  // which pair
  std::vector<int32_t> tokens{};
  std::vector<LogitsRow> logits{};  // one per token
};

// The encoder's results for each sentence, in the order they were encoded: its outputs, and every
// decoder layer's cross-attention keys and values.
class SourceRecorder : public Observer {
 public:
  void see(const Observation& o) override;
  std::vector<std::vector<float>> sentences;

 private:
  size_t first_ = 0;  // of the current call
};

struct StepwiseResult {
  // One per sentence; for a beam, every hypothesis that read something no other did, even if it
  // fell out of the beam.
  std::vector<Transcript> transcripts;
  std::vector<std::vector<float>> sources;     // see SourceRecorder; by pair
  int64_t calls = 0;                           // of forward()
  int64_t forked = 0, moved = 0, misread = 0;  // see Agreement
};

// The session's own observer still sees everything.
StepwiseResult write_step_by_step(const Transformer& model, std::span<const TokenPair> pairs,
                                  const AgreementOptions& options, Session& session);

}  // namespace tril
