// Masked attention by intervals, forward and backward.
//
//   s[i][j] = scale (q[i] · k[j]) + bias(head, j - i)      for the keys j row i may see
//   p[i]    = softmax of s[i];  out[i] = sum over j of p[i][j] v[j]
//
// Layouts are token-major, as the projections write them: q, out [query, heads, head_dim];
// k, v [key, kv_heads, head_dim]; query head h uses key/value head h / (heads / kv_heads).
// The [query, key] matrix never exists: keys are taken in blocks with a running softmax, so memory
// grows with the length and not its square.
//
// Order, the same for a whole training batch and for one cached step:
//  - q·k is one chain of fused multiply-adds over head_dim ascending, then times scale, plus bias.
//  - Blocks of kKeyBlock keys are counted from the row's origin. Within a block the sum of
//    exponentials runs over 16 virtual lanes; p·v continues one chain over keys ascending.
//  - A span is kKeySpan keys, counted from the origin. Each has a softmax of its own; then spans
//  are
//    merged ascending: with new = max(m, m'), sum = fma(sum', e^(m'-new), sum e^(m-new)), out
//    likewise.
//  - Backward: dq[i] is one chain over keys ascending; dk[j] and dv[j] are one chain over the query
//    heads that share the key's head and, for each of these, over the rows. The gradient of a bias,
//    for each head and distance, is the sum of e = p (dp - dout · out): of a group one chain of
//    additions over blocks of keys and, in each, over the rows; then one over the groups.
// A key outside a row's interval is never multiplied into that row, so it may hold NaN.
// The dk and dv of a key that no row sees are zero.
// Kernels neither allocate, throw nor log; ops/attention.h plans the runs and checks everything.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tril/base/interval.h"
#include "tril/base/parallel.h"

namespace tril::kernels {

constexpr int64_t kKeyTile = 16;    // keys stored together: key tiles are [head_dim, 16]
constexpr int64_t kKeyBlock = 64;   // keys of one step of the running softmax
constexpr int64_t kKeySpan = 2048;  // keys of one independent softmax
constexpr int64_t kRunRows = 192;   // the most rows of a forward run: whole tiles of six

// Consecutive query rows of one sequence, none with an empty interval.
struct AttentionRun {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t origin = 0;                   // of all its rows
  int64_t keys = 0;                     // keys of the sequence, counted from the origin
  const float* const* pages = nullptr;  // of a cache, one for every 16 keys of the sequence
};

// Where the keys and values of the runs lie: contiguous arrays, or the pages of a cache.
struct KeyValueStore {
  const float* keys = nullptr;    // [key, kv_heads, head_dim]
  const float* values = nullptr;  // [key, kv_heads, head_dim]
  int64_t page_keys = 0;          // offset in a page of [kv_heads, head_dim, 16]
  int64_t page_values = 0;        // offset in a page of [kv_heads, 16, head_dim]
};

struct AttentionShape {
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 1;
  float scale = 1.0f;
  // Optional bias [heads, bias_offsets]: entry bias_zero + (key - position) of the head's row,
  // for every key the row may see. `positions` [query] counts from each row's origin.
  const float* bias = nullptr;
  int64_t bias_offsets = 0;
  int64_t bias_zero = 0;
  const int32_t* positions = nullptr;
  // Test hooks. In head widen_head (-1: in none, -2: in every head) the interval of row widen_row
  // (-1: of every row) gets one more key. With descending_blocks the forward pass takes the blocks
  // of a span in descending order.
  int widen_head = -1;
  int64_t widen_row = -1;
  bool descending_blocks = false;
};

// Writes one key and value, [kv_heads, head_dim] each, into lane `lane` of a cache page.
template <class Element>
void store_key_value(const Element* k, const Element* v, int64_t kv_heads, int64_t head_dim,
                     int64_t lane, Element* page_keys, Element* page_values) {
  for (int64_t head = 0; head < kv_heads; ++head) {
    const int64_t first = head * head_dim;
    for (int64_t d = 0; d < head_dim; ++d) page_keys[(first + d) * kKeyTile + lane] = k[first + d];
    std::copy_n(v + first, head_dim, page_values + (head * kKeyTile + lane) * head_dim);
  }
}

struct AttentionForward {
  AttentionShape shape;
  const AttentionRun* runs = nullptr;  // of at most kRunRows rows each
  int64_t run_count = 0;
  const Interval* intervals = nullptr;  // [query]
  KeyValueStore store;
  const float* q = nullptr;
  float* out = nullptr;    // rows in no run are not written
  float* stats = nullptr;  // [query, heads, 2]: largest score and 1 / sum; may be null
  float* workspace = nullptr;
};
int64_t attention_forward_workspace(const Parallel& parallel, int64_t head_dim);  // in floats
void attention_forward(const Parallel& parallel, const AttentionForward& args);

struct AttentionBackward {
  AttentionShape shape;
  // Runs in the order of their origins; group g holds runs [groups[g], groups[g+1]), all with the
  // same origin. Intervals must not decrease over the rows of a group; groups share no key.
  const AttentionRun* runs = nullptr;
  const int64_t* groups = nullptr;
  int64_t group_count = 0;
  const Interval* intervals = nullptr;
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  const float *out = nullptr, *stats = nullptr, *dout = nullptr;
  // Written: the rows of the runs in dq, and all keys of the groups in dk and dv.
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  // Optional, with a bias: its gradient [heads, bias_offsets], all of which is written, and room
  // for [group, heads, bias_width] in bias_parts. bias_first and bias_width are what
  // bias_range_for() says of the distances that occur.
  float* dbias = nullptr;
  float* bias_parts = nullptr;
  int64_t bias_first = 0;
  int64_t bias_width = 0;
  float* delta = nullptr;  // [query, heads]: room for dout · out
  float* workspace = nullptr;
};
int64_t attention_backward_workspace(const Parallel& parallel, int64_t head_dim);  // in floats
// Of a sum over the bias' entries [first, end): where a part begins, and how wide it is. A part has
// room for whole vectors on either side.
struct BiasRange {
  int64_t first = 0;
  int64_t width = 0;
};
constexpr BiasRange bias_range_for(int64_t first, int64_t end) {
  return {first - kKeyTile, end - first + 2 * kKeyTile};
}
void attention_backward(const Parallel& parallel, const AttentionBackward& args);

}  // namespace tril::kernels
