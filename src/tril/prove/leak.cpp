#include "tril/prove/leak.h"

#include <algorithm>
#include <limits>

#include "tril/autograd/tape.h"
#include "tril/base/rng.h"
#include "tril/models/session_state.h"
#include "tril/ops/attention.h"
#include "tril/prove/bits.h"

namespace tril {
namespace {

constexpr int64_t kFillerBetween = 2;  // padding rows between packed sentences
constexpr Poison kPoisons[] = {Poison::finite, Poison::nan, Poison::infinity,
                               Poison::minus_infinity};

// `other` numbers are drawn at random, from a stream per place.
void fill_with(Poison poison, uint64_t stream, std::span<float> values) {
  Random random(0x7E57, stream);
  for (float& value : values) {
    switch (poison) {
      case Poison::finite: value = random.uniform(-4.0f, 4.0f); break;
      case Poison::nan: value = std::numeric_limits<float>::quiet_NaN(); break;
      case Poison::infinity: value = std::numeric_limits<float>::infinity(); break;
      case Poison::minus_infinity: value = -std::numeric_limits<float>::infinity(); break;
    }
  }
}

// `count` numbers from `at` on.
std::span<const float> part(const float* values, int64_t at, int64_t count) {
  return {values + at, static_cast<size_t>(count)};
}

// Some sentences end to end, with padding between them.
struct PackedSentences {
  std::vector<TokenPair> pairs;
  Rows target;
  std::vector<TokenPlace> places;  // by row; sentence -1: padding
  std::vector<int64_t> lengths;    // of the row's sentence
};

// What a decoder's row may see, from positions alone.
struct Rule {
  int64_t window = 0;
  int64_t prefix = 0;

  bool forbids(const TokenPlace& row, const TokenPlace& key) const {
    if (row.sentence < 0) return false;  // a padding row sees nothing
    if (row.sentence != key.sentence) return true;
    if (key.position >= std::max(prefix, row.position + 1)) return true;
    return window > 0 && key.position + window <= row.position;
  }
  bool allows(const TokenPlace& row, const TokenPlace& key) const {
    return row.sentence >= 0 && !forbids(row, key);
  }
  // All keys the rule allows a row of a sentence of this many tokens; padding sees none.
  WrongMask visible(const TokenPlace& row, int64_t length) const {
    WrongMask result{.row = row};
    if (row.sentence < 0) return result;
    if (window > 0) result.rule_begin = std::max<int64_t>(0, row.position + 1 - window);
    result.rule_end = std::min(length, std::max(prefix, row.position + 1));
    return result;
  }
  // Through any number of layers: positions before a window are reached in several steps.
  bool never_reaches(const TokenPlace& row, const TokenPlace& key) const {
    if (row.sentence < 0) return false;
    return row.sentence != key.sentence || key.position >= std::max(prefix, row.position + 1);
  }
};

bool earlier(const TokenPlace& row_a, const TokenPlace& key_a, const TokenPlace& row_b,
             const TokenPlace& key_b) {
  if (row_a.position != row_b.position) return row_a.position < row_b.position;
  if (row_a.sentence != row_b.sentence) return row_a.sentence < row_b.sentence;
  const bool own_a = key_a.sentence == row_a.sentence;
  const bool own_b = key_b.sentence == row_b.sentence;
  if (own_a != own_b) return own_a;  // report the future before other sentences
  return key_a.sentence != key_b.sentence ? key_a.sentence < key_b.sentence
                                          : key_a.position < key_b.position;
}

// The arguments and the result of a layer's masked attention.
struct AttentionCall {
  std::vector<float> q, k, v, out, bias;
  Shape q_shape, k_shape, bias_shape;
  std::vector<Interval> intervals;
  std::vector<int32_t> positions;
  ops::AttentionOptions options;  // without the bias, which may be of the step that was observed
};

class AttentionCalls : public Observer {
 public:
  void see(const Observation& o) override {
    if (o.stack != Stack::decoder || o.layer < 0) return;
    const auto layer = static_cast<size_t>(o.layer);
    if (o.site == Site::query) {
      if (calls.size() <= layer) calls.resize(layer + 1);
      AttentionCall& call = calls[layer];
      call.q = to_floats(o.tensor);
      call.q_shape = o.tensor.shape();
      call.intervals.assign(o.intervals.begin(), o.intervals.end());
      call.options = *o.options;
      call.positions.assign(o.options->positions.begin(), o.options->positions.end());
      call.options.positions = call.positions;
      call.options.bias = Tensor();
      if (o.options->bias.defined()) {
        call.bias = to_floats(o.options->bias);
        call.bias_shape = o.options->bias.shape();
      }
    } else if (o.site == Site::key) {
      calls[layer].k = to_floats(o.tensor);
      calls[layer].k_shape = o.tensor.shape();
    } else if (o.site == Site::value) {
      calls[layer].v = to_floats(o.tensor);
    } else if (o.site == Site::context) {
      calls[layer].out = to_floats(o.tensor);
    }
  }
  std::vector<AttentionCall> calls;
};

// Overwrites one token's embedding before the layers read it.
class PoisonedToken : public Observer {
 public:
  PoisonedToken(int64_t row, Poison poison) : row_(row), poison_(poison) {}
  void see(const Observation& o) override {
    if (o.stack != Stack::decoder || o.site != Site::embedded) return;
    const int64_t width = o.tensor.columns();
    std::vector<float> values(static_cast<size_t>(width));
    fill_with(poison_, static_cast<uint64_t>(row_), values);
    set_values(o.tensor.slice(row_, row_ + 1), values);
  }

