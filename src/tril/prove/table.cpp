#include "tril/prove/table.h"

#include <algorithm>

#include "tril/autograd/tape.h"
#include "tril/base/fingerprint.h"
#include "tril/models/session_state.h"
#include "tril/ops/loss.h"
#include "tril/prove/bits.h"
#include "tril/prove/stepwise.h"

namespace tril {
namespace {

// The logits of a sentence, one row per position.
using Logits = std::vector<std::vector<float>>;

// Counts calls, and records what the rows read and, in the first layer, may see.
class Watcher : public ForwardCounter {
 public:
  void see(const Observation& o) override {
    ForwardCounter::see(o);
    if (o.stack != Stack::decoder) return;
    if (o.site == Site::embedded) fed.insert(fed.end(), o.tokens.begin(), o.tokens.end());
    if (o.site != Site::query || o.layer != 0) return;
    for (const Interval& interval : o.intervals) {
      seen.push_back({interval.lo - interval.origin, interval.hi - interval.origin});
    }
  }
  std::vector<int32_t> fed;
  std::vector<TableEvidence::Seen> seen;
};

// One sentence, run in every way.
class Table {
 public:
  Table(const Transformer& model, const TokenPair& pair, Session& session)
      : model_(model), pair_(pair), session_(session) {}

  // All at once, under a tape.
  Logits train(Observer* observer = nullptr) {
    session_.reset();
    const ObserverScope scope(session_, observer);
    const Tape tape(session_);
    const Memory memory = encode_pairs(model_, {&pair_, 1}, session_);
    return forward_all(memory, 0);
  }
  // All at once, into a slot of the cache.
  Logits read() {
    session_.reset();
    const ObserverScope scope(session_, nullptr);
    const Memory memory = encode_pairs(model_, {&pair_, 1}, session_);
    const int32_t slot = session_->cache.open();
    try {
      Logits logits = forward_all(memory, slot);
      session_->cache.release(slot);
      return logits;
    } catch (...) {
      session_->cache.release(slot);
      throw;
    }
  }
  // Token by token: the given ones, or those it writes.
  Transcript step(const AgreementOptions& options, Observer* observer = nullptr) {
    const ObserverScope scope(session_, observer);
    return write_step_by_step(model_, {&pair_, 1}, options, session_).transcripts.at(0);
  }
  Logits step_given() { return values_of(step({})); }

  static Logits values_of(const Transcript& transcript) {
    Logits logits;
    for (const LogitsRow& row : transcript.logits) logits.push_back(*row);
    return logits;
  }

  // The token a greedy search takes after each row: by log-probability, as search() compares them.
  std::vector<int32_t> predictions(const Logits& logits, std::span<const int32_t> forbidden) {
    session_.reset();
    std::vector<int32_t> result;
    for (const std::vector<float>& row : logits) {
      const Tensor values(session_->arena, {1, static_cast<int64_t>(row.size())});
      set_values(values, row);
      const std::vector<float> log_probs = to_floats(ops::log_probs(session_, values));
      int32_t best = -1;
      for (int32_t token = 0; token < static_cast<int32_t>(row.size()); ++token) {
        const bool allowed =
            std::find(forbidden.begin(), forbidden.end(), token) == forbidden.end();
        const auto at = [&](int32_t t) { return log_probs[static_cast<size_t>(t)]; };
        if (allowed && (best < 0 || at(token) > at(best))) best = token;
      }
      result.push_back(best);
    }
    return result;
  }

  uint64_t weights() const {
    Fingerprint fingerprint;
    for (const auto& parameter : model_.parameters()) {
      const OnHost values(parameter.tensor);
      fingerprint.add({reinterpret_cast<const char*>(values.data()), values.values().size_bytes()});
    }
    return fingerprint.value();
  }

 private:
  Logits forward_all(const Memory& memory, int32_t slot) {
    Rows rows;
    rows.add_sequence(pair_.target,
                      {.slot = slot, .segment = model_.config().decoder_only() ? -1 : 0});
    const Tensor logits = model_.logits(model_.forward(rows, memory, session_), session_);
    const OnHost values(logits);
    Logits result;
    for (int64_t row = 0; row < logits.rows(); ++row) {
      const auto from = values.row(row, logits.columns());
      result.emplace_back(from.begin(), from.end());
    }
    return result;
  }

