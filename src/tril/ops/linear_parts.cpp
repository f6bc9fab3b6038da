#include "tril/ops/linear_parts.h"

#include "tril/base/error.h"

namespace tril::ops {

LinearWeight part_of(Context& context, const LinearWeight& linear, std::span<const int32_t> rows,
                     Arena& arena) {
  for (const int32_t row : rows) {
    require(row >= 0 && row < linear.out, ErrorCode::invalid_argument,
            "part of a linear layer: output ", row, " of ", linear.out);
  }
  return form_of(context, linear).part_of(context, linear, rows, arena);
}

void linear_by_rows(Context& context, const Tensor& x, std::span<const RowsByWeight> parts,
                    std::span<Tensor> y) {
  require(x.defined() && x.shape().rank() == 2, ErrorCode::shape_mismatch,
          "linear by rows: the input must be a matrix, got ", x.shape());
  require(y.size() == parts.size(), ErrorCode::internal, "linear by rows: ", parts.size(),
          " parts for ", y.size(), " results");
  if (parts.empty()) return;
  const WeightForm& form = form_of(context, *parts[0].weight);
  for (const auto& [begin, end, weight] : parts) {
    require(begin >= 0 && begin <= end && end <= x.rows(), ErrorCode::shape_mismatch,
            "linear by rows: rows ", begin, " to ", end, " of ", x.rows());
    require(weight->in == x.columns(), ErrorCode::shape_mismatch, "linear by rows: the input has ",
            x.columns(), " columns, the weight expects ", weight->in);
    require(&form_of(context, *weight) == &form, ErrorCode::invalid_argument,
            "linear by rows: weights of different forms");
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [begin, end, weight] = parts[i];
    y[i] = Tensor(context.arena, {end - begin, weight->out}, context.sums());
  }
  form.multiply_rows(context, x, parts, y);
}

}  // namespace tril::ops
