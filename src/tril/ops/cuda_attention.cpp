#include "tril/ops/cuda_attention.h"

#include <bit>

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/key_values.h"
#include "tril/ops/on_cuda.h"
#include "tril/tensor/mask.h"

namespace tril::ops {

using kernels::cuda::AttentionKeyTile;
using kernels::cuda::AttentionLongKeys;
using kernels::cuda::AttentionLongRows;
using kernels::cuda::AttentionLongTile;
using kernels::cuda::AttentionTile;
using kernels::cuda::keys_of_rows;
using kernels::cuda::kKeyBlock;
using kernels::cuda::kKeySpan;
using kernels::cuda::kLongTileRows;
using kernels::cuda::kShortKeys;
using kernels::cuda::kTileRows;

namespace {

// ---- lists of work ------------------------------------------------------------------------------
// Cuts the rows into tiles of at most `most` rows: each of one sequence, or of rows that see
// nothing. `same(a, b)` says whether two rows have their keys in the same place.
template <class Same>
std::span<AttentionTile> cut_rows(Arena& host, std::span<const Interval> intervals, int64_t most,
                                  const Same& same) {
  const auto rows = static_cast<int32_t>(intervals.size());
  const auto at = [&](int32_t row) -> const Interval& {
    return intervals[static_cast<size_t>(row)];
  };
  auto* tiles = host.allocate_array<AttentionTile>(rows);
  size_t count = 0;
  for (int32_t row = 0; row < rows;) {
    const Interval first = at(row);
    AttentionTile tile{.row_begin = row, .row_end = row, .origin = first.origin};
    if (!first.empty()) {
      tile.key_begin = first.lo;
      tile.key_end = first.hi;
    }
    for (; row < rows && row < tile.row_begin + most && at(row).empty() == first.empty() &&
           (first.empty() || (at(row).origin == first.origin && same(tile.row_begin, row)));
         ++row) {
      if (first.empty()) continue;
      tile.key_begin = std::min(tile.key_begin, at(row).lo);
      tile.key_end = std::max(tile.key_end, at(row).hi);
    }
    tile.row_end = row;
    tile.sequence_end = tile.key_end;
    tiles[count++] = tile;
  }
  return {tiles, count};
}

bool is_empty(const AttentionTile& tile) { return tile.key_begin >= tile.key_end; }

// The tiles of rows that see something, by origin, each with the end of its whole sequence.
std::span<AttentionTile> by_origin(Arena& host, std::span<const AttentionTile> tiles) {
  auto* sorted = host.allocate_array<AttentionTile>(static_cast<int64_t>(tiles.size()));
  AttentionTile* end = std::copy_if(tiles.begin(), tiles.end(), sorted,
                                    [](const AttentionTile& tile) { return !is_empty(tile); });
  const std::span<AttentionTile> result(sorted, static_cast<size_t>(end - sorted));
  sort_by_origin(result);
  for (size_t begin = 0, next = 0; begin < result.size(); begin = next) {
    int32_t keys_end = 0;
    for (next = begin; next < result.size() && result[next].origin == result[begin].origin;
         ++next) {
      keys_end = std::max(keys_end, result[next].key_end);
    }
    for (size_t i = begin; i < next; ++i) result[i].sequence_end = keys_end;
  }
  return result;
}

// An uploaded list with room up to a power of two, so that one CUDA graph serves many batches.
template <class T>
struct Uploaded {
  const T* items = nullptr;
  int64_t capacity = 0;
};
template <class T>
Uploaded<T> upload_padded(Context& context, std::span<const T> list) {
  const auto capacity = static_cast<int64_t>(std::bit_ceil(std::max<size_t>(list.size(), 1)));
  const Arena::Scope scratch(context.host);
  auto* padded = context.host.allocate_array<T>(capacity);
  std::fill(std::copy(list.begin(), list.end(), padded), padded + capacity, T{});
  return {context.uploaded(std::span<const T>(padded, static_cast<size_t>(capacity))), capacity};
}

// Kept steps must not depend on every length, and workspaces are the same beyond a span of keys.
int64_t most_of_list(int64_t keys) { return keys <= kKeySpan ? kKeySpan : INT32_MAX; }

bool is_long(const AttentionTile& tile) {
  return !is_empty(tile) && tile.sequence_end - tile.origin > kShortKeys;
}
void sort_longest_first(auto begin, auto end) {
  const auto work = [](const auto& tile) {
    return int64_t{tile.row_end - tile.row_begin} * (tile.key_end - tile.key_begin);
  };
  std::sort(begin, end, [&](const auto& a, const auto& b) {
    return work(a) != work(b) ? work(a) > work(b) : a.row_begin < b.row_begin;
  });
}

// In the three parts of kernels/cuda/attention.h, longest first in each.
kernels::cuda::AttentionTiles upload_tiles(Context& context, std::span<AttentionTile> tiles) {
  const auto is_first = [](const AttentionTile& tile) {
    return is_empty(tile) || tile.sequence_end - tile.origin > kKeyBlock;
  };
  const auto third = std::partition(tiles.begin(), tiles.end(), is_first);
  const auto second = std::partition(tiles.begin(), third, is_long);
  sort_longest_first(tiles.begin(), second);
  sort_longest_first(second, third);
  sort_longest_first(third, tiles.end());
  const int32_t counts[] = {static_cast<int32_t>(tiles.size()),
                            static_cast<int32_t>(third - tiles.begin()),
                            static_cast<int32_t>(second - tiles.begin())};
  kernels::cuda::AttentionTiles list;
  const Uploaded<AttentionTile> uploaded =
      upload_padded(context, std::span<const AttentionTile>(tiles));
  list.tiles = uploaded.items;
  list.capacity = uploaded.capacity;
  list.count = context.uploaded(std::span<const int32_t>(counts));
  for (const AttentionTile& tile : tiles) {
    list.most_keys = std::max<int64_t>(list.most_keys, tile.key_end - tile.origin);
  }
  list.most_keys = most_of_list(list.most_keys);
  return list;
}

// What the rows of a half of a long tile see: some of them, and all of them.
AttentionLongTile::Half half_of(std::span<const Interval> intervals, int32_t begin, int32_t end) {
  if (begin >= end) return {};
  const Interval& first = intervals[static_cast<size_t>(begin)];
  AttentionLongTile::Half half{first.lo, first.hi, first.lo, first.hi};
  for (int32_t row = begin + 1; row < end; ++row) {
    const Interval& at = intervals[static_cast<size_t>(row)];
    half.first = std::min(half.first, at.lo);
    half.last = std::max(half.last, at.hi);
    half.all_first = std::max(half.all_first, at.lo);
    half.all_last = std::min(half.all_last, at.hi);
  }
  return half;
}

// The long sequences, in larger tiles.
kernels::cuda::AttentionLongTiles upload_long_tiles(Context& context,
                                                    std::span<const Interval> intervals) {
  const Arena::Scope scratch(context.host);
  const std::span<AttentionTile> cut =
      cut_rows(context.host, intervals, kLongTileRows, [](int32_t, int32_t) { return true; });
  auto* tiles = context.host.allocate_array<AttentionLongTile>(static_cast<int64_t>(cut.size()));
  size_t count = 0;
  kernels::cuda::AttentionLongTiles list;
  for (const AttentionTile& tile : by_origin(context.host, cut)) {
    if (!is_long(tile)) continue;
    constexpr auto kHalf = static_cast<int32_t>(kTileRows);
    const int32_t middle = std::min(tile.row_begin + kHalf, tile.row_end);
    tiles[count++] = {.row_begin = tile.row_begin,
                      .row_end = tile.row_end,
                      .origin = tile.origin,
                      .key_begin = tile.key_begin,
                      .key_end = tile.key_end,
                      .halves = {half_of(intervals, tile.row_begin, middle),
                                 half_of(intervals, middle, tile.row_end)}};
    list.most_keys = std::max<int64_t>(list.most_keys, tile.key_end - tile.origin);
  }
  list.all = count == cut.size();
  if (count == 0) return list;
  sort_longest_first(tiles, tiles + count);
  const Uploaded<AttentionLongTile> uploaded =
      upload_padded(context, std::span<const AttentionLongTile>(tiles, count));
  list.tiles = uploaded.items;
  list.capacity = uploaded.capacity;
  list.count = context.uploaded(static_cast<int32_t>(count));
  list.most_keys = most_of_list(list.most_keys);
  return list;
}

// The tiles with the test hook's widening, on which the rows that reach a block of keys depend.
std::span<const AttentionTile> widened(Arena& host, std::span<const AttentionTile> tiles,
                                       Widening widening) {
  if (widening == Widening::none) return tiles;
  auto* wide = host.allocate_array<AttentionTile>(static_cast<int64_t>(tiles.size()));
  for (size_t i = 0; i < tiles.size(); ++i) {
    wide[i] = tiles[i];
    wide[i].key_end = std::min(tiles[i].key_end + 1, tiles[i].sequence_end);
  }
  return {wide, tiles.size()};
}

// Calls visit(tiles [begin, end) of `rows`, by origin) for each sequence.
template <class Visit>
void for_each_sequence(std::span<const AttentionTile> rows, const Visit& visit) {
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    while (end < rows.size() && rows[end].origin == rows[begin].origin) ++end;
    visit(begin, end);
  }
}
// Calls visit(key, key_end, first, last) for every `step` keys of the sequence of the tiles [begin,
// end): those of [first, last) see some of them. Neither end of what tiles see decreases, so these
// are consecutive.
template <class Visit>
void for_each_block(std::span<const AttentionTile> rows, size_t begin, size_t end, int32_t step,
                    const Visit& visit) {
  const int32_t keys_end = rows[begin].sequence_end;
  size_t first = begin, last = begin;
  for (int32_t key = rows[begin].origin; key < keys_end; key += step) {
    while (first < end && rows[first].key_end <= key) ++first;
    while (last < end && rows[last].key_begin < key + step) ++last;
    visit(key, std::min(key + step, keys_end), first, std::max(first, last));
  }
}

// The blocks of keys of all sequences and the gaps between them; `rows` by origin.
kernels::cuda::AttentionKeyTiles upload_key_tiles(Context& context,
                                                  std::span<const AttentionTile> rows) {
  const Arena::Scope scratch(context.host);
  int32_t last_key = 0;
  for (const AttentionTile& tile : rows) last_key = std::max(last_key, tile.key_end);
  // A sequence and a gap have at most one partial block each.
  const int64_t most = last_key / kKeyBlock + 2 * static_cast<int64_t>(rows.size()) + 1;
  auto* tiles = context.host.allocate_array<AttentionKeyTile>(most);
  size_t count = 0;
  constexpr auto kStep = static_cast<int32_t>(kKeyBlock);
  const auto add_sequence = [&](size_t begin, size_t end) {
    for_each_block(rows, begin, end, kStep,
                   [&](int32_t key, int32_t key_end, size_t first, size_t last) {
                     tiles[count++] = {.key_begin = key,
                                       .key_end = key_end,
                                       .tile_begin = static_cast<int32_t>(first),
                                       .tile_end = static_cast<int32_t>(last),
                                       .first = first < end ? rows[first] : AttentionTile{}};
                   });
  };
  for_each_sequence(rows, [&](size_t begin, size_t end) {
    if (is_long(rows[begin])) add_sequence(begin, end);
  });
  const size_t long_count = count;
  int32_t covered = 0;
  for_each_sequence(rows, [&](size_t begin, size_t end) {
    const int32_t origin = rows[begin].origin;
    for (; covered < origin; covered += std::min(kStep, origin - covered)) {
      tiles[count++] = {.key_begin = covered, .key_end = std::min(covered + kStep, origin)};
    }
    if (!is_long(rows[begin])) add_sequence(begin, end);
    covered = rows[begin].sequence_end;
  });
  const auto longer = [](const AttentionKeyTile& a, const AttentionKeyTile& b) {
    const auto work = [](const AttentionKeyTile& t) {
      return int64_t{t.tile_end - t.tile_begin} * (t.key_end - t.key_begin);
    };
    return work(a) != work(b) ? work(a) > work(b) : a.key_begin < b.key_begin;
  };
  std::sort(tiles, tiles + long_count, longer);
  std::sort(tiles + long_count, tiles + count, longer);
  const int32_t counts[] = {static_cast<int32_t>(count), static_cast<int32_t>(long_count), covered};
  const Uploaded<AttentionKeyTile> uploaded =
      upload_padded(context, std::span<const AttentionKeyTile>(tiles, count));
  const int32_t* on_device = context.uploaded(std::span<const int32_t>(counts));
  return {.tiles = uploaded.items,
          .count = on_device,
          .covered = on_device + 2,
          .capacity = uploaded.capacity,
          .rows = upload_padded(context, rows).items};
}

template <class Part, class Work>
kernels::cuda::AttentionLongParts<Part> upload_long_parts(Context& context, std::span<Part> parts,
                                                          const Work& work) {
  std::sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) {
    return work(a) != work(b) ? work(a) > work(b) : a.begin < b.begin;
  });
  const Uploaded<Part> uploaded = upload_padded(context, std::span<const Part>(parts));
  return {.parts = uploaded.items,
          .count = context.uploaded(static_cast<int32_t>(parts.size())),
          .capacity = uploaded.capacity};
}
template <class Visit>
void for_each_long_sequence(std::span<const AttentionTile> rows, const Visit& visit) {
  for_each_sequence(rows, [&](size_t begin, size_t end) {
    if (is_long(rows[begin])) visit(begin, end);
  });
}