  const Transformer& model_;
  const TokenPair& pair_;
  Session& session_;
};

int64_t differing(const Logits& a, const Logits& b) {
  int64_t count = 0;
  for (size_t row = 0; row < a.size(); ++row) count += differing_bits(a[row], b[row]);
  return count;
}
int64_t differing_rows(const Logits& a, const Logits& b) {
  int64_t count = 0;
  for (size_t row = 0; row < a.size(); ++row) count += same_bits(a[row], b[row]) ? 0 : 1;
  return count;
}

// A copy of the model with one weight changed: the model itself belongs to others.
Transformer nudged_copy(const Transformer& model, const std::string& name, Session& session) {
  Transformer copy = model.on(model.placement());
  Tensor weight;  // [1]
  for (const auto& parameter : copy.writable_parameters()) {
    if (parameter.name != name) continue;
    weight = parameter.tensor.reshaped({parameter.tensor.size()}).slice(0, 1);
  }
  require(weight.defined(), ErrorCode::internal, "prove: the model has no parameter ", name);
  const float changed = to_floats(weight)[0] + 0.5f;
  set_values(weight, {&changed, 1});
  session.reset();
  copy.weights_changed(session);
  return copy;
}

void count_what_the_mask_does(Table& table, Session& session, TableEvidence& result) {
  const auto all = [&](Masking masking) {
    const MaskingScope scope(session, masking);
    return std::vector<Logits>{table.train(), table.read(), table.step_given()};
  };
  const auto masked = all(Masking::causal);
  const auto unmasked = all(Masking::none);
  result.unmasked_training_rows = differing_rows(masked[0], unmasked[0]);
  result.unmasked_call_rows = differing_rows(masked[1], unmasked[1]);
  result.unmasked_step_rows = differing_rows(masked[2], unmasked[2]);
}

int32_t right_after(const TokenPair& pair, size_t position) {
  return position + 1 < pair.target.size() ? pair.target[position + 1] : pair.next;
}

// What went in, and the result.
void note_training(Table& table, const TokenPair& pair, const TableOptions& options,
                   const Watcher& watcher, const Logits& logits, TableEvidence& result) {
  result.training_calls = watcher.calls();
  result.training_rows = watcher.rows();
  result.mask_in_training = watcher.seen;
  result.given = pair.target;
  result.fed_in_training = watcher.fed;
  result.predicted_in_training = table.predictions(logits, options.forbidden);
  for (size_t row = 0; row < logits.size(); ++row) {
    const int32_t predicted = result.predicted_in_training[row];
    if (predicted == right_after(pair, row)) continue;
    ++result.mistaken;
    const bool fed = row + 1 < watcher.fed.size() && watcher.fed[row + 1] == predicted;
    result.followed += fed ? 1 : 0;
  }
}

void note_inference(Table& table, const TokenPair& pair, const TableOptions& options,
                    TableEvidence& result) {
  Watcher watcher;
  const Transcript written = table.step({.writing = Writing::greedy,
                                         .max_tokens = options.max_tokens,
                                         .start = pair.target[0],
                                         .forced = options.forced,
                                         .end = options.end,
                                         .forbidden = options.forbidden},
                                        &watcher);
  result.inference_calls = watcher.calls();
  result.inference_rows = watcher.rows();
  result.fed_in_inference = watcher.fed;
  result.predicted_in_inference = table.predictions(Table::values_of(written), options.forbidden);
  result.forced = std::ssize(options.forced);
  for (size_t i = 1 + options.forced.size(); i < watcher.fed.size(); ++i) {
    const bool own = i <= result.predicted_in_inference.size() &&
                     watcher.fed[i] == result.predicted_in_inference[i - 1];
    result.own_words += own ? 1 : 0;
  }
}

}  // namespace

bool TableEvidence::one_call() const {
  return training_calls == 1 && training_rows == static_cast<int64_t>(given.size());
}
bool TableEvidence::call_a_token() const {
  const auto fed = static_cast<int64_t>(fed_in_inference.size());
  return inference_calls == fed - forced && inference_rows == fed;
}

int64_t count_mistakes(const Transformer& model, const TokenPair& pair,
                       std::span<const int32_t> forbidden, Session& session) {
  Table table(model, pair, session);
  const auto predicted = table.predictions(table.train(), forbidden);
  int64_t count = 0;
  for (size_t row = 0; row < predicted.size(); ++row) {
    count += predicted[row] != right_after(pair, row) ? 1 : 0;
  }
  return count;
}

TableEvidence gather_table(const Transformer& model, const TokenPair& pair,
                           const TableOptions& options, Session& session) {
  require(pair.target.size() >= 2, ErrorCode::invalid_argument,
          "prove: a target of two tokens or more is needed, got ", pair.target.size());
  TableEvidence result;
  Table table(model, pair, session);
  result.weights_before = table.weights();
  result.tensors = static_cast<int64_t>(model.parameters().size());

  Watcher training;
  const Logits trained = table.train(&training);
  note_training(table, pair, options, training, trained, result);
  note_inference(table, pair, options, result);
  Watcher stepping;  // the same sentence, for the mask
  const Logits stepped = Table::values_of(table.step({}, &stepping));
  result.mask_in_inference = stepping.seen;

  count_what_the_mask_does(table, session, result);

  result.nudged = "decoder.0.attention.value.weight";
  {
    const Transformer nudged = nudged_copy(model, result.nudged, session);
    Table changed(nudged, pair, session);
    result.moved_in_training = differing(trained, changed.train());
    result.moved_in_inference = differing(stepped, changed.step_given());
    session.reset();  // so that it keeps nothing of the copy
  }
  for (const auto& row : trained) result.logits += static_cast<int64_t>(row.size());
  result.weights_after = table.weights();
  return result;
}

}  // namespace tril