 private:
  int64_t row_;
  Poison poison_;
};

class Probe {
 public:
  Probe(const Transformer& model, Session& session, const LeakOptions& options)
      : model_(model), session_(session), rule_{model.config().window, options.prefix} {
    result_.model_layers = model.config().decoder_layers;
    result_.model_heads = model.config().heads;
  }

  // Poisons every position of the sentences, in every layer.
  void probe_attention(const PackedSentences& packed) {
    AttentionCalls watched;
    hidden_of(packed, EndToEndLeak::Way::training, &watched);
    compare_masks(packed, EndToEndLeak::Way::training, watched);
    result_.layers = std::max(result_.layers, static_cast<int64_t>(watched.calls.size()));
    for (size_t layer = 0; layer < watched.calls.size(); ++layer) {
      if (watched.calls[layer].q.empty()) continue;  // was not observed: the coverage shows it
      probe_layer(packed, static_cast<int64_t>(layer), watched.calls[layer]);
    }
    for (const TokenPlace& key : packed.places) {
      if (key.sentence < 0) continue;
      ++result_.poisoned;
      for (const TokenPlace& row : packed.places) {
        result_.forbidden_pairs += rule_.forbids(row, key) ? 1 : 0;
      }
    }
  }

  // Poisons the embeddings of some rows of a pass.
  void probe_end_to_end(const PackedSentences& packed, std::span<const int64_t> rows) {
    for (const auto way : {EndToEndLeak::Way::training, EndToEndLeak::Way::cached}) {
      AttentionCalls watched;
      const std::vector<float> clean = hidden_of(packed, way, &watched);
      if (way == EndToEndLeak::Way::cached) compare_masks(packed, way, watched);
      for (const int64_t row : rows) {
        for (const Poison poison : kPoisons) compare_hidden(packed, way, row, poison, clean);
      }
    }
    result_.tokens_poisoned += static_cast<int64_t>(rows.size());
  }

  LeakProbe& result() { return result_; }

