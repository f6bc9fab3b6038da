#include "tril/prove/table.h"

#include <algorithm>
#include <cstring>

#include "tril/base/fingerprint.h"
#include "tril/prove/stepwise.h"

namespace tril {
namespace {

// The logits of a sentence, a row a position.
using Logits = std::vector<std::vector<float>>;

// Counts calls, and notes what the rows of the first layer were given to see.
class Watcher : public ForwardCounter {
 public:
  void see(const Observation& o) override {
    ForwardCounter::see(o);
    if (o.stack != Stack::decoder || o.site != Site::query || o.layer != 0) return;
    for (const Interval& interval : o.intervals) {
      seen.push_back({interval.lo - interval.origin, interval.hi - interval.origin});
    }
  }
  std::vector<TableEvidence::Seen> seen;
};

class Table {
 public:
  Table(const Transformer& model, const TokenPair& pair, Session& session)
      : model_(model), pair_(pair), session_(session), observer_before_(session.observer) {}
  ~Table() { session_.observer = observer_before_; }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // All at once, under a tape.
  Logits train(Observer* observer = nullptr) {
    session_.reset();
    session_.observer = observer;
    const Tape tape(session_);
    const Memory memory = encode_pairs(model_, {&pair_, 1}, session_);
    return forward_all(memory, 0);
  }
  // All at once, into a slot of the cache.
  Logits read() {
    session_.reset();
    session_.observer = nullptr;
    const Memory memory = encode_pairs(model_, {&pair_, 1}, session_);
    const int32_t slot = session_.cache.open();
    try {
      Logits logits = forward_all(memory, slot);
      session_.cache.release(slot);
      return logits;
    } catch (...) {
      session_.cache.release(slot);
      throw;
    }
  }
  // Token by token: the given ones, or those it writes.
  Transcript step(const AgreementOptions& options, Observer* observer = nullptr) {
    session_.observer = observer;
    return write_step_by_step(model_, {&pair_, 1}, 0, 1, options, session_).transcripts.at(0);
  }
  Logits step_given() {
    Logits logits;
    for (const LogitsRow& row : step({}).logits) logits.push_back(*row);
    return logits;
  }

  uint64_t weights() const {
    Fingerprint fingerprint;
    for (const auto& parameter : model_.parameters()) {
      const auto* bytes = reinterpret_cast<const char*>(parameter.tensor.data());
      fingerprint.add({bytes, static_cast<size_t>(parameter.tensor.size()) * sizeof(float)});
    }
    return fingerprint.value();
  }

 private:
  Logits forward_all(const Memory& memory, int32_t slot) {
    Rows rows;
    rows.add_sequence(pair_.target,
                      {.slot = slot, .segment = model_.config().decoder_only() ? -1 : 0});
    const Tensor logits = model_.logits(model_.forward(rows, memory, session_), session_);
    Logits result;
    for (int64_t row = 0; row < logits.rows(); ++row) {
      const float* from = logits.data() + row * logits.columns();
      result.emplace_back(from, from + logits.columns());
    }
    return result;
  }

  const Transformer& model_;
  const TokenPair& pair_;
  Session& session_;
  Observer* observer_before_;
};

int64_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) ++count;
  }
  return count;
}
int64_t differing(const Logits& a, const Logits& b) {
  int64_t count = 0;
  for (size_t row = 0; row < a.size(); ++row) count += differing(a[row], b[row]);
  return count;
}
int64_t differing_rows(const Logits& a, const Logits& b) {
  int64_t count = 0;
  for (size_t row = 0; row < a.size(); ++row) count += differing(a[row], b[row]) > 0 ? 1 : 0;
  return count;
}

