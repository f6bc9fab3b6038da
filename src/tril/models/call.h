// A call of a model: its rows in the step's memory, and the parts that encoder and decoder share.
// Internal to models/.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "tril/autograd/functions.h"
#include "tril/models/session_state.h"
#include "tril/models/transformer.h"
#include "tril/nn/attention.h"
#include "tril/ops/weights.h"

namespace tril {

template <class T>
std::span<T> arena_array(Arena& arena, int64_t count) {
  return {arena.allocate_array<T>(count), static_cast<size_t>(count)};
}

inline std::span<const int32_t> keep(Arena& arena, std::span<const int32_t> values) {
  const std::span<int32_t> copy = arena_array<int32_t>(arena, static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), copy.begin());
  return copy;
}

// The rows of a call. Gradient rules keep views of them until the backward pass, so they are copied
// into the step's memory, and to the device if kernels read them.
struct Call {
  const TransformerConfig& config;
  SessionState& session;
  Stack stack;
  Mirrored<int32_t> tokens, positions, sentences;
  std::span<const int32_t> slots, segments, prefixes;
  uint32_t dropout_site = 0;

  Call(const TransformerConfig& c, SessionState& s, Stack which, const Rows& rows,
       const RowsOnDevice* on_device = nullptr)
      : config(c),
        session(s),
        stack(which),
        tokens(tokens_of(s, rows, on_device)),
        positions(s.mirror<int32_t>(rows.positions)),
        sentences(s.mirror<int32_t>(rows.sentences)),
        slots(keep(s.host, rows.slots)),
        segments(segments_of(s.host, rows)),
        prefixes(keep(s.host, rows.prefixes)) {}

  static Mirrored<int32_t> tokens_of(SessionState& session, const Rows& rows,
                                     const RowsOnDevice* on_device) {
    if (on_device == nullptr) return session.mirror<int32_t>(rows.tokens);
    return {keep(session.host, rows.tokens), on_device->tokens.on_device<int32_t>()};
  }

  // Padding has no segment, whatever its row says.
  static std::span<const int32_t> segments_of(Arena& host, const Rows& rows) {
    const std::span<int32_t> copy = arena_array<int32_t>(host, rows.size());
    for (size_t row = 0; row < copy.size(); ++row) {
      copy[row] = rows.slots[row] < 0 ? -1 : rows.segments[row];
    }
    return copy;
  }

  void observe(int64_t layer, Site site, const Tensor& tensor,
               std::span<const Interval> intervals = {},
               const ops::AttentionOptions* options = nullptr) const {
    if (session.observer == nullptr) return;
    session.observer->see(
        {stack, layer, site, tensor, {}, intervals, options, tokens.host, slots, positions.host});
  }
  void observe_table(Site site, const ConstTensor& table) const {
    if (session.observer == nullptr || !table.defined()) return;
    session.observer->see(
        {stack, -1, site, {}, table, {}, nullptr, tokens.host, slots, positions.host});
  }

  // Each use is its own site, counted from the start of the call.
  ops::DropoutKey next_dropout() {
    const uint32_t site = dropout_site++ + (stack == Stack::encoder ? 0 : 1u << 15);
    if (session.tape == nullptr || !session.dropout) return {};  // a probability of zero
    return {.probability = static_cast<float>(config.dropout),
            .seed = session.dropout->seed,
            .step = session.dropout->step,
            .site = site,
            .sentences = sentences,
            .positions = positions};
  }
  Tensor dropout(const Tensor& x) { return autograd::dropout(session, next_dropout(), x); }

  Tensor rotate(const Tensor& table, const Tensor& x) const {
    return table.defined() ? autograd::rotary(session, x, positions, table) : x;
  }

  // x + f(norm(x)), or norm(x + f(x)).
  template <class F>
  Tensor residual(int64_t layer, const nn::Norm& norm, const Tensor& x, const F& f) {
    if (config.norm_position == NormPosition::pre) {
      const Tensor h = norm(session, x);
      observe(layer, Site::normed, h);
      const Tensor y = f(h);
      observe(layer, Site::added, y);
      const Tensor sum = autograd::add(session, x, dropout(y));
      observe(layer, Site::sum, sum);
      return sum;
    }
    const Tensor y = f(x);
    observe(layer, Site::added, y);
    const Tensor h = autograd::residual_norm(session, norm.kind, norm.epsilon, x, y, next_dropout(),
                                             norm.weight, norm.bias);
    observe(layer, Site::normed, h);
    return h;
  }

  Tensor feed_forward(int64_t layer, const nn::FeedForward& network, const Tensor& h) const {
    const Tensor hidden = network.hidden(session, h);
    observe(layer, Site::feed_forward_hidden, hidden);
    return network.out(session, hidden);
  }

  // x after a layer. A layer's intermediate tensors are not needed afterwards, unless a tape or an
  // observer keeps them: otherwise only its result stays, in the memory of its input, so that the
  // peak memory of a call does not grow with the number of layers. Few rows on a device need little
  // memory, and copying them costs as much as multiplying them, so there nothing is copied.
  template <class F>
  Tensor through(const Tensor& x, const F& layer) {
    if (session.tape != nullptr || session.observer != nullptr) return layer(x);
    constexpr int64_t kFewRows = 1024;
    if (session.device() != Device::cpu && x.rows() <= kFewRows) return layer(x);
    const Arena::Scope scratch(session.arena);
    const Tensor result = layer(x);
    ops::copy(session, result, x);
    return x;
  }

  // Self-attention of one layer on its normed input. `where(k, v)` says where attention finds the
  // keys and values: as they are, or in a cache.
  template <class Where>
  Tensor self_attention(const nn::MultiHeadAttention& attention, const Tensor& rotary_table,
                        int64_t layer, const Tensor& h, const ops::AttentionPlan& plan,
                        const ops::AttentionOptions& options, const Where& where) const {
    const auto projected = attention.queries_keys_values(session, h);
    const Tensor q = rotate(rotary_table, projected.queries);
    const Tensor k = rotate(rotary_table, projected.keys);
    const Tensor& v = projected.values;
    observe(layer, Site::query, q, plan.intervals().host, &options);
    observe(layer, Site::key, k);
    observe(layer, Site::value, v);
    const Tensor out = attention.attend(session, q, where(k, v), plan, options);
    observe(layer, Site::context, out);
    return attention.project(session, out);
  }

  Tensor embed(const ops::LinearWeight* table, const Tensor& position_table, const nn::Norm& norm) {
    const float scale = config.embedding_scale ? std::sqrt(static_cast<float>(config.model)) : 1.0f;
    observe_table(Site::embedding_table, table->weight);
    observe_table(Site::position_table, position_table);
    Tensor x = autograd::embedding(session, {.ids = tokens,
                                             .table = table->weight,
                                             .packed = table,
                                             .scale = scale,
                                             .position_ids = positions,
                                             .positions = position_table});
    if (config.embedding_norm) x = norm(session, x);
    x = dropout(x);
    observe(-1, Site::embedded, x);
    return x;
  }
};

}  // namespace tril
