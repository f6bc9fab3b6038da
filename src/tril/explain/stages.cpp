// What happens to a row besides attention: embedding, residuals, norms, feed-forward.
#include <algorithm>
#include <cmath>

#include "tril/explain/passes.h"

namespace tril {
namespace {

// [rows, columns] -> the first `kept` of each row.
std::vector<float> first_of(const std::vector<float>& values, int64_t rows, int64_t kept) {
  std::vector<float> result;
  if (values.empty()) return result;
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = values.begin() + row * columns;
    result.insert(result.end(), begin, begin + std::min(kept, columns));
  }
  return result;
}

std::span<const float> row_of(const std::vector<float>& values, int64_t row, int64_t rows) {
  const size_t columns = values.size() / static_cast<size_t>(rows);
  return std::span(values).subspan(static_cast<size_t>(row) * columns, columns);
}

double length_of(std::span<const float> values) {
  double sum = 0.0;
  for (const float x : values) sum += double{x} * double{x};
  return std::sqrt(sum);
}

float parameter_of(const Transformer& model, const std::string& name, float otherwise) {
  for (const auto& parameter : model.parameters()) {
    if (parameter.name == name) return OnHost(parameter.tensor).data()[0];
  }
  return otherwise;
}

SubLayerRecord::Kind kind_of(size_t place, bool decoder_only) {
  using enum SubLayerRecord::Kind;
  const size_t count = decoder_only ? 2 : 3;
  if (place % count == 0) return masked;
  return place % count == count - 1 ? feed_forward : cross;
}

// Mean and rms of the norm's input: x, or the sum x + plus.
void add_moments(std::span<const float> x, std::span<const float> plus, SubLayerRecord& record) {
  double sum = 0.0;
  double squares = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = double{x[i]} + (plus.empty() ? 0.0 : double{plus[i]});
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(x.size());
  record.mean.push_back(sum / count);
  record.rms.push_back(std::sqrt(squares / count));
}

}  // namespace

StageRecord stages_of(const Transformer& model, const PassRecord& pass, int64_t kept) {
  const TransformerConfig& c = model.config();
  const auto rows = static_cast<int64_t>(pass.hidden.size()) / c.model;
  const bool norm_first = c.norm_position == NormPosition::pre;
  const char* const names[] = {"attention_norm", "cross_attention_norm", "feed_forward_norm"};
  StageRecord stages;
  stages.kept = std::min(kept, c.model);
  stages.token = first_of(pass.token, rows, stages.kept);
  const float scale = c.embedding_scale ? std::sqrt(static_cast<float>(c.model)) : 1.0f;
  for (float& x : stages.token) x *= scale;
  stages.position = first_of(pass.position, rows, stages.kept);
  stages.embedded = first_of(pass.embedded, rows, stages.kept);
  stages.last = first_of(pass.hidden, rows, stages.kept);
  const std::vector<float>* input = &pass.embedded;
  for (size_t place = 0; place < pass.sub_layers.size(); ++place) {
    const PassRecord::SubLayer& from = pass.sub_layers[place];
    const std::vector<float>& left = norm_first ? from.sum : from.normed;
    SubLayerRecord& record = stages.sub_layers.emplace_back();
    record.layer = from.layer;
    record.kind = kind_of(place, c.decoder_only());
    record.normed = first_of(from.normed, rows, stages.kept);
    record.added = first_of(from.added, rows, stages.kept);
    record.left = first_of(left, rows, stages.kept);
    record.hidden = first_of(from.feed_forward_hidden, rows, stages.kept);
    for (int64_t row = 0; row < rows; ++row) {
      const auto added = row_of(from.added, row, rows);
      add_moments(row_of(*input, row, rows), norm_first ? std::span<const float>() : added, record);
      record.added_length.push_back(length_of(added));
      record.left_length.push_back(length_of(row_of(left, row, rows)));
      if (record.hidden.empty()) continue;
      const auto hidden = row_of(from.feed_forward_hidden, row, rows);
      record.active.push_back(
          std::count_if(hidden.begin(), hidden.end(), [](float x) { return x > 0.0f; }));
    }
    const std::string norm =
        concat("decoder.", from.layer, ".", names[static_cast<size_t>(record.kind)]);
    record.gain = parameter_of(model, norm + ".weight", 1.0f);
    record.shift = parameter_of(model, norm + ".bias", 0.0f);
    input = &left;
  }
  return stages;
}

}  // namespace tril
