#include "tril/explain/passes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tril/autograd/tape.h"
#include "tril/kernels/reference/attention.h"
#include "tril/models/observer.h"
#include "tril/models/session_state.h"
#include "tril/ops/attention_bound.h"

namespace tril {
namespace {

void append(std::vector<float>& to, const Tensor& tensor) {
  const OnHost values(tensor);
  to.insert(to.end(), values.values().begin(), values.values().end());
}

// Records what the model computes.
class Recorder : public Observer {
 public:
  Recorder(Session& session, const TransformerConfig& config)
      : session_(session), norm_first_(config.norm_position == NormPosition::pre) {
    record.attention.encoder.resize(static_cast<size_t>(config.encoder_layers));
    record.attention.masked.resize(static_cast<size_t>(config.decoder_layers));
    record.attention.cross.resize(
        static_cast<size_t>(config.decoder_only() ? 0 : config.decoder_layers));
    record.layer_outputs.resize(static_cast<size_t>(config.decoder_layers));
    session->observer = this;
  }
  ~Recorder() override { session_->observer = nullptr; }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void see(const Observation& o) override {
    const bool decoder = o.stack == Stack::decoder;
    if (o.layer < 0) {
      if (o.site == Site::embedded) ++(decoder ? record.calls : record.encoder_calls);
      if (decoder && o.site == Site::final_output) append(record.hidden, o.tensor);
      if (decoder && keeps_stages) see_embedding(o);
      return;
    }
    const auto layer = static_cast<size_t>(o.layer);
    PassAttention& all = record.attention;
    AttentionRecord& self = decoder ? all.masked[layer] : all.encoder[layer];
    switch (o.site) {
      case Site::query:
        add_queries(self, o);
        see_bias(o, decoder ? record.masked_bias : record.encoder_bias);
        break;
      case Site::key: add_keys(self, o.tensor); break;
      case Site::value: append(self.values, o.tensor); break;
      case Site::context: append(self.context, o.tensor); break;
      case Site::cross_query: add_queries(all.cross[layer], o); break;
      case Site::cross_key: add_keys(all.cross[layer], o.tensor); break;
      case Site::cross_value: append(all.cross[layer].values, o.tensor); break;
      case Site::cross_context: append(all.cross[layer].context, o.tensor); break;
      case Site::block_output:
        if (decoder) append(record.layer_outputs[layer], o.tensor);
        break;
      case Site::normed:
      case Site::added:
      case Site::sum:
      case Site::feed_forward_hidden:
        if (decoder && keeps_stages) see_sub_layer(o);
        break;
      case Site::embedding_table:
      case Site::position_table:
      case Site::embedded:
      case Site::final_output: break;
    }
  }

  PassRecord record;
  bool keeps_stages = false;

 private:
  // Rows of a table, one per row of the call.
  static void append_rows(std::vector<float>& to, const ConstTensor& table,
                          std::span<const int32_t> rows) {
    const OnHost values(table);
    const auto columns = static_cast<size_t>(table.shape()[1]);
    for (const int32_t row : rows) {
      const auto from = values.values().subspan(static_cast<size_t>(row) * columns, columns);
      to.insert(to.end(), from.begin(), from.end());
    }
  }
  void see_embedding(const Observation& o) {
    if (o.site == Site::embedding_table) append_rows(record.token, o.table, o.tokens);
    if (o.site == Site::position_table) append_rows(record.position, o.table, o.positions);
    if (o.site == Site::embedded) append(record.embedded, o.tensor);
  }
  // With the norm first it begins a sub-layer, with the norm last it ends one.
  void see_sub_layer(const Observation& o) {
    auto& all = record.sub_layers;
    if (norm_first_ ? o.site == Site::normed : !within_) all.emplace_back().layer = o.layer;
    within_ = norm_first_ || o.site != Site::normed;
    PassRecord::SubLayer& now = all.back();
    append(o.site == Site::normed  ? now.normed
           : o.site == Site::added ? now.added
           : o.site == Site::sum   ? now.sum
                                   : now.feed_forward_hidden,
           o.tensor);
  }

