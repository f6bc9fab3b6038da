// Attention as the textbook writes it: softmax(QKᵀ/√d + M)V, with the whole matrix of weights.
//
// A template in any precision, for tests, finite differences in double and explanation. It defines
// what kernels/attention.h computes without ever holding the matrix.
// q, out [query, heads, head_dim]; k, v [key, kv_heads, head_dim]; row i sees the keys of its
// interval; a row that sees none has output and gradients zero.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tril/base/interval.h"

namespace tril::reference {

struct AttentionSizes {
  int64_t query = 0;
  int64_t key = 0;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 1;
};

// Optional bias by (head, distance): bias[head][zero + key - position], both from the origin.
template <class T>
struct AttentionBias {
  std::span<const T> table;
  int64_t offsets = 0;
  int64_t zero = 0;
  std::span<const int32_t> positions;
};

// The matrix of weights of one head, [query, key]: softmax over the keys each row may see, exactly
// zero elsewhere.
template <class T>
std::vector<T> attention_weights(const AttentionSizes& n, T scale, std::span<const T> q,
                                 std::span<const T> k, std::span<const Interval> rows, int64_t head,
                                 const AttentionBias<T>& bias = {}) {
  const int64_t kv_head = head / (n.heads / n.kv_heads);
  std::vector<T> weights(static_cast<size_t>(n.query * n.key), T(0));
  for (int64_t i = 0; i < n.query; ++i) {
    const Interval& sees = rows[static_cast<size_t>(i)];
    if (sees.empty()) continue;
    T* w = weights.data() + i * n.key;
    T largest = -INFINITY;
    for (int64_t j = sees.lo; j < sees.hi; ++j) {
      T dot = 0;
      for (int64_t d = 0; d < n.head_dim; ++d) {
        dot += q[static_cast<size_t>((i * n.heads + head) * n.head_dim + d)] *
               k[static_cast<size_t>((j * n.kv_heads + kv_head) * n.head_dim + d)];
      }
      w[j] = dot * scale;
      if (!bias.table.empty()) {
        const int64_t offset =
            bias.zero + (j - sees.origin) - bias.positions[static_cast<size_t>(i)];
        w[j] += bias.table[static_cast<size_t>(head * bias.offsets + offset)];
      }
      largest = std::max(largest, w[j]);
    }
    T sum = 0;
    for (int64_t j = sees.lo; j < sees.hi; ++j) sum += w[j] = std::exp(w[j] - largest);
    for (int64_t j = sees.lo; j < sees.hi; ++j) w[j] /= sum;
  }
  return weights;
}

template <class T>
std::vector<T> attention(const AttentionSizes& n, T scale, std::span<const T> q,
                         std::span<const T> k, std::span<const T> v, std::span<const Interval> rows,
                         const AttentionBias<T>& bias = {}) {
  std::vector<T> out(q.size(), T(0));
  for (int64_t head = 0; head < n.heads; ++head) {
    const int64_t kv_head = head / (n.heads / n.kv_heads);
    const std::vector<T> w = attention_weights(n, scale, q, k, rows, head, bias);
    for (int64_t i = 0; i < n.query; ++i) {
      const Interval& sees = rows[static_cast<size_t>(i)];
      for (int64_t j = sees.lo; j < sees.hi; ++j) {
        for (int64_t d = 0; d < n.head_dim; ++d) {
          out[static_cast<size_t>((i * n.heads + head) * n.head_dim + d)] +=
              w[static_cast<size_t>(i * n.key + j)] *
              v[static_cast<size_t>((j * n.kv_heads + kv_head) * n.head_dim + d)];
        }
      }
    }
  }
  return out;
}

template <class T>
struct AttentionGradients {
  std::vector<T> dq, dk, dv;
  std::vector<T> dbias;  // as the bias' table
};

// With P the weights and dP = dO Vᵀ:  dS = P (dP - rowsum(P dP)),  dQ = scale dS K,
// dK = scale dSᵀ Q,  dV = Pᵀ dO; a bias' gradient is the sum of dS over the rows and keys that have
// its distance.
template <class T>
AttentionGradients<T> attention_gradients(const AttentionSizes& n, T scale, std::span<const T> q,
                                          std::span<const T> k, std::span<const T> v,
                                          std::span<const T> dout, std::span<const Interval> rows,
                                          const AttentionBias<T>& bias = {}) {
  AttentionGradients<T> g{std::vector<T>(q.size(), T(0)), std::vector<T>(k.size(), T(0)),
                          std::vector<T>(v.size(), T(0)), std::vector<T>(bias.table.size(), T(0))};
  for (int64_t head = 0; head < n.heads; ++head) {
    const int64_t kv_head = head / (n.heads / n.kv_heads);
    const std::vector<T> w = attention_weights(n, scale, q, k, rows, head, bias);
    for (int64_t i = 0; i < n.query; ++i) {
      const Interval& sees = rows[static_cast<size_t>(i)];
      const auto at_q = [&](int64_t d) {
        return static_cast<size_t>((i * n.heads + head) * n.head_dim + d);
      };
      const auto at_k = [&](int64_t j, int64_t d) {
        return static_cast<size_t>((j * n.kv_heads + kv_head) * n.head_dim + d);
      };
      const auto weight = [&](int64_t j) { return w[static_cast<size_t>(i * n.key + j)]; };
      std::vector<T> dp(static_cast<size_t>(n.key), T(0));
      T mean = 0;
      for (int64_t j = sees.lo; j < sees.hi; ++j) {
        T& at = dp[static_cast<size_t>(j)];
        for (int64_t d = 0; d < n.head_dim; ++d) at += dout[at_q(d)] * v[at_k(j, d)];
        mean += weight(j) * at;
      }
      for (int64_t j = sees.lo; j < sees.hi; ++j) {
        const T e = weight(j) * (dp[static_cast<size_t>(j)] - mean);
        const T ds = e * scale;
        if (!bias.table.empty()) {
          const int64_t distance = j - sees.origin - bias.positions[static_cast<size_t>(i)];
          g.dbias[static_cast<size_t>(head * bias.offsets + bias.zero + distance)] += e;
        }
        for (int64_t d = 0; d < n.head_dim; ++d) {
          g.dq[at_q(d)] += ds * k[at_k(j, d)];
          g.dk[at_k(j, d)] += ds * q[at_q(d)];
          g.dv[at_k(j, d)] += weight(j) * dout[at_q(d)];
        }
      }
    }
  }
  return g;
}

}  // namespace tril::reference