kernels::cuda::AttentionLongParts<AttentionLongKeys> upload_long_keys(
    Context& context, std::span<const AttentionTile> rows, int64_t most) {
  const Arena::Scope scratch(context.host);
  auto* parts = context.host.allocate_array<AttentionLongKeys>(most);
  size_t count = 0;
  for_each_long_sequence(rows, [&](size_t begin, size_t end) {
    size_t block = 0;
    for_each_block(rows, begin, end, int32_t{kKeyBlock},
                   [&](int32_t key, int32_t key_end, size_t first, size_t last) {
                     const size_t i = block++ % kernels::cuda::kLongKeyBlocks;
                     if (i == 0) parts[count++] = {.begin = key};
                     AttentionLongKeys& part = parts[count - 1];
                     part.end = key_end;
                     part.first[i] = static_cast<int32_t>(first);
                     part.last[i] = static_cast<int32_t>(last);
                   });
  });
  return upload_long_parts(context, std::span(parts, count), [](const AttentionLongKeys& part) {
    int32_t tiles = 0;
    for (int i = 0; i < kernels::cuda::kLongKeyBlocks; ++i) tiles += part.last[i] - part.first[i];
    return tiles;
  });
}

kernels::cuda::AttentionLongParts<AttentionLongRows> upload_long_rows(
    Context& context, std::span<const AttentionTile> rows, int64_t most, size_t tiles) {
  const Arena::Scope scratch(context.host);
  auto* parts = context.host.allocate_array<AttentionLongRows>(most);
  size_t count = 0;
  for_each_long_sequence(rows, [&](size_t begin, size_t end) {
    constexpr auto kStep = static_cast<int32_t>(kKeyBlock);
    const int32_t origin = rows[begin].origin;
    for (size_t tile = begin; tile < end; tile += tiles) {
      const size_t next = std::min(tile + tiles, end);
      parts[count++] = {static_cast<int32_t>(tile), static_cast<int32_t>(next),
                        origin + (rows[tile].key_begin - origin) / kStep * kStep,
                        rows[next - 1].key_end};
    }
  });
  return upload_long_parts(context, std::span(parts, count), [](const AttentionLongRows& part) {
    return int64_t{part.end - part.begin} * (part.last - part.first);
  });
}

