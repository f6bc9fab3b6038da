#include "tril/prove/agreement.h"

#include <cstring>

#include "tril/base/clock.h"

namespace tril {
namespace {

Rows source_rows(const TokenPair& pair) {
  Rows rows;
  rows.add_sequence(pair.source, {.slot = 0});
  return rows;
}

// All tokens in one call.
std::vector<float> in_parallel(const Transformer& model, const TokenPair& pair, Session& session) {
  session.reset();
  Tape tape(session);
  const bool alone = model.config().decoder_only();
  const Memory memory = alone ? Memory{} : model.encode(source_rows(pair), session);
  Rows rows;
  rows.add_sequence(pair.target, {.slot = 0, .segment = alone ? -1 : 0});
  const Tensor logits = model.logits(model.forward(rows, memory, session), session);
  return {logits.data(), logits.data() + logits.size()};
}

// One token a call. Returns the logits of all positions.
std::vector<float> step_by_step(const Transformer& model, const TokenPair& pair, Session& session) {
  session.reset();
  const bool alone = model.config().decoder_only();
  const Memory memory = alone ? Memory{} : model.encode(source_rows(pair), session);
  const int32_t slot = session.cache.open();
  std::vector<float> all;
  for (size_t position = 0; position < pair.target.size(); ++position) {
    session.reset();
    Rows row;
    row.add(pair.target[position],
            {.slot = slot, .segment = alone ? -1 : 0, .first = static_cast<int32_t>(position)});
    const Tensor logits = model.logits(model.forward(row, memory, session), session);
    all.insert(all.end(), logits.data(), logits.data() + logits.size());
  }
  session.cache.release(slot);
  return all;
}

}  // namespace

Agreement compare_parallel_with_stepwise(const Transformer& model, std::span<const TokenPair> pairs,
                                         Session& session) {
  Agreement result;
  for (const TokenPair& pair : pairs) {
    const Stopwatch parallel_time;
    const std::vector<float> parallel = in_parallel(model, pair, session);
    result.parallel_seconds += parallel_time.seconds();
    const Stopwatch stepwise_time;
    const std::vector<float> stepwise = step_by_step(model, pair, session);
    result.stepwise_seconds += stepwise_time.seconds();
    ++result.sentences;
    ++result.parallel_calls;
    result.stepwise_calls += static_cast<int64_t>(pair.target.size());
    result.positions += static_cast<int64_t>(pair.target.size());
    result.logits += static_cast<int64_t>(parallel.size());
    for (size_t i = 0; i < parallel.size(); ++i) {
      if (std::memcmp(&parallel[i], &stepwise[i], sizeof(float)) != 0) ++result.differing;
    }
  }
  return result;
}

}  // namespace tril
