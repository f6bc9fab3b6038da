// Softmax, log-probabilities and the cross entropy with label smoothing, for tests and explanation.
//
//   norm = log of the sum of e^x[j];  log p[j] = x[j] - norm
//   q[j] = (1 - s) [j = y] + s / vocab      the smoothed label
//   loss = - the sum of q[j] log p[j];  dx[j] = (p[j] - q[j]) g
//
// The q sum to one, so this is the form of kernels/cross_entropy.h:
// loss = norm - (1 - s) x[y] - s mean(x). A row with label -1 has loss and gradient zero.
// Logits [rows, vocab], labels and losses [rows]. A template in any precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace tril::reference {

// Of one row. The largest is subtracted so that no exponential overflows.
template <class T>
T softmax_normaliser(std::span<const T> x) {
  const T largest = *std::max_element(x.begin(), x.end());
  T sum = 0;
  for (const T value : x) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

template <class T>
std::vector<T> log_probs(int64_t rows, int64_t vocab, std::span<const T> logits) {
  std::vector<T> out;
  for (int64_t row = 0; row < rows; ++row) {
    const std::span<const T> x = logits.subspan(row * vocab, vocab);
    const T norm = softmax_normaliser(x);
    for (const T value : x) out.push_back(value - norm);
  }
  return out;
}

template <class T>
struct CrossEntropyCase {
  int64_t rows = 0;
  int64_t vocab = 0;
  T smoothing = 0;
  std::span<const int32_t> labels;

  T smoothed_label(int64_t row, int64_t j) const {
    return smoothing / static_cast<T>(vocab) + (j == labels[row] ? 1 - smoothing : T(0));
  }
};

template <class T>
std::vector<T> cross_entropy(const CrossEntropyCase<T>& c, std::span<const T> logits) {
  const std::vector<T> log_p = log_probs(c.rows, c.vocab, logits);
  std::vector<T> losses(c.rows);
  for (int64_t row = 0; row < c.rows; ++row) {
    if (c.labels[row] < 0) continue;
    for (int64_t j = 0; j < c.vocab; ++j) {
      losses[row] -= c.smoothed_label(row, j) * log_p[row * c.vocab + j];
    }
  }
  return losses;
}

// `factor` is the gradient of the minimised quantity with respect to each row's loss.
template <class T>
std::vector<T> cross_entropy_gradient(const CrossEntropyCase<T>& c, std::span<const T> logits,
                                      T factor) {
  const std::vector<T> log_p = log_probs(c.rows, c.vocab, logits);
  std::vector<T> dlogits(c.rows * c.vocab);
  for (int64_t row = 0; row < c.rows; ++row) {
    if (c.labels[row] < 0) continue;
    for (int64_t j = 0; j < c.vocab; ++j) {
      const T p = std::exp(log_p[row * c.vocab + j]);
      dlogits[row * c.vocab + j] = (p - c.smoothed_label(row, j)) * factor;
    }
  }
  return dlogits;
}

}  // namespace tril::reference