// The long sequences again, in the parts of kernels/cuda/attention.h; `rows` by origin.
kernels::cuda::AttentionLongGradients upload_long_gradients(Context& context,
                                                            std::span<const AttentionTile> rows) {
  int64_t blocks = 0;
  for_each_long_sequence(rows, [&](size_t begin, size_t) {
    blocks += (rows[begin].sequence_end - rows[begin].origin) / kKeyBlock + 1;
  });
  kernels::cuda::AttentionLongGradients gradients;
  if (blocks == 0) return gradients;
  gradients.keys = upload_long_keys(context, rows, blocks);
  for (size_t i = 0; i < std::size(kernels::cuda::kLongRowTiles); ++i) {
    gradients.rows[i] = upload_long_rows(context, rows, static_cast<int64_t>(rows.size()),
                                         static_cast<size_t>(kernels::cuda::kLongRowTiles[i]));
  }
  return gradients;
}

// ---- arguments ----------------------------------------------------------------------------------
kernels::cuda::AttentionShape shape_on_cuda(Context& context, const AttentionSizes& sizes,
                                            int64_t keys, const AttentionOptions& options) {
  require(sizes.head_dim <= kernels::cuda::kMaxHeadDim, ErrorCode::unsupported,
          "attention: heads of ", sizes.head_dim, ", on CUDA they have at most ",
          kernels::cuda::kMaxHeadDim);
  kernels::cuda::AttentionShape shape;
  shape.type = context.activations;
  shape.query = sizes.query;
  shape.key = keys;
  shape.heads = sizes.heads;
  shape.kv_heads = sizes.kv_heads;
  shape.head_dim = sizes.head_dim;
  shape.scale = sizes.scale;
  shape.widen_head = options.widen_head;
  shape.widen_row = options.widen_row;
  shape.descending_blocks = context.hooks.order_by_batch && sizes.query > 1;
  shape.portable = !gpu_at(context.device()).hopper;
  if (options.bias.defined()) {
    shape.bias = options.bias.on_device<float>();
    shape.bias_offsets = options.bias.shape()[1];
    shape.bias_zero = options.bias_zero;
    shape.positions = context.on_device(options.positions);
  }
  return shape;
}

