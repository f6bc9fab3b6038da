// Masked attention by intervals on CUDA: the contract of kernels/attention.h, with the order that
// tensor cores give it.
//
// Layouts: q, out, dq [query, heads, head_dim] and k, v, dk, dv [key, kv_heads, head_dim], rows
// `stride` elements apart (so that one projection may write queries, keys and values side by side).
// All pointers are to device memory, including the lists of tiles.
//
// Order, the same for every caller, tile and kernel (bf16; M is mma.sync.m16n8k16, or wgmma with
// k16, which has its bits):
//  - s = M-chain over head_dim ascending, zeros to a multiple of 16; then times scale; then plus
//    bias. A key outside the interval is masked by select: its score is -inf whatever it holds.
//  - Blocks of kKeyBlock keys are counted from the row's origin, ascending. In a block:
//    new = max(m, largest of the block times log2e); p = 2^(s log2e - new) with one fma and ex2,
//    rounded to bf16 for p·v and for the sum alike; acc = acc 2^(m - new), then the M-chain over
//    keys continues it. Lane t of four sums the columns 8 i + 2 t and the next, i ascending:
//    sum[t] = sum[t] 2^(m - new) + the block's.
//  - Spans of kKeySpan keys from the origin start from nothing. At a span's end its sum is
//    (sum[0] + sum[1]) + (sum[2] + sum[3]); spans are merged ascending: with new = max(m, m'),
//    acc = fma(acc', 2^(m' - new), acc 2^(m - new)), the sum likewise.
//  - out = bf16(acc (1 / sum) + 0), so that no zero has a sign that depends on the tile.
//  - A block in which a row sees nothing leaves that row as it was. An empty row is exactly zero.
// f32: the same with one chain of fused multiply-adds in place of M and no rounding of p; there
// lane t of 32 sums the columns t and t + 32, and halves are added 16, 8, 4, 2, 1 apart.
// stats [query, heads, 2]: the row's largest score times log2e, and 1 / sum; 0, 0 for an empty row.
//
// Backward in bf16: delta = dout · out in f32 and base = m - log2(1 / sum), once per row. With s
// and dp = dout · v M-chains over head_dim, p = 2^(fma(s, scale log2e, -(base - bias log2e))) and
// ds = p (dp - delta), each rounded to bf16 for the products dv = pᵀ dout, dk = scale dsᵀ q, dq =
// scale ds k, where scale comes last. dq[i] is one M-chain over the keys from the origin, dk[j] and
// dv[j] one over (head of the group, row), the rows in tiles as planned. The bits are the same from
// run to run, and wherever the sequence lies. In f32 p = 2^(s log2e - m) (1 / sum) with the forward
// pass's s, ds = p (dp - delta) scale, and plain chains.
//
// Forbidden NaN: a key that is loaded although the row may not see it has weight zero. If such a
// key or value is not finite, 0 · NaN would reach the row: rows whose result is not finite are
// computed again one by one, with everything outside their own interval zero, which has the same
// bits. Likewise in the backward pass, for rows in dq and for keys in dk and dv.
// Kernels neither allocate nor throw.
#pragma once

#include <array>
#include <cstdint>

#include "tril/base/dtype.h"
#include "tril/base/interval.h"
#include "tril/base/stream.h"

