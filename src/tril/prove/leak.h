// The leak probe: what a row may not see is changed, and nothing of that row may change.
//
// Which keys a row may see is derived here from positions alone, by the rule a decoder must obey:
// its own position and those before it, in its own sentence (within the window, after a prefix).
// The model's own intervals are not used: they are what is being tested. They are compared with the
// rule, and neither may be wider than the other: a mask that hides what a row may see leaks
// nothing, but is not a causal mask either.
//
// There are two probes, because neither finds everything.
// At the attention: one pass of the model is observed, and the arguments of each layer's masked
// attention (queries, keys, values, intervals, options) are recorded. Then every key and value is
// poisoned in turn, by other numbers, NaN, +inf and -inf, and the same operation is called again,
// forward and backward. Outputs and query gradients of the rows that may not see the key must keep
// their bits. Layers do not disturb each other, so a leak has an address: layer and head. It is
// checked first that the operation called this way gives the bits the model got. And since a probe
// that never finds anything may be blind, there is a control: rows that may see a key poisoned with
// NaN must change, in every head.
// End to end: the model itself runs, with one token's embedding poisoned on the way in. The hidden
// states of the rows before it, and of other sentences, must keep their bits, in the training pass
// and in a cached call with the whole sentence. That finds leaks anywhere else, but cannot say
// where. The control: NaN reaches the token's own row, and those that see it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tril/base/words.h"
#include "tril/prove/pairs.h"

namespace tril {

enum class Poison { finite, nan, infinity, minus_infinity };
template <>
struct Words<Poison> {
  static constexpr std::string_view kList[] = {"a number", "NaN", "+inf", "-inf"};
};

// A token of a sentence; both count from 0.
struct TokenPlace {
  int64_t sentence = 0;
  int64_t position = 0;
  bool operator==(const TokenPlace&) const = default;
};

struct HeadLeak {
  int64_t layer = 0;
  int64_t head = 0;
  TokenPlace row{};  // saw something it may not see:
  TokenPlace key{};
  Poison poison = Poison::finite;
  enum class Where { output, query_gradient } where = Where::output;

  // The row's own sentence, at a later position.
  bool is_future() const { return key.sentence == row.sentence && key.position > row.position; }
};

// A head of a row that does not see something it may see.
struct BlindHead {
  int64_t layer = 0;
  int64_t head = 0;
  TokenPlace row{};
  TokenPlace key{};
};

// The keys a row was given, as the first and one past the last, counted from its sentence's start;
// and those the rule allows.
struct WrongMask {
  int64_t layer = 0;
  TokenPlace row{};
  int64_t begin = 0, end = 0;
  int64_t rule_begin = 0, rule_end = 0;
};

struct EndToEndLeak {
  TokenPlace row{};
  TokenPlace key{};
  Poison poison = Poison::finite;
  enum class Way { training, cached } way = Way::training;
};

struct LeakProbe {
  int64_t sentences = 0;
  int64_t positions = 0;                      // of all given sentences
  int64_t model_layers = 0, model_heads = 0;  // as configured
  int64_t layers = 0, heads = 0;              // as observed and probed

  // The mask in use, row by row, in every layer, in a training pass and in a cached call.
  int64_t mask_rows = 0;
  int64_t mask_wrong = 0;  // rows that were given other keys than the rule allows
  std::optional<WrongMask> first_wrong_mask;

  // At the attention.
  int64_t poisoned = 0;         // positions
  int64_t probes = 0;           // positions x layers x heads, counted as they were done
  int64_t forbidden_pairs = 0;  // (row, position it may not see), in every layer and head
  int64_t values = 0;           // outputs and query gradients compared
  int64_t unfaithful = 0;       // outputs that differ from the model's own pass: must be 0
  // Where something changed: the earliest row of each leaking head, by layer and head.
  std::vector<HeadLeak> heads_leaking;
  // The earliest row that sees a later position of its own sentence.
  std::optional<HeadLeak> first_future;
  // The control: (row, position it may see, layer, head) that NaN must reach, and the earliest per
  // head that it did not reach.
  int64_t controls = 0;
  int64_t controls_missed = 0;
  std::vector<BlindHead> heads_blind;
  // The share of positions x layers x heads of the model that was probed.
  double coverage() const {
    const int64_t all = positions * model_layers * model_heads;
    return all == 0 ? 0.0 : static_cast<double>(probes) / static_cast<double>(all);
  }

  // End to end.
  int64_t tokens_poisoned = 0;
  int64_t passes = 0;
  int64_t hidden_values = 0;               // compared
  std::optional<EndToEndLeak> end_to_end;  // the earliest row that changed
  int64_t hidden_controls = 0;             // rows that NaN must reach
  int64_t hidden_unreached = 0;            // of these, rows that it did not reach

  bool mask_as_ruled() const { return mask_rows > 0 && mask_wrong == 0; }
  bool every_head_probed() const {
    return probes > 0 && probes == poisoned * model_layers * model_heads;
  }
  // Nothing changed that must not, everything changed that must, and something was compared
  // wherever anything is forbidden.
  bool holds() const {
    const bool looked = forbidden_pairs == 0 || (values > 0 && hidden_values > 0);
    const bool sees =
        controls > 0 && controls_missed == 0 && hidden_controls > 0 && hidden_unreached == 0;
    return looked && sees && every_head_probed() && mask_as_ruled() && unfaithful == 0 &&
           heads_leaking.empty() && !end_to_end;
  }
};

struct LeakOptions {
  int64_t batch_rows = 64;       // packed into one pass, approximately
  int64_t max_positions = 1024;  // poisoned at the attention; further sentences are left out
  int64_t end_to_end_tokens = 8;
  int32_t prefix = 0;  // prefix LM: this many first positions of each sentence see each other
  // Called with the number of positions done and in total; may be empty.
  std::function<void(int64_t done, int64_t all)> progress{};
};

// Uses the session's masking and hooks; leaves its cache as it was. A target longer than
// `batch_rows` has a pass of its own.
LeakProbe probe_leaks(const Transformer& model, std::span<const TokenPair> pairs, Session& session,
                      const LeakOptions& options = {});

}  // namespace tril
