#include "tril/ops/entry_store.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/device/device.h"
#include "tril/ops/key_values.h"

namespace tril::ops {
namespace {

constexpr int64_t kFirstEntries = 4096;

}  // namespace

EntryStore::~EntryStore() { tril::release(placement_.device, pool_); }

int64_t EntryStore::grow() {
  const int64_t entries = std::max(kFirstEntries, 2 * entries_);
  const int64_t entry_bytes = entry_stride() * element_bytes();
  void* pool = tril::allocate(placement_.device, entries * entry_bytes);
  try {
    // Waits for everything enqueued: a running step writes into the old one.
    tril::copy(placement_.device, pool, placement_.device, pool_, entries_ * entry_bytes);
  } catch (...) {
    tril::release(placement_.device, pool);
    throw;
  }
  tril::release(placement_.device, pool_);
  pool_ = pool;
  entries_ = entries;
  return entries_;
}

void EntryStore::copy_block(int32_t from, int32_t /*to*/) {
  fail(ErrorCode::internal, "cache: entry ", from, " is one position, it is never written again");
}

CachePlaces EntryStore::places(Context& context, const StoredRows& rows,
                               std::span<const int32_t> positions) const {
  auto* entries = context.host.allocate_array<int32_t>(rows.size());
  for (size_t row = 0; row < positions.size(); ++row) {
    const StoredSequence* sequence = rows[row];
    entries[row] = sequence != nullptr ? sequence->blocks[static_cast<size_t>(positions[row])] : -1;
  }
  const std::span<const int32_t> known(entries, positions.size());
  return {.rows = rows.size(), .entries = {known, context.uploaded(known)}};
}

void EntryStore::store(Context& context, int64_t layer, const CachePlaces& places,
                       const Tensor& keys, const Tensor& values) {
  ops::store_key_values(context, keys, values, places.entries,
                        {first_key(layer), first_value(layer), entry_stride()});
}

CacheView EntryStore::view(Context& context, const StoredRows& rows, const Tensor& table) const {
  require(table.rows() >= rows.size(), ErrorCode::shape_mismatch, "cache: a table ", table.shape(),
          " for ", rows.size(), " rows");
  return {.lengths = rows.lengths(context),
          .table = {{}, table.on_device<int32_t>()},
          .table_stride = table.columns()};
}

CacheView EntryStore::view(Context& context, const StoredRows& rows) const {
  CacheView view{.slots = rows.slots, .lengths = rows.lengths(context)};
  for (const int32_t length : view.lengths) {
    view.table_stride = std::max<int64_t>(view.table_stride, length);
  }
  view.table_stride = (view.table_stride + kTableStep - 1) / kTableStep * kTableStep;
  const int64_t size = rows.size() * view.table_stride;
  auto* table = context.host.allocate_array<int32_t>(size);
  for (size_t row = 0; row < rows.slots.size(); ++row) {
    int32_t* to = table + static_cast<int64_t>(row) * view.table_stride;
    int32_t* end = to;
    if (const StoredSequence* sequence = rows[row]; sequence != nullptr) {
      end = std::copy(sequence->blocks.begin(), sequence->blocks.end(), to);
    }
    std::fill(end, to + view.table_stride, 0);
  }
  const std::span<const int32_t> known(table, static_cast<size_t>(size));
  view.table = {known, context.uploaded(known)};
  return view;
}

PagedKeys EntryStore::keys_of(const CacheView& view, int64_t layer) const {
  PagedKeys keys{
      .lengths = view.lengths, .kv_heads = shape().kv_heads, .head_dim = shape().head_dim};
  keys.keys = first_key(layer);
  keys.values = first_value(layer);
  keys.entry_stride = entry_stride();
  keys.sequences = view.slots;
  keys.table = view.table;
  keys.table_stride = view.table_stride;
  return keys;
}

PagedKeys EntryStore::keys_with(Context& /*context*/, const CacheView& view, int64_t layer,
                                const CachePlaces& places, const Tensor& keys,
                                const Tensor& values) {
  PagedKeys all = keys_of(view, layer);
  all.fresh_keys = keys;
  all.fresh_values = values;
  all.fresh_entries = places.entries;
  return all;
}

}  // namespace tril::ops
