#include "tril/lesson/lesson_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tril/base/math.h"
#include "tril/kernels/reference/attention.h"
#include "tril/ops/attention.h"
#include "tril/ops/attention_bound.h"
#include "tril/ops/linear.h"
#include "tril/ops/rows.h"

namespace tril {
namespace {

constexpr int64_t kHeadDim = 4;

Tensor to_tensor(Context& context, const Matrix& matrix, const Shape& shape) {
  const Tensor tensor(context.arena, shape);
  std::transform(matrix.values.begin(), matrix.values.end(), tensor.data(),
                 [](double value) { return static_cast<float>(value); });
  return tensor;
}

Matrix to_matrix(const Tensor& tensor, int64_t rows, int64_t columns) {
  return {rows, columns, {tensor.data(), tensor.data() + tensor.size()}};
}

Matrix identity(int64_t rows, int64_t columns) {
  Matrix result{rows, columns, std::vector<double>(static_cast<size_t>(rows * columns), 0.0)};
  for (int64_t i = 0; i < rows; ++i) result.values[static_cast<size_t>(i * columns + i)] = 1.0;
  return result;
}

// The first `columns` columns.
Matrix left_part(const Matrix& from, int64_t columns) {
  Matrix result{from.rows, columns, {}};
  for (int64_t row = 0; row < from.rows; ++row) {
    const auto all = from.row(row);
    result.values.insert(result.values.end(), all.begin(), all.begin() + columns);
  }
  return result;
}

struct Inputs {
  Matrix q, k, v;
  double scale = 1.0;
};

Matrix engine(Context& context, const Inputs& in, const Matrix& values, const Mask& mask,
              const TestHooks& hooks) {
  ops::AttentionOptions options;
  options.scale = static_cast<float>(in.scale);
  options.widen_head = hooks.widen_head;
  options.widen_row = hooks.widen_row;
  const auto heads = [&](const Matrix& m) { return to_tensor(context, m, {m.rows, 1, m.columns}); };
  const Tensor out =
      ops::attention(context, heads(in.q), heads(in.k), heads(values), mask.rows(), options).out;
  return to_matrix(out, in.q.rows, in.q.columns);
}

// The bound for a row (ops/attention_bound.h). The textbook gets numbers in double, which are
// rounded to fp32 for the library: a query, a key and the scale.
ops::AttentionBound bound_of(const Inputs& in, const Interval& sees, int64_t row) {
  double largest = 0.0;
  for (int64_t key = sees.lo; key < sees.hi; ++key) {
    double magnitude = 0.0;
    for (int64_t d = 0; d < in.q.columns; ++d) {
      magnitude += std::fabs(in.q.at(row, d) * in.k.at(key, d));
    }
    largest = std::max(largest, magnitude * in.scale);
  }
  return ops::AttentionBound({.head_dim = in.q.columns,
                              .keys = std::max(0, sees.hi - sees.lo),
                              .largest_score = largest,
                              .input_roundings = 3});
}

// NaN counts as larger than anything.
double larger(double a, double b) { return b <= a || std::isnan(a) ? a : b; }

// Compares the library's outputs with the textbook's, entry by entry.
void compare(Attended& result, const Inputs& in, const Matrix& values, const Matrix& textbook,
             const Matrix& engines) {
  for (int64_t row = 0; row < textbook.rows; ++row) {
    const Interval& sees = result.mask.rows()[static_cast<size_t>(row)];
    const ops::AttentionBound bound = bound_of(in, sees, row);
    for (int64_t d = 0; d < textbook.columns; ++d) {
      double weighted = 0.0;
      double all = 0.0;
      for (int64_t key = sees.lo; key < sees.hi; ++key) {
        weighted += result.weights.at(row, key) * std::fabs(values.at(key, d));
        all += std::fabs(values.at(key, d));
      }
      const double allowed = bound(weighted, all);
      const double difference = std::fabs(engines.at(row, d) - textbook.at(row, d));
      ++result.compared;
      result.largest_difference = larger(result.largest_difference, difference);
      result.largest_share =
          larger(result.largest_share, difference == 0.0 ? 0.0 : difference / allowed);
    }
  }
}

Attended attend(Context& context, const Inputs& in, const Mask& mask, const TestHooks& hooks) {
  const reference::AttentionSizes sizes{
      .query = in.q.rows, .key = in.k.rows, .head_dim = in.q.columns};
  Attended result;
  result.mask = mask;
  result.weights = {in.q.rows, in.k.rows,
                    reference::attention_weights<double>(sizes, in.scale, in.q.values, in.k.values,
                                                         mask.rows(), 0)};
  result.contextual = {in.q.rows, in.v.columns,
                       reference::attention<double>(sizes, in.scale, in.q.values, in.k.values,
                                                    in.v.values, mask.rows())};
  const Matrix units = identity(in.k.rows, in.v.columns);
  const Matrix weights = engine(context, in, units, mask, hooks);
  result.engine_weights = left_part(weights, in.k.rows);
  result.engine_contextual = engine(context, in, in.v, mask, hooks);

  compare(result, in, left_part(units, in.k.rows), result.weights, result.engine_weights);
  compare(result, in, in.v, result.contextual, result.engine_contextual);
  result.forbidden_is_zero = true;
  for (int64_t row = 0; row < in.q.rows; ++row) {
    for (int64_t key = 0; key < in.k.rows; ++key) {
      if (mask.sees(row, key)) continue;
      result.forbidden_is_zero = result.forbidden_is_zero && result.weights.at(row, key) == 0.0 &&
                                 result.engine_weights.at(row, key) == 0.0;
    }
  }
  return result;
}

// Every row of weights sums to 1, allowing for three terms and a division each, in double.
bool rows_sum_to_one(const Matrix& weights) {
  for (int64_t row = 0; row < weights.rows; ++row) {
    double sum = 0.0;
    for (const double weight : weights.row(row)) sum += weight;
    if (!(std::fabs(sum - 1.0) <= 8.0 * 0x1p-53)) return false;
  }
  return true;
}

Mask causal(int64_t rows) {
  const Segment words{0, static_cast<int32_t>(rows)};
  return Mask::causal(std::span(&words, 1));
}

// Steps 1 to 3. W_Q holds the table, W_K is twice the unit matrix, so that Q Kᵀ is twice the table
// and the division by √4 gives the table itself.
void project(Context& context, AttentionLesson& lesson) {
  lesson.words = {"आप", "कैसे", "हैं"};
  lesson.embeddings = identity(3, kHeadDim);
  const Matrix query_rows{3, kHeadDim, {0.8, 0.6, 0.4, 0, 0.3, 0.7, 0.5, 0, 0.2, 0.4, 0.9, 0}};
  const Matrix value_rows{3, kHeadDim, {1, 0, 2, 0, 0, 1, 0, 2, 1, 1, 0, 0}};
  // y = x Wᵀ: an embedding that is unit vector i selects column i of W.
  const auto times = [&](const Matrix& wanted_rows) {
    Matrix weight = identity(kHeadDim, kHeadDim);
    for (int64_t row = 0; row < wanted_rows.rows; ++row) {
      for (int64_t d = 0; d < kHeadDim; ++d) {
        weight.values[static_cast<size_t>(d * kHeadDim + row)] = wanted_rows.at(row, d);
      }
    }
    const ops::LinearWeight linear =
        ops::linear_weight(to_tensor(context, weight, {kHeadDim, kHeadDim}));
    return to_matrix(
        ops::linear(context, to_tensor(context, lesson.embeddings, {3, kHeadDim}), linear), 3,
        kHeadDim);
  };
  Matrix key_rows = identity(3, kHeadDim);
  for (double& value : key_rows.values) value *= 2.0;
  lesson.queries = times(query_rows);
  lesson.keys = times(key_rows);
  lesson.values = times(value_rows);
  lesson.root = std::sqrt(static_cast<double>(kHeadDim));
  lesson.products = lesson.scores = {3, 3, {}};
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      double product = 0.0;
      for (int64_t d = 0; d < kHeadDim; ++d)
        product += lesson.queries.at(i, d) * lesson.keys.at(j, d);
      lesson.products.values.push_back(product);
      lesson.scores.values.push_back(product / lesson.root);
    }
  }
}

