// Log-probabilities row by row, a part of them in memory at a time: a vocabulary is wide and a
// prompt may be long. Internal to decode/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "tril/models/transformer.h"

namespace tril {

// Calls f(row, log_probs, worker) for every row of `hidden` [row, model], on the session's threads
// in any order; the log-probabilities are gone when f returns. f must not throw.
template <class F>
void each_log_probs(const Transformer& model, const Tensor& hidden, Session& session, const F& f) {
  constexpr int64_t kRowsAtOnce = 256;
  for (int64_t begin = 0; begin < hidden.rows(); begin += kRowsAtOnce) {
    const int64_t end = std::min(begin + kRowsAtOnce, hidden.rows());
    const Arena::Scope scratch(session.arena);
    const Arena::Scope host_scratch(session.host);
    const Tensor logits = model.logits(hidden.slice(begin, end), session);
    const int64_t vocab = logits.columns();
    // A row stays in the cache from its normaliser to the choice.
    session.parallel(end - begin, [&](int64_t row, int worker) {
      const Tensor log_probs = logits.slice(row, row + 1);
      ops::log_probs_in_place(log_probs);
      f(begin + row, std::span<const float>(log_probs.data(), static_cast<size_t>(vocab)), worker);
    });
  }
}

}  // namespace tril
