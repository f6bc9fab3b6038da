// Masked attention by intervals on CUDA: the contract of kernels/attention.h, with the order that
// tensor cores give it.
//
// Layouts: q, out, dq [query, heads, head_dim] and k, v, dk, dv [key, kv_heads, head_dim], rows
// `stride` elements apart (so that one projection may write queries, keys and values side by
// side). Everything that is pointed to lies on the device, the tiles too.
//
// Order, the same for every caller, tile and kernel (bf16; M is mma.sync.m16n8k16, wgmma gives the
// same bits):
//  - s = M-chain over head_dim ascending, zeros to a multiple of 16; then times scale; then plus
//    bias. A key outside the interval is masked by select: its score is -inf whatever it holds.
//  - Blocks of kKeyBlock keys are counted from the row's origin, ascending. In a block:
//    new = max(m, largest of the block); p = 2^(s log2e - new log2e) with one fma and ex2, rounded
//    to bf16 for p·v and for the sum alike; sum = sum 2^(m - new) + the block's sum, in a fixed
//    order of columns; acc = acc 2^(m - new), then the M-chain over keys continues it.
//  - out = bf16(acc (1 / sum) + 0), so that no zero has a sign that depends on the tile.
//  - A block in which a row sees nothing leaves that row as it was. An empty row is exactly zero.
//  - Spans of kKeySpan keys as on the CPU, merged ascending.
// f32: the same with fused multiply-adds and no rounding of p.
// stats [query, heads, 2]: the row's largest score times log2e, and 1 / sum; 0, 0 for an empty row.
//
// Forbidden NaN: values that no row of the tile may see are zero when loaded. Where a key or value
// that only some rows see is not finite, 0 · NaN would reach the others: a tile whose result is not
// finite is run again row by row with everything outside the row's own interval zero, which has the
// same bits. The backward pass likewise.
// Kernels neither allocate nor throw.
#pragma once

#include <cstdint>

#include "tril/base/dtype.h"
#include "tril/base/interval.h"
#include "tril/base/stream.h"

namespace tril::kernels::cuda {

constexpr int64_t kKeyBlock = 64;
constexpr int64_t kKeySpan = 2048;
constexpr int64_t kShortKeys = 128;  // sequences up to here are one block's work

// Consecutive query rows with one origin, none of them empty; [key_begin, key_end) covers their
// intervals. At most kTileRows rows in the forward pass; a whole sequence in the backward pass.
constexpr int64_t kTileRows = 64;
struct AttentionTile {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t origin = 0;
  int32_t key_begin = 0;
  int32_t key_end = 0;
};
// A list of tiles with room for more: the number of tiles is read on the device, so that one graph
// serves every batch.
struct AttentionTiles {
  const AttentionTile* tiles = nullptr;  // longest first
  const int32_t* count = nullptr;        // [1]
  int64_t capacity = 0;
};

struct AttentionShape {
  DType type = DType::bf16;
  int64_t query = 0;
  int64_t key = 0;
  int64_t heads = 1, kv_heads = 1, head_dim = 1;  // head_dim <= 256
  float scale = 1.0f;
  const float* bias = nullptr;  // as kernels/attention.h
  int64_t bias_offsets = 0;
  int64_t bias_zero = 0;
  const int32_t* positions = nullptr;
  int widen_head = -1;  // test hooks, as kernels/attention.h
  int64_t widen_row = -1;
  bool descending_blocks = false;
  bool portable = false;  // only what compute capability 8.0 has
};

struct AttentionForward {
  AttentionShape shape;
  AttentionTiles tiles;
  const Interval* intervals = nullptr;  // [query]
  const void* q = nullptr;
  int64_t q_stride = 0;
  const void* k = nullptr;  // [key, kv_heads, head_dim]; with a table [entry, ...]
  const void* v = nullptr;
  int64_t kv_stride = 0;
  // A cache: key j of the sequence of row r is entry table[r * table_stride + j], and intervals
  // count from 0. Every tile then is one row or rows that share a table row's entries: the table
  // row of a tile is that of its first row.
  const int32_t* table = nullptr;
  int64_t table_stride = 0;
  void* out = nullptr;  // [query, heads, head_dim], rows out_stride apart; all rows are written
  int64_t out_stride = 0;
  float* stats = nullptr;  // or null
};
void attention_forward(Stream stream, const AttentionForward& args);

struct AttentionBackward {
  AttentionShape shape;
  AttentionTiles sequences;  // tiles of all rows of one origin; they share no key
  const Interval* intervals = nullptr;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const void *out = nullptr, *dout = nullptr;
  int64_t q_stride = 0, kv_stride = 0, out_stride = 0, dout_stride = 0;
  const float* stats = nullptr;
  // Written whole: rows and keys of no sequence are zero.
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  int64_t dq_stride = 0, dkv_stride = 0;
  void* workspace = nullptr;  // attention_backward_workspace() bytes
};
int64_t attention_backward_workspace(const AttentionShape& shape);
void attention_backward(Stream stream, const AttentionBackward& args);

// Writes rows' keys and values [row, kv_heads * head_dim] into entries of a cache; entry -1: none.
struct StoreKeyValues {
  DType type = DType::bf16;
  int64_t rows = 0;
  int64_t width = 0;
  const void *k = nullptr, *v = nullptr;
  int64_t stride = 0;
  const int32_t* entries = nullptr;  // [rows]
  void *to_k = nullptr, *to_v = nullptr;
  int64_t to_stride = 0;
};
void store_key_values(Stream stream, const StoreKeyValues& args);

}  // namespace tril::kernels::cuda
