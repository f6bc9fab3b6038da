// The formula as one plain function, beside the operation that tril's models use: the same numbers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "tril/base/rng.h"
#include "tril/ops/attention.h"
#include "tril/ops/attention_bound.h"
#include "tril/tensor/mask.h"

namespace {

using Matrix = std::vector<std::vector<double>>;

// softmax(QKᵀ/√d + M) V. Row i may see key j where mask[i][j] is not 0; elsewhere M is `hidden`.
Matrix masked_attention(const Matrix& Q, const Matrix& K, const Matrix& V, const Matrix& mask,
                        double hidden = -INFINITY) {
  Matrix out(Q.size(), std::vector<double>(V[0].size(), 0.0));
  for (size_t i = 0; i < Q.size(); ++i) {
    std::vector<double> weights(K.size(), 0.0);
    for (size_t j = 0; j < K.size(); ++j) {
      for (size_t d = 0; d < Q[i].size(); ++d) weights[j] += Q[i][d] * K[j][d];
      weights[j] /= std::sqrt(double(Q[i].size()));
      if (mask[i][j] == 0) weights[j] = hidden;  // masked_fill(mask == 0, hidden)
    }
    const double largest = *std::max_element(weights.begin(), weights.end());
    double sum = 0.0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    for (size_t j = 0; j < K.size(); ++j) {
      for (size_t d = 0; d < V[j].size(); ++d) out[i][d] += weights[j] / sum * V[j][d];
    }
  }
  return out;
}

// The same by tril: in fp32, the mask as one interval per row, no matrix of weights anywhere.
Matrix engine(const Matrix& Q, const Matrix& K, const Matrix& V, const tril::Mask& mask) {
  tril::Context context(1);
  const auto tensor = [&](const Matrix& from) {
    const auto rows = int64_t(from.size()), columns = int64_t(from[0].size());
    const tril::Tensor to(context.arena, {rows, /*heads=*/1, columns});
    float* next = to.data();
    for (const auto& row : from) {
      for (const double value : row) *next++ = float(value);
    }
    return to;
  };
  const tril::Tensor result =
      tril::ops::attention(context, tensor(Q), tensor(K), tensor(V), mask.rows(), {}).out;
  Matrix out;
  for (size_t i = 0; i < Q.size(); ++i) {
    const float* row = result.data() + i * V[0].size();
    out.emplace_back(row, row + V[0].size());
  }
  return out;
}

// The mask in both its forms.
tril::Mask intervals_of(const Matrix& mask) {
  std::vector<uint8_t> allowed;
  for (const auto& row : mask) allowed.insert(allowed.end(), row.begin(), row.end());
  return tril::Mask::parse(allowed, int64_t(mask.size()), int64_t(mask[0].size()));
}

// Compares two outputs, each number within what fp32 may round (ops/attention_bound.h). The inputs
// are in double, so a query, a key and the scale are rounded too.
bool agree(const Matrix& Q, const Matrix& K, const Matrix& V, const Matrix& mask) {
  const Matrix plain = masked_attention(Q, K, V, mask);
  const Matrix fast = engine(Q, K, V, intervals_of(mask));
  Matrix absolute = V;
  for (auto& row : absolute) {
    for (double& value : row) value = std::fabs(value);
  }
  const Matrix weighted = masked_attention(Q, K, absolute, mask);
  double largest = 0.0, share = 0.0;
  for (size_t i = 0; i < Q.size(); ++i) {
    int64_t keys = 0;
    double score = 0.0;
    std::vector<double> values(V[0].size(), 0.0);
    for (size_t j = 0; j < K.size(); ++j) {
      if (mask[i][j] == 0) continue;
      ++keys;
      double sum = 0.0;
      for (size_t d = 0; d < Q[i].size(); ++d) sum += std::fabs(Q[i][d] * K[j][d]);
      score = std::max(score, sum / std::sqrt(double(Q[i].size())));
      for (size_t d = 0; d < values.size(); ++d) values[d] += absolute[j][d];
    }
    const tril::ops::AttentionBound bound({.head_dim = int64_t(Q[i].size()),
                                           .keys = keys,
                                           .largest_score = score,
                                           .input_roundings = 3});
    for (size_t d = 0; d < values.size(); ++d) {
      const double difference = std::fabs(fast[i][d] - plain[i][d]);
      largest = std::max(largest, difference);
      // Infinite where the difference is NaN: no bound allows that.
      const double part = difference / bound(weighted[i][d], values[d]);
      share = std::max(share, std::isnan(difference) ? INFINITY : difference == 0.0 ? 0.0 : part);
    }
  }
  std::printf("  largest difference %.1e, at most %.1f%% of the bound\n", largest, 100.0 * share);
  return share <= 1.0;
}

void print(const char* what, const std::vector<double>& row) {
  for (const double value : row) {
    if (std::isnan(value)) {
      std::printf("     NaN");  // printf may write -nan
    } else {
      std::printf("  %6.3f", value);
    }
  }
  std::printf("   %s\n", what);
}

Matrix causal(size_t rows) {
  Matrix mask(rows, std::vector<double>(rows, 0.0));
  for (size_t i = 0; i < rows; ++i) std::fill_n(mask[i].begin(), i + 1, 1.0);
  return mask;
}

Matrix random_matrix(size_t rows, size_t columns, tril::Random& random) {
  Matrix result(rows, std::vector<double>(columns));
  for (auto& row : result) {
    for (double& value : row) value = double(random.normal());
  }
  return result;
}

}  // namespace