 private:
  std::vector<float> hidden_of(const PackedSentences& packed, EndToEndLeak::Way way,
                               Observer* observer) {
    session_.reset();
    const ObserverScope scope(session_, observer);
    ++result_.passes;
    if (way == EndToEndLeak::Way::training) {
      const Tape tape(session_);
      const Memory memory = encode_pairs(model_, packed.pairs, session_);
      return to_floats(model_.forward(packed.target, memory, session_));
    }
    const Memory memory = encode_pairs(model_, packed.pairs, session_);
    Rows rows = packed.target;
    std::vector<int32_t> slots;
    for (size_t i = 0; i < packed.pairs.size(); ++i) slots.push_back(session_->cache.open());
    for (int32_t& slot : rows.slots) {
      if (slot >= 0) slot = slots[static_cast<size_t>(slot)];
    }
    const auto give_back = [&] {
      for (const int32_t slot : slots) session_->cache.release(slot);
    };
    try {
      std::vector<float> hidden = to_floats(model_.forward(rows, memory, session_));
      give_back();
      return hidden;
    } catch (...) {
      give_back();
      throw;
    }
  }

  // Compares the keys the rows were given with the rule. Under a tape keys are counted from the
  // first row of the call, in a cache from the sentence's start.
  void compare_masks(const PackedSentences& packed, EndToEndLeak::Way way,
                     const AttentionCalls& watched) {
    for (size_t layer = 0; layer < watched.calls.size(); ++layer) {
      const std::vector<Interval>& intervals = watched.calls[layer].intervals;
      for (size_t r = 0; r < packed.places.size(); ++r) {
        const TokenPlace& row = packed.places[r];
        WrongMask found = rule_.visible(row, packed.lengths[r]);
        found.layer = static_cast<int64_t>(layer);
        ++result_.mask_rows;
        if (r < intervals.size() && intervals[r].hi > intervals[r].lo) {
          const bool taped = way == EndToEndLeak::Way::training && row.sentence >= 0;
          const int64_t origin = taped ? static_cast<int64_t>(r) - row.position : 0;
          found.begin = intervals[r].lo - origin;
          found.end = intervals[r].hi - origin;
        }
        if (found.begin == found.rule_begin && found.end == found.rule_end) continue;
        ++result_.mask_wrong;
        if (!result_.first_wrong_mask) result_.first_wrong_mask = found;
      }
    }
  }

  void compare_hidden(const PackedSentences& packed, EndToEndLeak::Way way, int64_t poisoned,
                      Poison poison, const std::vector<float>& clean) {
    PoisonedToken observer(poisoned, poison);
    const std::vector<float> hidden = hidden_of(packed, way, &observer);
    const TokenPlace& key = packed.places[static_cast<size_t>(poisoned)];
    const int64_t width = model_.config().model;
    for (size_t r = 0; r < packed.places.size(); ++r) {
      const TokenPlace& row = packed.places[r];
      const int64_t at = static_cast<int64_t>(r) * width;
      const bool same = same_bits(part(hidden.data(), at, width), part(clean.data(), at, width));
      if (poison == Poison::nan && rule_.allows(row, key)) {
        ++result_.hidden_controls;
        result_.hidden_unreached += same ? 1 : 0;
      }
      if (!rule_.never_reaches(row, key)) continue;
      result_.hidden_values += width;
      if (same) continue;
      auto& first = result_.end_to_end;
      if (!first || earlier(row, key, first->row, first->key)) first = {row, key, poison, way};
    }
  }

  Tensor tensor_of(const Shape& shape, const std::vector<float>& values) {
    const Tensor tensor(session_->arena, shape, session_->activations);
    set_values(tensor, values);
    return tensor;
  }