// Checks that it has the type of activations.
const void* read(const Context& context, const Tensor& tensor) {
  const void* memory = nullptr;
  with_activation_type(context.activations,
                       [&](auto type) { memory = tensor.rows_on_device<decltype(type)>(); });
  return memory;
}

// Gradients have the layout of their tensors: if these are slices of one matrix, so are the
// gradients.
AttentionGradients gradients_like(Context& context, const Tensor& q, const Tensor& k,
                                  const Tensor& v) {
  const auto plain = [&](const Tensor& of) {
    return Tensor(context.arena, of.shape(), context.activations);
  };
  const auto beside = [&](const Tensor& whole, int64_t begin, const Tensor& of) {
    return whole.column_slice(begin, begin + of.size() / of.shape()[0]).reshaped(of.shape());
  };
  const Tensor all[] = {q, k, v};
  if (const Tensor joined = Tensor::joined(all); joined.defined()) {
    const Tensor whole = plain(joined);
    const int64_t heads = q.size() / q.shape()[0], kv_heads = k.size() / k.shape()[0];
    return {beside(whole, 0, q), beside(whole, heads, k), beside(whole, heads + kv_heads, v)};
  }
  if (const Tensor joined = Tensor::joined(std::span(all).subspan(1)); joined.defined()) {
    const Tensor whole = plain(joined);
    return {plain(q), beside(whole, 0, k), beside(whole, k.size() / k.shape()[0], v)};
  }
  return {plain(q), plain(k), plain(v)};
}

