#include "tril/models/transformer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tril/base/rounding.h"
#include "tril/models/call.h"
#include "tril/models/output_part.h"
#include "tril/models/weights.h"
#include "tril/ops/beam.h"
#include "tril/ops/weights.h"

namespace tril {
namespace {

void check_rows(const Rows& rows, int64_t vocab, const TransformerConfig& config,
                std::string_view what) {
  const size_t count = rows.tokens.size();
  require(count > 0, ErrorCode::invalid_argument, what, ": no rows");
  require(rows.slots.size() == count && rows.positions.size() == count &&
              rows.segments.size() == count && rows.sentences.size() == count &&
              rows.prefixes.size() == count,
          ErrorCode::invalid_argument, what, ": the columns of the rows have different lengths");
  for (size_t row = 0; row < count; ++row) {
    require(rows.tokens[row] >= 0 && rows.tokens[row] < vocab, ErrorCode::invalid_argument, what,
            ": token ", rows.tokens[row], " in row ", row, " is not below the vocabulary of ",
            vocab);
    require(rows.positions[row] >= 0 && rows.positions[row] < config.max_length,
            ErrorCode::invalid_argument, what, ": position ", rows.positions[row], " in row ", row,
            " is not below max_length, which is ", config.max_length);
    require(rows.prefixes[row] >= 0, ErrorCode::invalid_argument, what, ": a prefix of ",
            rows.prefixes[row], " in row ", row);
  }
}

// Under a tape and in the encoder sequences must be whole: each starts at position 0, with
// consecutive rows. Returns their number.
int64_t check_whole_sequences(const Rows& rows, std::string_view what) {
  int64_t count = 0;
  for (size_t row = 0; row < rows.slots.size(); ++row) {
    if (rows.slots[row] < 0) continue;
    const bool follows = row > 0 && rows.slots[row - 1] == rows.slots[row] &&
                         rows.positions[row] == rows.positions[row - 1] + 1;
    require(follows || rows.positions[row] == 0, ErrorCode::invalid_argument, what, ": row ", row,
            " of sequence ", rows.slots[row], " is at position ", rows.positions[row],
            ", but whole sequences are needed: earlier keys have no gradient");
    if (!follows) ++count;
  }
  return count;
}

// For each row the index of its sequence's first row (its origin) and one past its last.
struct Extent {
  int32_t begin = 0;
  int32_t end = 0;
};
std::span<const Extent> extents(Arena& arena, std::span<const int32_t> slots,
                                std::span<const int32_t> positions) {
  const std::span<Extent> result = arena_array<Extent>(arena, static_cast<int64_t>(slots.size()));
  const auto rows = static_cast<int32_t>(slots.size());
  for (int32_t begin = 0; begin < rows;) {
    int32_t end = begin + 1;
    const auto at = [&](std::span<const int32_t> values, int32_t row) {
      return values[static_cast<size_t>(row)];
    };
    while (end < rows && at(slots, end) == at(slots, begin) &&
           at(positions, end) == at(positions, end - 1) + 1) {
      ++end;
    }
    for (int32_t row = begin; row < end; ++row) result[static_cast<size_t>(row)] = {begin, end};
    begin = end;
  }
  return result;
}

void use_parameters(const nn::ParameterSet& parameters, Context& context) {
  require(context.placement() == parameters.placement(), ErrorCode::invalid_argument,
          "the model is on ", parameters.placement().device, ", the session on ", context.device());
  if (context.tape == nullptr) return;
  require(parameters.can_be_recorded(), ErrorCode::unsupported,
          "this model was loaded for inference: it has no gradients");
  for (const nn::Parameter& parameter : parameters.list()) context.tape->watch(parameter.tensor);
}

void check_cache(const Cache& cache, const TransformerConfig& c, std::string_view what) {
  require(cache.layers() == c.decoder_layers && cache.kv_heads() == c.kv_heads &&
              cache.head_dim() == c.head_dim,
          ErrorCode::invalid_argument, what, " belongs to another model: ", cache.layers(),
          " layers of ", cache.kv_heads(), " x ", cache.head_dim(), ", this one has ",
          c.decoder_layers, " of ", c.kv_heads, " x ", c.head_dim);
}

// Makes room in the cache for a call's rows, and takes it back unless the call succeeds.
class CacheExtension {
 public:
  CacheExtension(Cache& cache, const Call& call) : cache_(cache), call_(call) {
    try {
      cache_.extend(call.slots, call.positions.host);
    } catch (...) {
      undo();
      throw;
    }
  }
  ~CacheExtension() {
    if (!kept_) undo();
  }
  CacheExtension(const CacheExtension&) = delete;
  CacheExtension& operator=(const CacheExtension&) = delete;
  void keep() { kept_ = true; }

