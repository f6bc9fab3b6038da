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