  void probe_layer(const PackedSentences& packed, int64_t layer, const AttentionCall& call) {
    session_.reset();
    const ObserverScope scope(session_, nullptr);
    const Tensor q = tensor_of(call.q_shape, call.q);
    const Tensor k = tensor_of(call.k_shape, call.k);
    const Tensor v = tensor_of(call.k_shape, call.v);
    std::vector<float> upstream(call.q.size());  // any gradient of the output will do
    fill_with(Poison::finite, static_cast<uint64_t>(layer) << 32, upstream);
    const Tensor dout = tensor_of(call.q_shape, upstream);
    ops::AttentionOptions options = call.options;
    if (!call.bias.empty()) {
      options.bias = Tensor(session_->arena, call.bias_shape);
      set_values(options.bias, call.bias);
    }
    const auto run = [&](std::vector<float>& out, std::vector<float>& dq) {
      const auto result = ops::attention(session_, q, k, v, call.intervals, options);
      out = to_floats(result.out);
      dq = to_floats(
          ops::attention_gradients(session_, q, k, v, result, dout, call.intervals, options).dq);
    };
    std::vector<float> clean_out, clean_dq, out, dq;
    run(clean_out, clean_dq);
    result_.unfaithful += differing_bits(clean_out, call.out);
    const int64_t heads = call.q_shape[1];
    result_.heads = std::max(result_.heads, heads);
    const int64_t width = k.shape()[1] * k.shape()[2];
    for (size_t row = 0; row < packed.places.size(); ++row) {
      if (packed.places[row].sentence < 0) continue;
      const auto at = static_cast<int64_t>(row);
      std::vector<float> key(static_cast<size_t>(width)), value(key.size());
      for (const Poison poison : kPoisons) {
        const Arena::Scope scratch(session_->arena);
        fill_with(poison, 2 * row, key);
        fill_with(poison, 2 * row + 1, value);
        set_values(k.slice(at, at + 1), key);
        set_values(v.slice(at, at + 1), value);
        run(out, dq);
        const auto leaks = [&](const std::vector<float>& now, const std::vector<float>& clean,
                               HeadLeak::Where where) {
          compare_heads(packed, packed.places[row], call.q_shape, now, clean,
                        {.layer = layer, .poison = poison, .where = where});
        };
        leaks(out, clean_out, HeadLeak::Where::output);
        leaks(dq, clean_dq, HeadLeak::Where::query_gradient);
        if (poison == Poison::nan) {
          control_heads(packed, packed.places[row], call.q_shape, out, clean_out, layer);
        }
        set_values(k.slice(at, at + 1), part(call.k.data(), at * width, width));
        set_values(v.slice(at, at + 1), part(call.v.data(), at * width, width));
      }
      result_.probes += heads;
    }
  }

  // Rows that may not see `key`, head by head.
  void compare_heads(const PackedSentences& packed, const TokenPlace& key, const Shape& shape,
                     const std::vector<float>& now, const std::vector<float>& clean,
                     HeadLeak found) {
    const int64_t heads = shape[1];
    const int64_t head_dim = shape[2];
    found.key = key;
    for (size_t r = 0; r < packed.places.size(); ++r) {
      found.row = packed.places[r];
      if (!rule_.forbids(found.row, key)) continue;
      result_.values += heads * head_dim;
      for (found.head = 0; found.head < heads; ++found.head) {
        const int64_t at = (static_cast<int64_t>(r) * heads + found.head) * head_dim;
        if (same_bits(part(now.data(), at, head_dim), part(clean.data(), at, head_dim))) continue;
        remember(result_.heads_leaking, found);
        auto& first = result_.first_future;
        const bool is_first = !first || earlier(found.row, found.key, first->row, first->key);
        if (found.is_future() && is_first) first = found;
      }
    }
  }

  // Rows that may see `key`, head by head: NaN in it must have reached them.
  void control_heads(const PackedSentences& packed, const TokenPlace& key, const Shape& shape,
                     const std::vector<float>& now, const std::vector<float>& clean,
                     int64_t layer) {
    const int64_t heads = shape[1];
    const int64_t head_dim = shape[2];
    BlindHead found{.layer = layer, .key = key};
    for (size_t r = 0; r < packed.places.size(); ++r) {
      found.row = packed.places[r];
      if (!rule_.allows(found.row, key)) continue;
      result_.controls += heads;
      for (found.head = 0; found.head < heads; ++found.head) {
        const int64_t at = (static_cast<int64_t>(r) * heads + found.head) * head_dim;
        if (same_bits(part(now.data(), at, head_dim), part(clean.data(), at, head_dim))) {
          ++result_.controls_missed;
          remember(result_.heads_blind, found);
        }
      }
    }
  }