 private:
  void undo() {
    for (size_t row = 0; row < call_.slots.size(); ++row) {
      const int32_t slot = call_.slots[row];
      if (cache_.is_open(slot) && cache_.length(slot) > call_.positions[row]) {
        cache_.truncate(slot, call_.positions[row]);
      }
    }
  }
  Cache& cache_;
  const Call& call_;
  bool kept_ = false;
};

// Opens slots of a cache, and releases them unless the call succeeds.
class OpenedSlots {
 public:
  OpenedSlots(Cache& cache, size_t count) : cache_(cache) {
    slots_.reserve(count);  // nothing below is lost
    for (size_t i = 0; i < count; ++i) slots_.push_back(cache.open());
  }
  ~OpenedSlots() {
    for (const int32_t slot : slots_) cache_.release(slot);
  }
  OpenedSlots(const OpenedSlots&) = delete;
  OpenedSlots& operator=(const OpenedSlots&) = delete;
  int32_t operator[](int32_t i) const { return slots_[static_cast<size_t>(i)]; }
  std::vector<int32_t> keep() { return std::exchange(slots_, {}); }

 private:
  Cache& cache_;
  std::vector<int32_t> slots_;
};

// The positions at which the rows' keys and values are stored in their slots: their own, except
// with the test hook.
std::span<const int32_t> stored_positions(const Call& call) {
  if (!call.session.hooks.shift_cache) return call.positions.host;
  const int64_t rows = call.positions.size();
  const std::span<int32_t> shifted = arena_array<int32_t>(call.session.host, rows);
  int32_t first = 0;  // position of the first row of its sequence in this call
  for (size_t row = 0; row < shifted.size(); ++row) {
    if (row == 0 || call.slots[row] != call.slots[row - 1]) first = call.positions[row];
    shifted[row] = call.positions[row] - (first > 0 ? 1 : 0);
  }
  return shifted;
}

// What the rows of a layer may see; the usual plan except with the test hook.
ops::AttentionPlan narrowed(const Call& call, int64_t layer, const ops::AttentionPlan& plan,
                            std::span<const Interval> intervals) {
  const TestHooks& hooks = call.session.hooks;
  if (hooks.narrow_position < 0 || (hooks.narrow_layer >= 0 && hooks.narrow_layer != layer)) {
    return plan;
  }
  const auto rows = static_cast<int64_t>(intervals.size());
  const std::span<Interval> result = arena_array<Interval>(call.session.host, rows);
  for (size_t row = 0; row < result.size(); ++row) {
    result[row] = intervals[row];
    const bool hit = call.slots[row] >= 0 && call.positions[row] == hooks.narrow_position;
    if (hit && result[row].hi > result[row].lo) --result[row].hi;
  }
  return ops::plan_attention(call.session, result);
}

// What each row sees: of its own sequence, and of its source.
struct Sight {
  std::span<Interval> self, cross;
};
// cross_of(segment): where the keys of an encoded sentence are.
template <class CrossOf>
Sight sight_of(const Call& call, const CrossOf& cross_of) {
  SessionState& session = call.session;
  const bool taped = session.tape != nullptr;
  const int64_t rows = call.positions.size();
  const std::span<const Extent> extent = extents(session.host, call.slots, call.positions.host);
  const Sight sight{arena_array<Interval>(session.host, rows),
                    arena_array<Interval>(session.host, rows)};
  for (size_t row = 0; row < sight.self.size(); ++row) {
    Interval& self = sight.self[row];
    self = sight.cross[row] = Interval{};
    if (call.slots[row] < 0) continue;
    const int32_t position = call.positions[row];
    // Where position 0 of the row's sequence is: among the step's rows, or in its own slot.
    const int32_t origin = taped ? extent[row].begin : 0;
    const int32_t first = call.positions[static_cast<size_t>(extent[row].begin)];
    const int32_t length = first + extent[row].end - extent[row].begin;
    require(first == 0 || first >= call.prefixes[row], ErrorCode::invalid_argument, "forward: row ",
            row, " is in a sequence with a prefix of ", call.prefixes[row],
            ", whose rows see each other: they must come in one call");
    self = session.masking == Masking::causal
               ? prefix_interval(origin, position, length, call.prefixes[row])
               : full_interval(origin, length);
    if (call.config.window > 0) {
      const auto width = static_cast<int32_t>(call.config.window);
      self.lo = window_interval(origin, position, width).lo;
    }
    if (!call.config.decoder_only()) sight.cross[row] = cross_of(call.segments[row]);
  }
  if (session.masking == Masking::causal) {
    check_causal(sight.self, call.positions.host, call.prefixes);
  }
  return sight;
}

// Both caches as all layers of a call use them: where its rows are stored, and what they read.
struct Views {
  CachePlaces places;
  CacheView self, cross;
};
Views views_of(const Call& call, const Cache* memory, const RowsOnDevice* on_device) {
  SessionState& session = call.session;
  const Cache& cache = session.cache;
  Views views;
  if (on_device == nullptr) {
    views.places = cache.places(session, call.slots, stored_positions(call));
    views.self = cache.view(session, call.slots);
    if (memory != nullptr) views.cross = memory->view(session, call.segments);
    return views;
  }
  views.places = cache.places(session, call.slots, call.positions.host);
  ops::extend_table(session, call.positions, views.places.entries, on_device->self);
  views.self = cache.view(session, call.slots, on_device->self);
  if (memory != nullptr) {
    views.cross = memory->view(session, call.segments, on_device->cross);
  }
  return views;
}

// Whether rows continue what the cache holds, for test hooks.
bool continues(const Call& call) {
  return call.session.tape == nullptr && call.stack == Stack::decoder && call.positions[0] > 0;
}

// The options of every attention.
ops::AttentionOptions plain_options(const Call& call) {
  ops::AttentionOptions options;
  const double scale = call.config.attention_scale;
  const bool skipped = call.session.hooks.skip_scales && continues(call);
  if (scale > 0.0 && !skipped) options.scale = static_cast<float>(scale);
  return options;
}
// Those of self-attention, with the bias by distance of its stack, if there is one.
ops::AttentionOptions self_options(const Tensor& bias, const Call& call) {
  ops::AttentionOptions options = plain_options(call);
  if (bias.defined()) {
    options.bias = bias;
    options.bias_zero = call.config.max_length - 1;
    if (call.session.hooks.shift_bias && continues(call)) --options.bias_zero;
    options.positions = call.positions;
  }
  return options;
}

}  // namespace

// The cache of a memory: one slot per segment.
struct MemoryStore : Cache {
  using Cache::Cache;
};

bool Memory::holds(int32_t segment) const {
  if (store_ != nullptr) return store_->is_open(segment);
  return segment >= 0 && static_cast<size_t>(segment) < segments_.size() && is_current(step_);
}

int32_t Memory::length(int32_t segment) const {
  require(holds(segment), ErrorCode::invalid_argument, "memory: it holds no segment ", segment);
  return store_ != nullptr ? store_->length(segment)
                           : segments_[static_cast<size_t>(segment)].length;
}

std::span<const int32_t> Memory::entries(int32_t segment) const {
  require(store_ != nullptr, ErrorCode::invalid_argument,
          "memory: the segments of a tape are in no cache");
  return store_->entries(segment);
}

void Memory::release(int32_t segment) {
  require(store_ != nullptr, ErrorCode::invalid_argument,
          "memory: the segments of a tape cannot be released");
  store_->release(segment);
}

// The encoder's output, and the places of the sentences in it.
struct Transformer::Encoded {
  Call call;
  Tensor hidden;                      // [row, model]
  std::span<const Segment> segments;  // by source slot
};

Transformer::Encoded Transformer::run_encoder(const Rows& source, Session& caller) const {
  SessionState& session = *caller;
  const State& s = *state_;
  const TransformerConfig& c = s.config;
  require(!c.decoder_only(), ErrorCode::unsupported, "encode: this model has no encoder");
  check_rows(source, c.source_vocab, c, "encode");
  const int64_t count = check_whole_sequences(source, "encode");
  int32_t next = 0;
  for (size_t row = 0; row < source.slots.size(); ++row) {
    if (source.slots[row] < 0 || source.positions[row] != 0) continue;
    require(source.slots[row] == next, ErrorCode::invalid_argument, "encode: the sequence in row ",
            row, " has slot ", source.slots[row], "; slots count up from 0, the next is ", next);
    ++next;
  }
  use_parameters(s.parameters, session);

  Call call(c, session, Stack::encoder, source);
  const std::span<const Extent> extent = extents(session.host, call.slots, call.positions.host);
  const std::span<Interval> intervals = arena_array<Interval>(session.host, source.size());
  const std::span<Segment> segments = arena_array<Segment>(session.host, count);
  for (size_t row = 0; row < intervals.size(); ++row) {
    intervals[row] = Interval{};
    if (call.slots[row] < 0) continue;
    const Segment segment{extent[row].begin, extent[row].end - extent[row].begin};
    intervals[row] = full_interval(segment.origin, segment.length);
    segments[static_cast<size_t>(call.slots[row])] = segment;
  }
  const ops::AttentionPlan plan = ops::plan_attention(session, intervals);
  const ops::AttentionOptions options = self_options(s.bias_in_encoder(session), call);

  Tensor x = call.embed(s.source_embedding, s.source_positions, s.source_embedding_norm);
  for (size_t layer = 0; layer < s.encoder.size(); ++layer) {
    const EncoderBlock& block = s.encoder[layer];
    const auto number = static_cast<int64_t>(layer);
    x = call.through(x, [&](Tensor y) {
      y = call.residual(number, block.attention_norm, y, [&](const Tensor& h) {
        return call.self_attention(
            block.attention, s.rotary_table, number, h, plan, options,
            [](const Tensor& k, const Tensor& v) { return nn::KeyValues{.keys = k, .values = v}; });
      });
      return call.residual(number, block.feed_forward_norm, y, [&](const Tensor& h) {
        return call.feed_forward(number, block.feed_forward, h);
      });
    });
    call.observe(number, Site::block_output, x);
  }
  if (c.norm_position == NormPosition::pre) x = s.encoder_norm(session, x);
  call.observe(-1, Site::final_output, x);
  return {call, x, segments};
}

Memory Transformer::encode(const Rows& source, Session& caller) const {
  SessionState& session = *caller;
  const StandardRounding rounding;
  const State& s = *state_;
  Memory memory;
  if (session.tape == nullptr) {
    memory.store_ = std::make_shared<MemoryStore>(s.config.decoder_layers, s.config.kv_heads,
                                                  s.config.head_dim, placement());
    encode_into(memory, source, caller);
    return memory;
  }
  Encoded encoded = run_encoder(source, caller);
  encoded.call.stack = Stack::decoder;  // what follows belongs to the decoder's layers
  const std::span<Tensor> keys = arena_array<Tensor>(session.host, s.config.decoder_layers);
  const std::span<Tensor> values = arena_array<Tensor>(session.host, s.config.decoder_layers);
  for (size_t layer = 0; layer < s.decoder.size(); ++layer) {
    const nn::MultiHeadAttention& attention = s.decoder[layer].cross_attention;
    const auto projected = attention.keys_values(session, encoded.hidden);
    new (&keys[layer]) Tensor(projected.keys);
    new (&values[layer]) Tensor(projected.values);
    encoded.call.observe(static_cast<int64_t>(layer), Site::cross_key, keys[layer]);
    encoded.call.observe(static_cast<int64_t>(layer), Site::cross_value, values[layer]);
  }
  memory.keys_ = keys;
  memory.values_ = values;
  memory.segments_ = encoded.segments;
  memory.step_ = session.host.ticket();
  memory.tape_ = session.tape->serial();
  return memory;
}

std::vector<int32_t> Transformer::encode_into(Memory& memory, const Rows& source,
                                              Session& caller) const {
  const StandardRounding rounding;
  SessionState& session = *caller;
  const State& s = *state_;
  require(session.tape == nullptr && memory.store_ != nullptr, ErrorCode::invalid_argument,
          "encode: sentences can be added to a memory only without a tape");
  check_cache(*memory.store_, s.config, "encode: the memory");
  Encoded encoded = run_encoder(source, caller);
  encoded.call.stack = Stack::decoder;
  Cache& cache = *memory.store_;
  OpenedSlots segments(cache, encoded.segments.size());
  const std::span<int32_t> slots = arena_array<int32_t>(session.host, source.size());
  for (size_t row = 0; row < slots.size(); ++row) {
    const int32_t slot = encoded.call.slots[row];
    slots[row] = slot < 0 ? -1 : segments[slot];
  }
  cache.extend(slots, encoded.call.positions.host);
  const CachePlaces places = cache.places(session, slots, encoded.call.positions.host);
  for (size_t layer = 0; layer < s.decoder.size(); ++layer) {
    const nn::MultiHeadAttention& attention = s.decoder[layer].cross_attention;
    const auto number = static_cast<int64_t>(layer);
    std::optional<Arena::Scope> scratch;
    if (session.observer == nullptr) scratch.emplace(session.arena);
    const auto [none, keys, values] = attention.keys_values(session, encoded.hidden);
    encoded.call.observe(number, Site::cross_key, keys);
    encoded.call.observe(number, Site::cross_value, values);
    cache.store(session, number, places, keys, values);
  }
  return segments.keep();
}

Tensor Transformer::forward(const Rows& rows, const Memory& memory, Session& caller,
                            const RowsOnDevice* on_device) const {
  SessionState& session = *caller;
  const StandardRounding rounding;
  const State& s = *state_;
  const TransformerConfig& c = s.config;
  const bool taped = session.tape != nullptr;
  check_rows(rows, c.target_vocab, c, "forward");
  require(on_device == nullptr || (session.device() != Device::cpu && !taped),
          ErrorCode::invalid_argument,
          "forward: rows that only a device knows, on the CPU or under a tape");
  if (taped) check_whole_sequences(rows, "forward");
  if (!taped) check_cache(session.cache, c, "forward: the session");
  if (!c.decoder_only()) {
    require(memory.store_ != nullptr || memory.tape_ != 0, ErrorCode::invalid_argument,
            "forward: the memory is empty; encode() makes one");
    require(taped == (memory.store_ == nullptr), ErrorCode::invalid_argument,
            "forward: the memory was encoded ", taped ? "without" : "under",
            " a tape, forward runs ", taped ? "under" : "without", " one");
    require(!taped || (memory.tape_ == session.tape->serial() && is_current(memory.step_)),
            ErrorCode::invalid_argument,
            "forward: the memory was encoded under another tape: it has no gradient here");
    require(!taped || memory.keys_.size() == s.decoder.size(), ErrorCode::invalid_argument,
            "forward: the memory belongs to another model");
    if (!taped) check_cache(*memory.store_, c, "forward: the memory");
    for (size_t row = 0; row < rows.slots.size(); ++row) {
      require(rows.slots[row] < 0 || memory.holds(rows.segments[row]), ErrorCode::invalid_argument,
              "forward: row ", row, " asks for segment ", rows.segments[row],
              ", which the memory does not hold");
    }
  }
  use_parameters(s.parameters, session);

  Call call(c, session, Stack::decoder, rows, on_device);
  const Sight sight = sight_of(call, [&](int32_t segment) {
    return full_interval(taped ? memory.segments_[static_cast<size_t>(segment)].origin : 0,
                         memory.length(segment));
  });
  std::optional<CacheExtension> extension;
  if (!taped) extension.emplace(session.cache, call);
  const Views views = taped ? Views{} : views_of(call, memory.store_.get(), on_device);
  const auto planned = [&](std::span<Interval> intervals) {
    // Rows that each read their own table row need no lists of work.
    return on_device != nullptr ? ops::AttentionPlan(session.mirror<Interval>(intervals))
                                : ops::plan_attention(session, Mirrored<Interval>(intervals));
  };
  const ops::AttentionPlan self_plan = planned(sight.self);
  const ops::AttentionPlan cross_plan = planned(sight.cross);

  const Tensor bias = s.bias_in_decoder(session);
  Tensor x = call.embed(s.target_embedding, s.target_positions, s.target_embedding_norm);
  for (size_t layer = 0; layer < s.decoder.size(); ++layer) {
    const DecoderBlock& block = s.decoder[layer];
    const auto number = static_cast<int64_t>(layer);
    ops::AttentionOptions options = self_options(bias, call);
    if (session.hooks.widen_layer < 0 || session.hooks.widen_layer == static_cast<int>(layer)) {
      options.widen_head = session.hooks.widen_head;
      options.widen_row = session.hooks.widen_row;
    }

    const ops::AttentionPlan visible = narrowed(call, number, self_plan, sight.self);

    x = call.through(x, [&](Tensor y) {
      // Masked self-attention: append to the cache, then attend. Under a tape appending does
      // nothing.
      y = call.residual(number, block.attention_norm, y, [&](const Tensor& h) {
        return call.self_attention(block.attention, s.rotary_table, number, h, visible, options,
                                   [&](const Tensor& k, const Tensor& v) {
                                     if (taped) return nn::KeyValues{.keys = k, .values = v};
                                     return nn::KeyValues{.keys = k,
                                                          .values = v,
                                                          .cache = &session.cache,
                                                          .view = &views.self,
                                                          .layer = number,
                                                          .places = &views.places};
                                   });
      });
      if (!c.decoder_only()) {
        y = call.residual(number, block.cross_attention_norm, y, [&](const Tensor& h) {
          const Tensor q = block.cross_attention.queries(session, h);
          call.observe(number, Site::cross_query, q, sight.cross);
          const nn::KeyValues from =
              taped ? nn::KeyValues{.keys = memory.keys_[layer], .values = memory.values_[layer]}
                    : nn::KeyValues{
                          .cache = memory.store_.get(), .view = &views.cross, .layer = number};
          const Tensor out =
              block.cross_attention.attend(session, q, from, cross_plan, plain_options(call));
          call.observe(number, Site::cross_context, out);
          return block.cross_attention.project(session, out);
        });
      }
      return call.residual(number, block.feed_forward_norm, y, [&](const Tensor& h) {
        return call.feed_forward(number, block.feed_forward, h);
      });
    });
    call.observe(number, Site::block_output, x);
  }
  if (c.norm_position == NormPosition::pre) x = s.decoder_norm(session, x);
  call.observe(-1, Site::final_output, x);
  if (c.output_scale != 1.0 && !(session.hooks.skip_scales && continues(call))) {
    x = autograd::scaled(session, x, static_cast<float>(c.output_scale));
  }
  if (extension) extension->keep();
  return x;
}

Tensor Transformer::logits(const Tensor& hidden, Session& caller) const {
  SessionState& session = *caller;
  const StandardRounding rounding;
  use_parameters(state_->parameters, session);
  const Tensor result = autograd::logits(session, hidden, *state_->output.weight);
  if (session.observer != nullptr) session.observer->see_logits(result);
  return result;
}

Tensor Transformer::logits_to_choose(const Tensor& hidden, Session& caller) const {
  SessionState& session = *caller;
  if (session.tape != nullptr || session.observer != nullptr) return logits(hidden, caller);
  const StandardRounding rounding;
  use_parameters(state_->parameters, session);
  return ops::linear(session, hidden, *state_->output.weight, ops::LinearOutput::padded_sums);
}

Tensor Transformer::log_probs(const Tensor& hidden, Session& session) const {
  const StandardRounding rounding;
  return ops::log_probs(session, logits(hidden, session));
}

void Transformer::choose_output(std::span<const int32_t> tokens, OutputPart& part,
                                Session& session) const {
  part.arena_.reset();
  part.weight_ = ops::part_of(session, *state_->output.weight, tokens, part.arena_);
  part.tokens_.assign(tokens.begin(), tokens.end());
}

std::vector<Tensor> Transformer::logits(const Tensor& hidden, std::span<const PartRows> rows,
                                        Session& caller) const {
  SessionState& session = *caller;
  const StandardRounding rounding;
  require(session.tape == nullptr, ErrorCode::invalid_argument,
          "logits: a part of the vocabulary has no gradient");
  std::vector<ops::RowsByWeight> products;
  products.reserve(rows.size());
  for (const PartRows& use : rows) products.push_back({use.begin, use.end, &use.part->weight_});
  std::vector<Tensor> result(rows.size());
  ops::linear_by_rows(session, hidden, products, result);
  return result;
}

Tensor Transformer::loss(const Tensor& hidden, std::span<const int32_t> labels,
                         const LossOptions& options, Session& caller) const {
  SessionState& session = *caller;
  const StandardRounding rounding;
  use_parameters(state_->parameters, session);
  return autograd::projected_loss(session, hidden, *state_->output.weight, session.mirror(labels),
                                  options);
}

}  // namespace tril
