// Shared by the tests of attention: packed batches with everything attention needs, their error
// bounds, and their rows alone in a cache.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "support/property.h"
#include "support/testing.h"
#include "tril/kernels/reference/attention.h"
#include "tril/ops/attention.h"
#include "tril/tensor/mask.h"

namespace tril::testing {

enum class Kind { full, causal, window, prefix, cross };
constexpr Kind kAllKinds[] = {Kind::full, Kind::causal, Kind::window, Kind::prefix, Kind::cross};

// A packed batch with everything attention needs.
struct Case {
  reference::AttentionSizes n;
  std::vector<Segment> segments;
  std::vector<Interval> rows;
  std::vector<int32_t> positions;
  std::vector<float> q, k, v, dout;
  std::vector<float> bias;  // may be empty
  int64_t bias_zero = 0;

  std::optional<float> own_scale{};  // absent: the usual one

  float scale() const {
    return own_scale.value_or(1.0f / std::sqrt(static_cast<float>(n.head_dim)));
  }
  Shape q_shape() const { return {n.query, n.heads, n.head_dim}; }
  Shape k_shape() const { return {n.key, n.kv_heads, n.head_dim}; }

  reference::AttentionBias<double> bias_in_double(std::vector<double>& storage) const {
    storage = doubles_of(bias);
    if (bias.empty()) return {};
    return {storage, static_cast<int64_t>(bias.size()) / n.heads, bias_zero, positions};
  }
};

struct Outcome {
  std::vector<float> out, dq, dk, dv;
  std::vector<float> dbias{};  // empty without a bias, and where it has no gradient
  bool operator==(const Outcome& other) const {
    return equal_bits(out, other.out) && equal_bits(dq, other.dq) && equal_bits(dk, other.dk) &&
           equal_bits(dv, other.dv) && equal_bits(dbias, other.dbias);
  }
};
// Says which of them differs, and where.
::testing::AssertionResult same_bits(const Outcome& a, const Outcome& b);

ops::AttentionOptions options_of(const Case& c, Arena& arena);
Outcome run(const Case& c, int threads, int widen_head = -1, int64_t widen_row = -1);

// `extent`: the width of a window, the length of a prefix, or how many rows see a whole sequence.
Case make_case(std::vector<Segment> segments, Kind kind, int64_t heads, int64_t kv_heads,
               int64_t head_dim, int32_t extent, bool with_bias, uint64_t seed);
// Random lengths that are not multiples of anything, with gaps between the sequences.
Case random_case(Kind kind, int32_t longest);
Kind random_kind();
// Heads of 64 and 128 without a bias: on CUDA, sequences of more than 128 keys go another way than
// those beside them. Tiles of rows begin and end anywhere.
Case long_case(Kind kind, int64_t head_dim);

// Outputs and gradients are those of the textbook, to the last bit that rounding allows.
void expect_right(const Case& c);

// Every `stride`-th row of `out` has the bits of that row alone with a cache that holds only the
// keys it may see, as in decoding.
void expect_rows_match_alone(const Case& c, const std::vector<float>& out, int64_t stride);
// Rows [begin, end) of a sequence in this way: [row, heads, head_dim]. Attention is told that they
// belong to one sequence, or, on a device, that each is a sequence of its own.
enum class Told { together, apart };
std::vector<float> cached_rows(const Case& c, const Segment& segment, int64_t begin, int64_t end,
                               Told told = Told::together);

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Changes key and value `key` to `value` and says whether every row that may not see it kept the
// bits of its output and of its query's gradient.
bool forbidden_rows_keep_their_bits(const Case& c, const Outcome& before, int64_t key, float value,
                                    int widen_head = -1);
// The other way round: changes query and output gradient of `row`, and says whether every key that
// it may not see kept the bits of its gradients.
bool forbidden_keys_keep_their_bits(const Case& c, const Outcome& before, int64_t row, float value);

}  // namespace tril::testing