void run_forward(Context& context, kernels::cuda::AttentionForward forward) {
  context.queue.make_current();  // how much it is depends on the GPU
  forward.workspace = context.arena.allocate(kernels::cuda::attention_forward_workspace(forward));
  context.launch_in_chain(kernels::cuda::attention_forward, forward);
}

// Whether consecutive rows belong to one sequence, so that they read its keys together.
bool share_sequences(std::span<const int32_t> sequences) {
  const auto shared = [](int32_t a, int32_t b) { return a == b && a >= 0; };
  return std::adjacent_find(sequences.begin(), sequences.end(), shared) != sequences.end();
}

kernels::cuda::AttentionForward::Fresh fresh_of(Context& context, const PagedKeys& keys) {
  if (!keys.fresh_keys.defined()) return {};
  const auto [k, v] = with_one_stride(context, keys.fresh_keys, keys.fresh_values);
  return {.k = read(context, k),
          .v = read(context, v),
          .stride = k.row_stride(),
          .entries = context.on_device(keys.fresh_entries)};
}

}  // namespace

AttentionPlan::Lists cuda_attention_lists(Context& context, const Mirrored<Interval>& intervals,
                                          Passes passes, Widening widening) {
  AttentionPlan::Lists lists;
  for (const Interval& at : intervals) {
    if (!at.empty()) lists.keys_needed = std::max<int64_t>(lists.keys_needed, at.hi);
  }
  check_within(intervals.host, lists.keys_needed);
  lists.intervals = context.on_device(intervals);
  const Arena::Scope scratch(context.host);
  const std::span<AttentionTile> tiles =
      cut_rows(context.host, intervals.host, kTileRows, [](int32_t, int32_t) { return true; });
  const std::span<AttentionTile> sorted = by_origin(context.host, tiles);
  if (passes == Passes::both && !backward_problem(intervals.host, sorted)) {
    lists.has_backward = true;
    lists.key_tiles = upload_key_tiles(context, widened(context.host, sorted, widening));
    lists.long_gradients = upload_long_gradients(context, sorted);
  }
  // The ends of the sequences are needed in the other list too: empty tiles, then those by origin.
  const auto empty = std::partition(tiles.begin(), tiles.end(), is_empty);
  std::copy(sorted.begin(), sorted.end(), empty);
  lists.tiles = upload_tiles(context, tiles);
  lists.long_tiles = upload_long_tiles(context, intervals.host);
  lists.long_gradients.all = lists.long_tiles.all;
  return lists;
}