  // The earliest of each head.
  template <class Found>
  static void remember(std::vector<Found>& list, const Found& found) {
    const auto before = [](const Found& a, const Found& b) {
      return a.layer != b.layer ? a.layer < b.layer : a.head < b.head;
    };
    const auto at = std::lower_bound(list.begin(), list.end(), found, before);
    if (at == list.end() || before(found, *at)) {
      list.insert(at, found);
    } else if (earlier(found.row, found.key, at->row, at->key)) {
      *at = found;
    }
  }

  const Transformer& model_;
  Session& session_;
  const Rule rule_;
  LeakProbe result_;
};

// The sentences in passes of roughly this many rows.
std::vector<PackedSentences> pack(const TransformerConfig& config, std::span<const TokenPair> pairs,
                                  const LeakOptions& options) {
  std::vector<PackedSentences> passes;
  int64_t positions = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto length = static_cast<int64_t>(pairs[i].target.size());
    positions += length;
    if (positions > options.max_positions && i > 0) break;
    if (passes.empty() || passes.back().target.size() + length > options.batch_rows) {
      passes.emplace_back();
    }
    PackedSentences& packed = passes.back();
    const auto slot = static_cast<int32_t>(packed.pairs.size());
    packed.pairs.push_back(pairs[i]);
    packed.target.add_sequence(
        pairs[i].target,
        {.slot = slot, .segment = config.decoder_only() ? -1 : slot, .prefix = options.prefix});
    packed.target.add_filler(kFillerBetween);
    for (int64_t position = 0; position < length; ++position) {
      packed.places.push_back({static_cast<int64_t>(i), position});
    }
    packed.lengths.resize(packed.places.size(), length);
    packed.places.resize(static_cast<size_t>(packed.target.size()), {-1, -1});
    packed.lengths.resize(packed.places.size(), 0);
  }
  return passes;
}

}  // namespace

LeakProbe probe_leaks(const Transformer& model, std::span<const TokenPair> pairs, Session& session,
                      const LeakOptions& options) {
  const TransformerConfig& config = model.config();
  Probe probe(model, session, options);
  LeakProbe& result = probe.result();
  result.sentences = static_cast<int64_t>(pairs.size());
  for (const TokenPair& pair : pairs) {
    result.positions += static_cast<int64_t>(pair.target.size());
  }
  const std::vector<PackedSentences> passes = pack(config, pairs, options);
  int64_t all = 0;
  for (const PackedSentences& packed : passes) all += packed.target.size();
  int64_t done = 0;
  for (const PackedSentences& packed : passes) {
    if (options.progress) options.progress(done, all);
    probe.probe_attention(packed);
    done += packed.target.size();
  }
  if (!passes.empty()) {
    // Spread over the first pass, including the last row.
    std::vector<int64_t> rows;
    for (size_t row = 0; row < passes[0].places.size(); ++row) {
      if (passes[0].places[row].sentence >= 0) rows.push_back(static_cast<int64_t>(row));
    }
    const auto wanted = std::min(options.end_to_end_tokens, static_cast<int64_t>(rows.size()));
    std::vector<int64_t> chosen;
    for (int64_t i = 1; i <= wanted; ++i) {
      chosen.push_back(
          rows[static_cast<size_t>(i * static_cast<int64_t>(rows.size()) / wanted - 1)]);
    }
    probe.probe_end_to_end(passes[0], chosen);
  }
  return result;
}

}  // namespace tril
