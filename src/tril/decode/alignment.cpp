#include "tril/decode/alignment.h"

#include <algorithm>
#include <cmath>

#include "tril/base/error.h"
#include "tril/base/math.h"
#include "tril/base/rounding.h"
#include "tril/decode/tokens.h"
#include "tril/models/observer.h"
#include "tril/models/session.h"
#include "tril/models/session_state.h"
#include "tril/models/transformer.h"
#include "tril/tensor/tensor.h"

namespace tril {
namespace {

// Keeps the queries and keys of one layer's cross-attention.
class CrossAttentionObserver : public Observer {
 public:
  CrossAttentionObserver(Session& session, int64_t layer)
      : session_(session), before_(session->observer), layer_(layer) {
    session->observer = this;
  }
  ~CrossAttentionObserver() override { session_->observer = before_; }
  CrossAttentionObserver(const CrossAttentionObserver&) = delete;
  CrossAttentionObserver& operator=(const CrossAttentionObserver&) = delete;

  void see(const Observation& o) override {
    if (o.stack == Stack::decoder && o.layer == layer_) {
      if (o.site == Site::cross_key) keys = o.tensor;
      if (o.site == Site::cross_query) queries = o.tensor;
    }
    if (before_ != nullptr) before_->see(o);
  }

  Tensor queries;  // [query, heads, head_dim]
  Tensor keys;     // [key, kv_heads, head_dim]

 private:
  Session& session_;
  Observer* before_;
  int64_t layer_;
};

// Adds the weights of one row and head, divided by the number of heads, to `sums`.
void add_weights(const TransformerConfig& c, const float* query, const float* keys,
                 std::span<double> sums) {
  const int64_t head_dim = c.head_dim, key_stride = c.kv_heads * c.head_dim;
  const double share = 1.0 / static_cast<double>(c.heads);
  const double scale =
      c.attention_scale > 0.0 ? c.attention_scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
  std::vector<double> weights(sums.size());
  for (size_t j = 0; j < weights.size(); ++j) {
    const float* key = keys + static_cast<int64_t>(j) * key_stride;
    double dot = 0.0;
    for (int64_t d = 0; d < head_dim; ++d) dot += double{query[d]} * double{key[d]};
    weights[j] = dot * scale;
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double total = 0.0;
  for (double& weight : weights) total += weight = math::exp(weight - largest);
  for (size_t j = 0; j < weights.size(); ++j) sums[j] += weights[j] / total * share;
}

}  // namespace

std::vector<int32_t> Alignment::hard() const {
  std::vector<int32_t> best;
  for (int64_t i = 0; i < target; ++i) {
    const auto row = weights.begin() + i * source;
    best.push_back(static_cast<int32_t>(std::max_element(row, row + source) - row));
  }
  return best;
}

Alignment align(const Transformer& model, std::span<const int32_t> source,
                std::span<const int32_t> target, const AlignmentOptions& options,
                Session& session) {
  const StandardRounding rounding;
  const TransformerConfig& c = model.config();
  require(!c.decoder_only(), ErrorCode::unsupported,
          "align: a decoder-only model has no cross-attention");
  require(session->tape == nullptr, ErrorCode::invalid_argument,
          "align: a tape is recording on the session");
  require(options.layer >= -1 && options.layer < c.decoder_layers, ErrorCode::invalid_argument,
          "align: layer ", options.layer, " of a decoder of ", c.decoder_layers);
  const TokenCheck check{"align", c};
  check.special("start", options.start);
  check.source(source);
  check.target(target);

  Alignment result{static_cast<int64_t>(source.size()), static_cast<int64_t>(target.size()), {}};
  if (target.empty()) return result;
  result.weights.assign(source.size() * target.size(), 0.0);
  const int64_t layer =
      options.layer >= 0 ? options.layer : std::max<int64_t>(c.decoder_layers - 2, 0);

  session.reset();
  CrossAttentionObserver seen(session, layer);
  Rows source_rows, target_rows;
  source_rows.add_sequence(source, {.slot = 0});
  const Memory memory = model.encode(source_rows, session);
  const int32_t slot = session->cache.open();
  try {
    target_rows.add(options.start, {.slot = slot, .segment = 0});
    target_rows.add_sequence(target.first(target.size() - 1),
                             {.slot = slot, .segment = 0, .first = 1});
    model.forward(target_rows, memory, session);
  } catch (...) {
    session->cache.release(slot);
    throw;
  }
  session->cache.release(slot);

  const OnHost queries_here(seen.queries), keys_here(seen.keys);
  const float* queries = queries_here.data();
  const float* keys = keys_here.data();
  const int64_t group = c.heads / c.kv_heads;
  for (int64_t i = 0; i < result.target; ++i) {
    const std::span<double> row(result.weights.data() + i * result.source, source.size());
    for (int64_t head = 0; head < c.heads; ++head) {
      add_weights(c, queries + (i * c.heads + head) * c.head_dim, keys + head / group * c.head_dim,
                  row);
    }
  }
  return result;
}

}  // namespace tril