// Given weights result when the scores are their logarithms.
void second_example(Context& context, AttentionLesson& lesson, const TestHooks& hooks) {
  lesson.second_given = {2, 3, {0.8, 0.1, 0.1, 0.15, 0.75, 0.1}};
  Inputs in{{2, kHeadDim, {}}, identity(3, kHeadDim), lesson.values, 1.0};
  for (int64_t row = 0; row < 2; ++row) {
    for (const double weight : lesson.second_given.row(row)) {
      in.q.values.push_back(math::log(weight));
    }
    in.q.values.push_back(0.0);
  }
  lesson.second_unmasked = attend(context, in, Mask::cross(2, {0, 3}), {});
  lesson.second_masked = attend(context, in, causal(2), hooks);

  lesson.third_given = {0.1, 0.3, 0.7};
  Inputs third{{1, kHeadDim, {}}, identity(3, kHeadDim), lesson.values, 1.0};
  for (const double weight : lesson.third_given) {
    lesson.third_sum += weight;
    third.q.values.push_back(math::log(weight));
  }
  third.q.values.push_back(0.0);
  const Attended normalised = attend(context, third, Mask::cross(1, {0, 3}), {});
  lesson.third_softmax.assign(normalised.weights.row(0).begin(), normalised.weights.row(0).end());
}

