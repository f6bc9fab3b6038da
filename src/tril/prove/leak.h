// The leak probe: what a row may not see is changed, and nothing of that row may change.
//
// Which keys a row may see is worked out here from positions alone, by the rule a decoder must
// obey: its own position and those before it, in its own sentence (within the window, behind a
// prefix). The model's own intervals are not asked: they are what is on trial. They are compared
// with the rule, and neither may be wider than the other: a mask that hides what a row may see
// leaks nothing, but is no causal mask either.
//
// Two probes, because neither finds everything.
// At the attention: one pass of the model is watched, and what each layer's masked attention was
// called with (queries, keys, values, intervals, options) is taken down. Then every key and value
// is poisoned in turn, by other numbers, NaN, +inf and -inf, and the same operation is called
// again, forward and backward. Outputs and query gradients of the rows that may not see the key
// must keep their bits. Layers do not disturb each other, so a leak has an address: layer and head.
// That the operation called this way gives the bits the model got is checked first. And a probe
// that never finds anything may be blind, so there is a control: rows that may see a key poisoned
// with NaN must change, every head of them.
// End to end: the model itself runs, with one token's embedding poisoned on the way in. The hidden
// states of the rows before it, and of other sentences, must keep their bits, in the pass of
// training and in a cached call that brings the whole sentence. That finds what leaks anywhere
// else, but cannot say where. The control: NaN reaches the token's own row, and those that see it.
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

// Token of a sentence; both count from 0.
struct TokenPlace {
  int64_t sentence = 0;
  int64_t position = 0;
  bool operator==(const TokenPlace&) const = default;
};

struct HeadLeak {
  int64_t layer = 0;
  int64_t head = 0;
  TokenPlace row{};  // saw what it may not see:
  TokenPlace key{};
  Poison poison = Poison::finite;
  enum class Where { output, query_gradient } where = Where::output;

  // The row's own sentence, at a later position.
  bool is_future() const { return key.sentence == row.sentence && key.position > row.position; }
};

// A head of a row that does not see what it may see.
struct BlindHead {
  int64_t layer = 0;
  int64_t head = 0;
  TokenPlace row{};
  TokenPlace key{};
};

// Keys a row was given to see, first and one behind the last, counted from its sentence's start;
// and those the rule gives it.
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
  int64_t positions = 0;                      // of all sentences given
  int64_t model_layers = 0, model_heads = 0;  // as configured
  int64_t layers = 0, heads = 0;              // as watched: what was probed

  // The mask in use, row by row, in every layer, in a pass of training and in a cached call.
  int64_t mask_rows = 0;
  int64_t mask_wrong = 0;  // rows that were given other keys than the rule gives them
  std::optional<WrongMask> first_wrong_mask;

  // At the attention.
  int64_t poisoned = 0;         // positions
  int64_t probes = 0;           // positions x layers x heads, counted as they were done
  int64_t forbidden_pairs = 0;  // (row, position it may not see), each in every layer and head
  int64_t values = 0;           // outputs and query gradients compared
  int64_t unfaithful = 0;  // outputs that differ from what the model's own pass gave: must be 0
  // Where something changed: the earliest row of each head that leaks, by layer and head.
  std::vector<HeadLeak> heads_leaking;
  // The earliest row that sees a later position of its own sentence.
  std::optional<HeadLeak> first_future;
  // The control: (row, position it may see, layer, head) that NaN must reach, and the earliest of
  // each head that it did not.
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
  int64_t hidden_unreached = 0;            // and that it did not

  bool mask_as_ruled() const { return mask_rows > 0 && mask_wrong == 0; }
  bool every_head_probed() const {
    return probes > 0 && probes == poisoned * model_layers * model_heads;
  }
  // Nothing changed that may not, everything changed that must, and something was compared wherever
  // there is anything forbidden.
  bool holds() const {
    const bool looked = forbidden_pairs == 0 || (values > 0 && hidden_values > 0);
    const bool sees =
        controls > 0 && controls_missed == 0 && hidden_controls > 0 && hidden_unreached == 0;
    return looked && sees && every_head_probed() && mask_as_ruled() && unfaithful == 0 &&
           heads_leaking.empty() && !end_to_end;
  }
};

struct LeakOptions {
  int64_t batch_rows = 64;       // packed into one pass, about
  int64_t max_positions = 1024;  // poisoned at the attention; sentences beyond are left out
  int64_t end_to_end_tokens = 8;
  int32_t prefix = 0;  // prefix-LM: so many first positions of each sentence see each other
  // Called with the positions done and all to be done; may be empty.
  std::function<void(int64_t done, int64_t all)> progress{};
};

// Uses the session's masking and hooks; its cache is as before afterwards. A target longer than
// `batch_rows` has a pass of its own.
LeakProbe probe_leaks(const Transformer& model, std::span<const TokenPair> pairs, Session& session,
                      const LeakOptions& options = {});

}  // namespace tril