int main() {
  // The scores of आप कैसे हैं: QKᵀ/√4 is 0.8 0.6 0.4, 0.3 0.7 0.5, 0.2 0.4 0.9.
  const Matrix Q = {{0.8, 0.6, 0.4, 0}, {0.3, 0.7, 0.5, 0}, {0.2, 0.4, 0.9, 0}};
  const Matrix K = {{2, 0, 0, 0}, {0, 2, 0, 0}, {0, 0, 2, 0}};
  const Matrix V = {{1, 0, 2, 0}, {0, 1, 0, 2}, {1, 1, 0, 0}};
  Matrix mask = causal(3);
  std::printf("The lecture's scores under the causal mask:\n");
  const Matrix plain = masked_attention(Q, K, V, mask), fast = engine(Q, K, V, intervals_of(mask));
  for (size_t i = 0; i < 3; ++i) {
    print("plain function", plain[i]);
    print("tril", fast[i]);
  }
  bool good = agree(Q, K, V, mask);

  tril::Random random(1);
  std::printf("100 random rows of width 32:\n");
  const Matrix q = random_matrix(100, 32, random), k = random_matrix(100, 32, random);
  const Matrix v = random_matrix(100, 32, random);
  good = agree(q, k, v, causal(100)) && good;

  // With -1e9 instead of -∞ nothing changes as long as a row sees something: e^-1e9 is 0 as well.
  const bool same = masked_attention(Q, K, V, mask, -1e9) == plain;
  std::printf("-1e9 instead of -∞: %s\n", same ? "the same numbers" : "OTHER NUMBERS");
  // It does where a row may see nothing at all, for example in a sentence that is only padding.
  mask[1] = {0, 0, 0};
  std::printf("Row 2 may see nothing:\n");
  const std::vector<double> averaged = masked_attention(Q, K, V, mask, -1e9)[1];
  const std::vector<double> zero = engine(Q, K, V, intervals_of(mask))[1];
  print("-1e9", averaged);
  print("-∞", masked_attention(Q, K, V, mask)[1]);
  print("tril", zero);
  std::printf("-1e9 averages the values that are forbidden, -∞ divides 0 by 0, tril gives 0.\n");
  good = good && same;
  for (size_t d = 0; d < 4; ++d) {
    const double mean = (V[0][d] + V[1][d] + V[2][d]) / 3;
    good = std::fabs(averaged[d] - mean) < 1e-15 && zero[d] == 0.0 && good;
  }
  return good ? 0 : 1;
}