// Two heads in one call, and each alone.
void several_heads(Context& context, AttentionLesson& lesson) {
  constexpr int64_t kHeads = 2;
  // The second head's scores: high for the previous word, zero for the others.
  const Matrix back{3, kHeadDim, {0, 0, 0, 0, 3, 0, 0, 0, 0, 3, 0, 0}};
  const Matrix* queries[kHeads] = {&lesson.queries, &back};
  const auto both = [&](const auto& of_head) {
    Matrix result{3, kHeads * kHeadDim, {}};
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t head = 0; head < kHeads; ++head) {
        const auto part = of_head(head).row(row);
        result.values.insert(result.values.end(), part.begin(), part.end());
      }
    }
    return result;
  };
  const Matrix q = both([&](int64_t head) -> const Matrix& { return *queries[head]; });
  const Matrix k = both([&](int64_t) -> const Matrix& { return lesson.keys; });
  const auto run = [&](const Matrix& values) {
    const Matrix v = both([&](int64_t) -> const Matrix& { return values; });
    const Shape shape{3, kHeads, kHeadDim};
    return ops::attention(context, to_tensor(context, q, shape), to_tensor(context, k, shape),
                          to_tensor(context, v, shape), causal(3).rows(), {})
        .out;
  };
  const Matrix weights = to_matrix(run(identity(3, kHeadDim)), 3, kHeads * kHeadDim);
  const Tensor out = run(lesson.values);
  lesson.heads_side_by_side = to_matrix(out, 3, kHeads * kHeadDim);
  lesson.heads_are_separate = true;
  for (int64_t head = 0; head < kHeads; ++head) {
    Matrix part{3, 3, {}};
    const Inputs alone{*queries[head], lesson.keys, lesson.values, 1.0 / lesson.root};
    const Matrix same = engine(context, alone, lesson.values, causal(3), {});
    for (int64_t row = 0; row < 3; ++row) {
      const auto from = weights.row(row).subspan(static_cast<size_t>(head * kHeadDim), 3);
      part.values.insert(part.values.end(), from.begin(), from.end());
      const auto here = lesson.heads_side_by_side.row(row).subspan(
          static_cast<size_t>(head * kHeadDim), kHeadDim);
      lesson.heads_are_separate =
          lesson.heads_are_separate &&
          std::memcmp(here.data(), same.row(row).data(), here.size_bytes()) == 0;
    }
    lesson.head_weights.push_back(part);
  }

  // W_O takes half of each head; then the residual sum and layer norm.
  Matrix output{kHeadDim, kHeads * kHeadDim, {}};
  for (int64_t d = 0; d < kHeadDim; ++d) {
    for (int64_t column = 0; column < kHeads * kHeadDim; ++column) {
      output.values.push_back(column % kHeadDim == d ? 0.5 : 0.0);
    }
  }
  const ops::LinearWeight linear =
      ops::linear_weight(to_tensor(context, output, {kHeadDim, kHeads * kHeadDim}));
  const Tensor projected = ops::linear(context, out.reshaped({3, kHeads * kHeadDim}), linear);
  lesson.projected = to_matrix(projected, 3, kHeadDim);
  const Tensor x = to_tensor(context, lesson.embeddings, {3, kHeadDim});
  const Tensor ones = ops::filled(context, {kHeadDim}, 1.0f);
  const Tensor zeros = ops::filled(context, {kHeadDim}, 0.0f);
  lesson.after_norm = to_matrix(
      ops::norm(context, ops::NormKind::layer, 1e-5f, ops::add(context, x, projected), ones, zeros)
          .y,
      3, kHeadDim);
}

// The first word sees only itself, so its result is its own value, to the last bit.
bool first_is_its_own_value(const AttentionLesson& lesson) {
  const auto value = lesson.values.row(0);
  const auto same = [&](const Matrix& contextual) {
    return std::equal(value.begin(), value.end(), contextual.row(0).begin());
  };
  return same(lesson.masked.contextual) && same(lesson.masked.engine_contextual);
}

bool weights_are_as_given(const AttentionLesson& lesson) {
  for (size_t i = 0; i < lesson.second_given.values.size(); ++i) {
    const double difference =
        lesson.second_unmasked.weights.values[i] - lesson.second_given.values[i];
    if (!(std::fabs(difference) <= 1e-15)) return false;
  }
  return true;
}

}  // namespace

AttentionLesson teach_attention(const TestHooks& hooks) {
  Context context(1);
  AttentionLesson lesson;
  project(context, lesson);
  const Inputs in{lesson.queries, lesson.keys, lesson.values, 1.0 / lesson.root};
  lesson.masked = attend(context, in, causal(3), hooks);
  lesson.unmasked = attend(context, in, Mask::cross(3, {0, 3}), {});
  Inputs undivided = in;
  undivided.scale = 1.0;
  lesson.undivided = attend(context, undivided, Mask::cross(3, {0, 3}), {}).weights;
  second_example(context, lesson, hooks);
  several_heads(context, lesson);

  lesson.holds = lesson.third_sum > 1.0 + 0x1p-10 && lesson.heads_are_separate &&
                 first_is_its_own_value(lesson) && weights_are_as_given(lesson);
  for (const Attended* each :
       {&lesson.masked, &lesson.unmasked, &lesson.second_masked, &lesson.second_unmasked}) {
    lesson.holds =
        lesson.holds && each->within() && each->forbidden_is_zero && rows_sum_to_one(each->weights);
  }
  return lesson;
}

}  // namespace tril