AttentionResult cuda_attention(Context& context, const Tensor& q, const Tensor& keys,
                               const Tensor& values, const AttentionPlan& plan,
                               const AttentionSizes& sizes, const AttentionOptions& options) {
  const auto [k, v] = with_one_stride(context, keys, values);
  const AttentionPlan::Lists lists =
      plan.lists() != nullptr ? *plan.lists()
                              : cuda_attention_lists(context, plan.intervals(), Passes::forward);
  kernels::cuda::AttentionForward forward;
  forward.shape = shape_on_cuda(context, sizes, k.shape()[0], options);
  forward.tiles = lists.tiles;
  forward.long_tiles = lists.long_tiles;
  forward.intervals = lists.intervals;
  forward.q = read(context, q);
  forward.k = read(context, k);
  forward.v = read(context, v);
  forward.q_stride = q.row_stride();
  forward.out_stride = sizes.heads * sizes.head_dim;
  forward.kv_stride = k.row_stride();
  const AttentionResult result{Tensor(context.arena, q.shape(), context.activations),
                               Tensor(context.arena, {sizes.query, sizes.heads, 2})};
  forward.out = result.out.raw();
  forward.stats = result.stats.on_device<float>();
  const Arena::Scope scratch(context.arena);
  run_forward(context, forward);
  return result;
}