namespace tril::kernels::cuda {

constexpr int64_t kKeyBlock = 64;
constexpr int64_t kKeySpan = 2048;
constexpr int64_t kMaxHeadDim = 256;

// Consecutive query rows with the same origin, at most kTileRows; [key_begin, key_end) covers their
// intervals. Or rows that see nothing, with key_begin = key_end.
constexpr int64_t kTileRows = 64;
struct AttentionTile {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t origin = 0;
  int32_t key_begin = 0;
  int32_t key_end = 0;
  int32_t sequence_end = 0;  // the end of all keys that rows with this origin see
};
// A list of tiles with room for more: the number of tiles is read on the device, so that one graph
// serves every batch.
struct AttentionTiles {
  // Every row is in one of them. First come tiles of sequences of more than kKeyBlock keys and of
  // rows that see nothing, beginning with the sequences of more than kShortKeys; then the others;
  // longest first in each part.
  const AttentionTile* tiles = nullptr;
  const int32_t* count = nullptr;  // [3]: in all, in the first part, of more than kShortKeys keys
  int64_t capacity = 0;
  // At least the keys of every tile. With a list it only matters whether they exceed kKeySpan, so
  // there it is rounded up to one of few numbers, for one CUDA graph to serve many lengths.
  int64_t most_keys = 0;
};

// Sequences of more than kShortKeys keys have additional tiles if the GPU and the shape allow it
// (heads of 64 or 128): consecutive rows with the same origin, at most kLongTileRows, in
// halves of kTileRows. In a half, each key of [first, last) is seen by some row, and those of
// [all_first, all_last) by every row; a half without rows has none.
constexpr int64_t kShortKeys = 128;
constexpr int64_t kLongTileRows = 2 * kTileRows;
struct AttentionLongTile {
  struct Half {
    int32_t first = 0, last = 0;
    int32_t all_first = 0, all_last = 0;
  };
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t origin = 0;
  int32_t key_begin = 0;
  int32_t key_end = 0;
  Half halves[2] = {};
};
struct AttentionLongTiles {
  const AttentionLongTile* tiles = nullptr;  // longest first
  const int32_t* count = nullptr;            // [1]
  int64_t capacity = 0;                      // 0: there are none
  int64_t most_keys = 0;                     // as in AttentionTiles
  bool all = false;                          // no row is in any other sequence
};

// A block of the keys of a sequence, [key_begin, key_end), key_begin a multiple of kKeyBlock from
// the origin, and the tiles of rows that see some of it. Or keys that no row sees, at most
// kKeyBlock of them, with tile_begin = tile_end: their gradients are zero.
struct AttentionKeyTile {
  int32_t key_begin = 0;
  int32_t key_end = 0;
  int32_t tile_begin = 0;
  int32_t tile_end = 0;
  AttentionTile first{};  // a copy of the tile with index tile_begin
};
struct AttentionKeyTiles {
  // No two share a key. First come those of sequences of more than kShortKeys keys; longest first
  // in both parts.
  const AttentionKeyTile* tiles = nullptr;
  const int32_t* count = nullptr;    // [2]: in all, in the first part
  const int32_t* covered = nullptr;  // [1]: all keys before this one are in a tile
  int64_t capacity = 0;
  const AttentionTile* rows = nullptr;  // indexed by tile_begin; sorted by origin and row
};

// Gradients of long sequences are computed in parts, if the GPU and the shape allow it as above and
// there is no bias. A
// part is keys [begin, end), beginning at a multiple of kKeyBlock from the origin, at most
// kLongKeyBlocks blocks; some rows of the tiles [first[i], last[i]) of AttentionKeyTiles::rows see
// some of block i.
constexpr int kLongKeyBlocks = 2;
struct AttentionLongKeys {
  int32_t begin = 0, end = 0;
  int32_t first[kLongKeyBlocks] = {}, last[kLongKeyBlocks] = {};
};
// Or the tiles [begin, end) of rows, which see [first, last), the first key being such a multiple
// from the origin. There is one list for each maximum number of tiles per part in kLongRowTiles.
constexpr int kLongRowTiles[] = {2, 3};
struct AttentionLongRows {
  int32_t begin = 0, end = 0;
  int32_t first = 0, last = 0;
};
template <class Part>
struct AttentionLongParts {
  const Part* parts = nullptr;     // longest first
  const int32_t* count = nullptr;  // [1]
  int64_t capacity = 0;            // 0: there are none
};
struct AttentionLongGradients {
  AttentionLongParts<AttentionLongKeys> keys{};
  std::array<AttentionLongParts<AttentionLongRows>, 2> rows{};
  bool all = false;  // all rows belong to long sequences
};

struct AttentionShape {
  DType type = DType::bf16;
  int64_t query = 0;
  int64_t key = 0;
  int64_t heads = 1, kv_heads = 1, head_dim = 1;  // head_dim <= kMaxHeadDim
  float scale = 1.0f;
  const float* bias = nullptr;  // as kernels/attention.h
  int64_t bias_offsets = 0;
  int64_t bias_zero = 0;
  const int32_t* positions = nullptr;
  int widen_head = -1;  // test hooks, as kernels/attention.h
  int64_t widen_row = -1;
  bool descending_blocks = false;
  bool portable = false;  // use only what compute capability 8.0 has
};

struct AttentionForward {
  AttentionShape shape;
  // Without a list each row is a tile of its own, found by its interval on the device; most_keys
  // still applies.
  AttentionTiles tiles;
  AttentionLongTiles long_tiles;        // the long sequences again, or none
  const Interval* intervals = nullptr;  // [query]
  const void* q = nullptr;
  int64_t q_stride = 0;
  const void* k = nullptr;  // [key, kv_heads, head_dim]; with a table [entry, ...]
  const void* v = nullptr;
  int64_t kv_stride = 0;
  // A cache: key j of the sequence of row r is entry table[r * table_stride + j], and intervals
  // count from 0. A tile uses the table row of its first row.
  const int32_t* table = nullptr;
  int64_t table_stride = 0;
  // Keys and values [query, kv_heads, head_dim] of this step that are not in the cache yet: row r's
  // become its entry entries[r] (-1: none) before any row reads the cache. Without a list of tiles
  // no other row may see that entry, and it is stored on the way.
  struct Fresh {
    const void *k = nullptr, *v = nullptr;
    int64_t stride = 0;
    const int32_t* entries = nullptr;  // [query]; null: none
  };
  Fresh fresh;
  // No kernel of the chain writes the keys and values of the cache, except the fresh ones
  // (launch.cuh).
  bool keys_rest = false;
  void* out = nullptr;  // [query, heads, head_dim], rows out_stride apart; all rows are written
  int64_t out_stride = 0;
  float* stats = nullptr;     // or null
  void* workspace = nullptr;  // attention_forward_workspace() bytes
};
// 0 if no tile has more than kKeySpan keys. Uses every argument except the workspace.
int64_t attention_forward_workspace(const AttentionForward& args);
void attention_forward(Stream stream, const AttentionForward& args);
// The most_keys to pass without a list: one of few numbers, so that one CUDA graph serves many
// lengths. Either `bound`, which no row will ever exceed, or, where that pays, slightly more than
// what the rows see now.
int64_t keys_of_rows(const AttentionShape& shape, int64_t most_keys, int64_t bound);

struct AttentionBackward {
  AttentionShape shape;
  AttentionTiles tiles;
  AttentionKeyTiles key_tiles;
  AttentionLongGradients long_gradients;  // the long sequences again, or none
  const Interval* intervals = nullptr;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const void *out = nullptr, *dout = nullptr;
  int64_t q_stride = 0, kv_stride = 0, out_stride = 0, dout_stride = 0;
  const float* stats = nullptr;
  // Written completely: rows and keys of no sequence are zero.
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