// One weight changed for as long as this lives; then it has its bits back.
class Nudge {
 public:
  Nudge(const Transformer& model, const std::string& name, Session& session)
      : model_(model), session_(session) {
    for (const auto& parameter : model_.parameters()) {
      if (parameter.name == name) weight_ = parameter.tensor.data();
    }
    require(weight_ != nullptr, ErrorCode::internal, "prove: the model has no parameter ", name);
    before_ = *weight_;
    change_to(before_ + 0.5f);
  }
  ~Nudge() { change_to(before_); }
  Nudge(const Nudge&) = delete;
  Nudge& operator=(const Nudge&) = delete;

 private:
  void change_to(float value) {
    *weight_ = value;
    session_.reset();
    model_.weights_changed(session_);
  }
  Transformer model_;
  Session& session_;
  float* weight_ = nullptr;
  float before_ = 0.0f;
};

// The masking of a session for as long as this lives.
class With {
 public:
  With(Session& session, Masking masking) : session_(session), before_(session.masking) {
    session_.masking = masking;
  }
  ~With() { session_.masking = before_; }
  With(const With&) = delete;
  With& operator=(const With&) = delete;

 private:
  Session& session_;
  Masking before_;
};

void count_what_the_mask_does(Table& table, Session& session, TableEvidence& result) {
  const auto all = [&](Masking masking) {
    const With with(session, masking);
    return std::vector<Logits>{table.train(), table.read(), table.step_given()};
  };
  const auto masked = all(Masking::causal);
  const auto unmasked = all(Masking::none);
  result.unmasked_training_rows = differing_rows(masked[0], unmasked[0]);
  result.unmasked_call_rows = differing_rows(masked[1], unmasked[1]);
  result.unmasked_step_rows = differing_rows(masked[2], unmasked[2]);
}

}  // namespace

bool TableEvidence::same_weights() const {
  return weights_before == weights_after && moved_in_training > 0 && moved_in_inference > 0;
}
bool TableEvidence::calls_as_stated() const {
  const auto fed = static_cast<int64_t>(fed_in_inference.size());
  return training_calls == 1 && training_rows == static_cast<int64_t>(fed_in_training.size()) &&
         inference_calls == fed && inference_rows == fed;
}

TableEvidence gather_table(const Transformer& model, const TokenPair& pair, int64_t max_tokens,
                           int32_t end, Session& session) {
  require(pair.target.size() >= 2, ErrorCode::invalid_argument,
          "prove: a target of two tokens or more is needed, got ", pair.target.size());
  TableEvidence result;
  Table table(model, pair, session);
  result.weights_before = table.weights();
  result.tensors = static_cast<int64_t>(model.parameters().size());

  Watcher training;
  const Logits trained = table.train(&training);
  result.training_calls = training.calls();
  result.training_rows = training.rows();
  result.mask_in_training = training.seen;
  result.fed_in_training = pair.target;
  for (size_t row = 0; row < trained.size(); ++row) {
    const auto best = std::max_element(trained[row].begin(), trained[row].end());
    result.predicted_in_training.push_back(static_cast<int32_t>(best - trained[row].begin()));
    const int32_t right = row + 1 < pair.target.size() ? pair.target[row + 1] : pair.next;
    result.corrected += result.predicted_in_training.back() != right ? 1 : 0;
  }

  Watcher inference;
  const Transcript written =
      table.step({.writing = Writing::greedy, .max_tokens = max_tokens, .end = end}, &inference);
  result.fed_in_inference = written.tokens;
  result.inference_calls = inference.calls();
  result.inference_rows = inference.rows();
  Watcher stepping;  // the same sentence, for the mask
  table.step({}, &stepping);
  result.mask_in_inference = stepping.seen;

  count_what_the_mask_does(table, session, result);

  const Logits stepped = table.step_given();
  result.nudged = "decoder.0.attention.value.weight";
  {
    const Nudge nudge(model, result.nudged, session);
    result.moved_in_training = differing(trained, table.train());
    result.moved_in_inference = differing(stepped, table.step_given());
  }
  for (const auto& row : trained) result.logits += static_cast<int64_t>(row.size());
  result.weights_after = table.weights();
  return result;
}

}  // namespace tril