  // All layers of a stack share it.
  static void see_bias(const Observation& o, DistanceBias& bias) {
    if (!bias.table.empty() || !o.options->bias.defined()) return;
    bias = {(o.options->bias.shape()[1] + 1) / 2, to_floats(o.options->bias)};
  }

  static void add_queries(AttentionRecord& to, const Observation& o) {
    to.query += o.tensor.shape()[0];
    append(to.queries, o.tensor);
    to.sees.insert(to.sees.end(), o.intervals.begin(), o.intervals.end());
  }
  static void add_keys(AttentionRecord& to, const Tensor& keys) {
    to.key += keys.shape()[0];
    append(to.keys, keys);
  }

  Session& session_;
  bool norm_first_;
  bool within_ = false;
};

Memory encode(const Transformer& model, std::span<const int32_t> source, Session& session) {
  if (model.config().decoder_only()) return {};
  Rows rows;
  rows.add_sequence(source, {.slot = 0});
  return model.encode(rows, session);
}

int32_t segment_of(const Transformer& model) { return model.config().decoder_only() ? -1 : 0; }

reference::AttentionSizes sizes_of(const AttentionRecord& record, const TransformerConfig& c) {
  return {record.query, record.key, c.heads, c.kv_heads, c.head_dim};
}

std::vector<double> doubles_of(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// A bias as the reference takes it.
struct BiasTable {
  BiasTable(const DistanceBias& from, const AttentionRecord& record)
      : table(doubles_of(from.table)) {
    if (table.empty()) return;
    bias.zero = from.reach - 1;
    bias.offsets = 2 * from.reach - 1;
    for (int32_t i = 0; i < static_cast<int32_t>(record.query); ++i) positions.push_back(i);
    bias.table = table;
    bias.positions = positions;
  }

  std::vector<double> table;
  std::vector<int32_t> positions;
  reference::AttentionBias<double> bias;
};

// The bound for one row of one head; `q` and `k` begin at the head's numbers.
ops::AttentionBound bound_of(std::span<const double> q, std::span<const double> k,
                             int64_t key_stride, const Interval& sees, double scale,
                             double largest_bias) {
  double largest = 0.0;
  const auto head_dim = static_cast<int64_t>(q.size());
  for (int64_t j = sees.lo; j < sees.hi; ++j) {
    double magnitude = largest_bias;
    for (int64_t d = 0; d < head_dim; ++d) {
      magnitude +=
          std::fabs(q[static_cast<size_t>(d)] * k[static_cast<size_t>(j * key_stride + d)]) * scale;
    }
    largest = std::max(largest, magnitude);
  }
  return ops::AttentionBound(
      {.head_dim = head_dim, .keys = std::max(0, sees.hi - sees.lo), .largest_score = largest});
}

}  // namespace

PassRecord training_pass(const Transformer& model, const PassTokens& tokens, Masking masking,
                         Session& session) {
  session.reset();
  Recorder recorder(session, model.config());
  recorder.keeps_stages = true;
  session->masking = masking;
  {
    Tape tape(session);
    const Memory memory = encode(model, tokens.source, session);
    Rows rows;
    rows.add_sequence(tokens.fed, {.slot = 0, .segment = segment_of(model)});
    append(recorder.record.logits, model.logits(model.forward(rows, memory, session), session));
  }
  session->masking = Masking::causal;
  return std::move(recorder.record);
}

PassRecord stepwise_pass(const Transformer& model, const PassTokens& tokens, Session& session) {
  session.reset();
  Recorder recorder(session, model.config());
  const Memory memory = encode(model, tokens.source, session);
  const int32_t slot = session->cache.open();
  for (size_t position = 0; position < tokens.fed.size(); ++position) {
    session.reset();
    Rows row;
    row.add(tokens.fed[position],
            {.slot = slot, .segment = segment_of(model), .first = static_cast<int32_t>(position)});
    append(recorder.record.logits, model.logits(model.forward(row, memory, session), session));
  }
  session->cache.release(slot);
  return std::move(recorder.record);
}

std::vector<double> weights_of(const AttentionRecord& record, const TransformerConfig& config,
                               float scale, const DistanceBias& by_distance, int64_t head) {
  const BiasTable bias(by_distance, record);
  return reference::attention_weights<double>(sizes_of(record, config), double{scale},
                                              doubles_of(record.queries), doubles_of(record.keys),
                                              record.sees, head, bias.bias);
}

void check_contexts(const AttentionRecord& record, const TransformerConfig& config, float scale,
                    const DistanceBias& bias, ContextCheck& check) {
  const reference::AttentionSizes n = sizes_of(record, config);
  const auto q = doubles_of(record.queries);
  const auto k = doubles_of(record.keys);
  const auto v = doubles_of(record.values);
  double largest_bias = 0.0;
  for (const float x : bias.table) largest_bias = std::max(largest_bias, std::fabs(double{x}));
  for (int64_t head = 0; head < n.heads; ++head) {
    const int64_t kv_head = head / (n.heads / n.kv_heads);
    const auto weights = weights_of(record, config, scale, bias, head);
    for (int64_t i = 0; i < n.query; ++i) {
      const Interval& sees = record.sees[static_cast<size_t>(i)];
      const auto at = static_cast<size_t>((i * n.heads + head) * n.head_dim);
      const ops::AttentionBound bound =
          bound_of(std::span(q).subspan(at, static_cast<size_t>(n.head_dim)),
                   std::span(k).subspan(static_cast<size_t>(kv_head * n.head_dim)),
                   n.kv_heads * n.head_dim, sees, double{scale}, largest_bias);
      for (int64_t d = 0; d < n.head_dim; ++d) {
        double sum = 0.0;
        double weighted = 0.0;
        double values = 0.0;
        for (int64_t j = sees.lo; j < sees.hi; ++j) {
          const double value = v[static_cast<size_t>((j * n.kv_heads + kv_head) * n.head_dim + d)];
          const double term = weights[static_cast<size_t>(i * n.key + j)] * value;
          sum += term;
          weighted += std::fabs(term);
          values += std::fabs(value);
        }
        const double difference =
            std::fabs(sum - double{record.context[at + static_cast<size_t>(d)]});
        const double allowed = bound(weighted, values);
        // max() would drop NaN, which must not pass.
        const bool told = difference <= std::numeric_limits<double>::max();
        const double infinite = std::numeric_limits<double>::infinity();
        const double share = difference == 0.0 ? 0.0 : (told ? difference / allowed : infinite);
        check.largest_difference = std::max(check.largest_difference, told ? difference : infinite);
        check.largest_share = std::max(check.largest_share, share);
        ++check.compared;
      }
    }
  }
}

bool same_bits(const AttentionRecord& a, const AttentionRecord& b) {
  const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
  };
  return a.query == b.query && a.key == b.key && a.sees == b.sees && same(a.queries, b.queries) &&
         same(a.keys, b.keys) && same(a.values, b.values) && same(a.context, b.context);
}

std::vector<float> scores_of(const AttentionRecord& record, const TransformerConfig& config,
                             float scale, const DistanceBias& bias) {
  const int64_t group = config.heads / config.kv_heads;
  std::vector<float> scores;
  scores.reserve(static_cast<size_t>(config.heads * record.query * record.key));
  for (int64_t head = 0; head < config.heads; ++head) {
    for (int64_t i = 0; i < record.query; ++i) {
      const float* q = record.queries.data() + (i * config.heads + head) * config.head_dim;
      for (int64_t j = 0; j < record.key; ++j) {
        const float* k =
            record.keys.data() + (j * config.kv_heads + head / group) * config.head_dim;
        double dot = 0.0;
        for (int64_t d = 0; d < config.head_dim; ++d) dot += double{q[d]} * double{k[d]};
        scores.push_back(static_cast<float>(dot * double{scale} + bias.at(head, i, j)));
      }
    }
  }
  return scores;
}

DistanceBias shortened(const DistanceBias& bias, int64_t reach) {
  DistanceBias result{std::min(reach, bias.reach), {}};
  if (bias.table.empty()) return result;
  const auto heads = static_cast<int64_t>(bias.table.size()) / (2 * bias.reach - 1);
  for (int64_t head = 0; head < heads; ++head) {
    const auto middle = bias.table.begin() + head * (2 * bias.reach - 1) + bias.reach - 1;
    result.table.insert(result.table.end(), middle - (result.reach - 1), middle + result.reach);
  }
  return result;
}

}  // namespace tril
