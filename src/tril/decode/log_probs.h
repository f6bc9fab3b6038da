// Log-probabilities row by row, with only some of them in memory at a time: a vocabulary is wide
// and a prompt may be long. Internal to decode/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tril/models/session_state.h"
#include "tril/models/transformer.h"
#include "tril/ops/loss.h"
#include "tril/tensor/arena.h"

namespace tril {

constexpr int64_t kRowsAtOnce = 256;

// The largest logit of a row: with its log-probability it gives the row's normaliser.
struct LargestLogit {
  size_t place = 0;
  float logit = 0.0f;

  static LargestLogit of(std::span<const float> logits) {
    const auto at = std::max_element(logits.begin(), logits.end());
    return {static_cast<size_t>(at - logits.begin()), *at};
  }
  float norm(std::span<const float> log_probs) const { return logit - log_probs[place]; }
};

// Calls f(row, log_probs, worker) for every row of `hidden` [row, model], on the session's threads
// in any order; the log-probabilities are valid during the call only. f must not throw. `largest`,
// if not empty, receives the largest logit of each row before f is called for it; from a GPU that
// copies all logits.
template <class F>
void each_log_probs(const Transformer& model, const Tensor& hidden, Session& session, const F& f,
                    std::span<LargestLogit> largest = {}) {
  for (int64_t begin = 0; begin < hidden.rows(); begin += kRowsAtOnce) {
    const int64_t end = std::min(begin + kRowsAtOnce, hidden.rows());
    const Arena::Scope scratch(session->arena);
    const Arena::Scope host_scratch(session->host);
    const Tensor logits = model.logits(hidden.slice(begin, end), session);
    if (!largest.empty()) {
      const OnHost values(logits);
      for (int64_t row = begin; row < end; ++row) {
        largest[static_cast<size_t>(row)] =
            LargestLogit::of(values.row(row - begin, logits.columns()));
      }
    }
    ops::each_log_probs(session, logits,
                        [&](int64_t row, std::span<const float> log_probs, int worker) {
                          f(begin + row, log_probs, worker);
                        });
  }
}

// The same over parts of the vocabulary: f(row, log_probs, worker) gets a row's log-probabilities
// over the tokens of its part. The parts cover all rows, in ascending order.
template <class F>
void each_log_probs(const Transformer& model, const Tensor& hidden, std::span<const PartRows> parts,
                    Session& session, const F& f, std::span<LargestLogit> largest = {}) {
  std::vector<PartRows> slices;     // of the parts, within the current rows
  std::vector<Tensor> rows_logits;  // by row
  size_t part = 0;
  for (int64_t begin = 0; begin < hidden.rows(); begin += kRowsAtOnce) {
    const int64_t end = std::min(begin + kRowsAtOnce, hidden.rows());
    slices.clear();
    rows_logits.clear();
    for (; part < parts.size() && parts[part].begin < end; ++part) {
      const PartRows& use = parts[part];
      slices.push_back(
          {std::max(begin, use.begin) - begin, std::min(end, use.end) - begin, use.part});
      if (use.end > end) break;  // continues in the next rows
    }
    const Arena::Scope scratch(session->arena);
    const Arena::Scope host_scratch(session->host);
    for (const Tensor& logits : model.logits(hidden.slice(begin, end), slices, session)) {
      for (int64_t row = 0; row < logits.rows(); ++row) {
        rows_logits.push_back(logits.slice(row, row + 1));
      }
    }
    session->parallel(end - begin, [&](int64_t row, int worker) {
      const Tensor& log_probs = rows_logits[static_cast<size_t>(row)];
      const std::span<const float> values(log_probs.data(),
                                          static_cast<size_t>(log_probs.columns()));
      if (!largest.empty()) {
        largest[static_cast<size_t>(begin + row)] = LargestLogit::of(values);
      }
      ops::log_probs_in_place(log_probs);
      f(begin + row, values, worker);
    });
  }
}

}  // namespace tril
