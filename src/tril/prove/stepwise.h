// Token by token with a cache: what decoding does, with every logit kept. Internal to prove/.
//
// What a model writes, search() (decode/search.h) writes: the very function that translates. It is
// watched from outside, its calls of the model by an observer, its choices by its trace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tril/prove/agreement.h"

namespace tril {

// The logits of one position; hypotheses that part later share what they met before.
using LogitsRow = std::shared_ptr<const std::vector<float>>;

// What forward() was given step by step, and the logits it answered with.
struct Transcript {
  size_t sentence = 0;  // which pair
  std::vector<int32_t> tokens{};
  std::vector<LogitsRow> logits{};  // one a token
};

// What the encoder left of each sentence, in the order they were encoded: its outputs, and every
// decoder layer's cross-attention keys and values.
class SourceRecorder : public Observer {
 public:
  void see(const Observation& o) override;
  std::vector<std::vector<float>> sentences;

 private:
  size_t first_ = 0;  // of the call under way
};

struct StepwiseResult {
  // A sentence each; of a beam every hypothesis that read something no other did, those that fell
  // out of it too.
  std::vector<Transcript> transcripts;
  std::vector<std::vector<float>> sources;     // see SourceRecorder; by pair
  int64_t calls = 0;                           // of forward()
  int64_t forked = 0, moved = 0, misread = 0;  // see Agreement
};

// The session's observer watches too.
StepwiseResult write_step_by_step(const Transformer& model, std::span<const TokenPair> pairs,
                                  const AgreementOptions& options, Session& session);

}  // namespace tril