AttentionGradients cuda_attention_gradients(Context& context, const Tensor& q, const Tensor& keys,
                                            const Tensor& values, const AttentionResult& result,
                                            const Tensor& dout, const AttentionPlan& plan,
                                            const AttentionSizes& sizes,
                                            const AttentionOptions& options) {
  const auto [k, v] = with_one_stride(context, keys, values);
  const Widening widening = options.widen_head == -1 ? Widening::none : Widening::by_a_key;
  const bool planned = plan.lists() != nullptr && plan.lists()->has_backward;
  const AttentionPlan::Lists lists =
      planned && widening == Widening::none
          ? *plan.lists()
          : cuda_attention_lists(context, plan.intervals(), Passes::both, widening);
  if (!lists.has_backward) {
    const Arena::Scope scratch(context.host);
    const std::span<AttentionTile> tiles = cut_rows(context.host, plan.intervals().host, kTileRows,
                                                    [](int32_t, int32_t) { return true; });
    const auto problem = backward_problem(plan.intervals().host, by_origin(context.host, tiles));
    fail(ErrorCode::invalid_argument, problem.value_or("attention gradient: the mask allows none"));
  }
  kernels::cuda::AttentionBackward backward;
  backward.shape = shape_on_cuda(context, sizes, k.shape()[0], options);
  backward.tiles = lists.tiles;
  backward.key_tiles = lists.key_tiles;
  backward.long_gradients = lists.long_gradients;
  backward.intervals = lists.intervals;
  backward.q = read(context, q);
  backward.k = read(context, k);
  backward.v = read(context, v);
  backward.out = read(context, result.out);
  backward.dout = read(context, dout);
  backward.stats = result.stats.on_device<float>();
  const AttentionGradients gradients = gradients_like(context, q, k, v);
  backward.dq = gradients.dq.raw_rows();
  backward.dk = gradients.dk.raw_rows();
  backward.dv = gradients.dv.raw_rows();
  backward.q_stride = q.row_stride();
  backward.dq_stride = gradients.dq.row_stride();
  backward.kv_stride = k.row_stride();
  backward.dkv_stride = gradients.dk.row_stride();
  backward.out_stride = backward.dout_stride = sizes.heads * sizes.head_dim;
  const Arena::Scope scratch(context.arena);
  backward.workspace =
      context.arena.allocate(kernels::cuda::attention_backward_workspace(backward.shape));
  context.launch(kernels::cuda::attention_backward, backward);
  return gradients;
}

Tensor cuda_attention_paged(Context& context, const Tensor& q, const PagedKeys& keys,
                            const AttentionPlan& plan, const AttentionSizes& sizes,
                            const AttentionOptions& options) {
  const Mirrored<Interval>& intervals = plan.intervals();
  kernels::cuda::AttentionForward forward;
  forward.shape = shape_on_cuda(context, sizes, 0, options);
  forward.intervals = context.on_device(intervals);
  forward.q = read(context, q);
  forward.q_stride = q.row_stride();
  forward.out_stride = sizes.heads * sizes.head_dim;
  forward.k = keys.keys;
  forward.v = keys.values;
  forward.kv_stride = keys.entry_stride;
  forward.table = context.on_device(keys.table);
  forward.table_stride = keys.table_stride;
  forward.fresh = fresh_of(context, keys);
  forward.keys_rest = keys.rests;
  // Rows of their own sequences need no list.
  if (share_sequences(keys.sequences)) {
    const Arena::Scope scratch(context.host);
    const auto same = [&](int32_t a, int32_t b) {
      return keys.sequences[static_cast<size_t>(a)] == keys.sequences[static_cast<size_t>(b)];
    };
    forward.tiles = upload_tiles(context, cut_rows(context.host, intervals.host, kTileRows, same));
    forward.tiles.most_keys = keys.table_stride;
  } else {
    int64_t most = 0;
    for (const Interval& at : intervals) most = std::max<int64_t>(most, at.hi - at.origin);
    forward.tiles.most_keys = keys_of_rows(forward.shape, most, keys.table_stride);
  }
  Tensor out(context.arena, q.shape(), context.activations);
  forward.out = out.raw();
  const Arena::Scope scratch(context.arena);
  run_forward(context, forward);
  return out;
}

}  // namespace tril::ops
