#include "tril/ops/page_store.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/device/device.h"
#include "tril/kernels/attention.h"

namespace tril::ops {
namespace {

constexpr int64_t kMaxPagesAtOnce = 16;  // pages allocated ahead take memory too

}  // namespace

PageStore::PageStore(const CacheShape& shape)
    : KeyValueStore(shape, kernels::kKeyTile), layer_floats_(shape.width() * kernels::kKeyTile) {}

PageStore::~PageStore() {
  for (float* memory : allocated_) tril::release(Device::cpu, memory);
}

// As many pages as there are: small caches stay small, large ones ask rarely.
int64_t PageStore::grow() {
  const int64_t count =
      std::clamp<int64_t>(static_cast<int64_t>(pages_.size()), 1, kMaxPagesAtOnce);
  allocated_.reserve(allocated_.size() + 1);
  pages_.reserve(pages_.size() + static_cast<size_t>(count));
  auto* memory = static_cast<float*>(
      tril::allocate(Device::cpu, count * page_floats() * int64_t{sizeof(float)}));
  // Lanes past a sequence's end are multiplied and then masked: they must hold something.
  std::fill_n(memory, count * page_floats(), 0.0f);
  allocated_.push_back(memory);
  for (int64_t i = 0; i < count; ++i) pages_.push_back(memory + i * page_floats());
  return static_cast<int64_t>(pages_.size());
}

void PageStore::copy_block(int32_t from, int32_t to) {
  std::copy_n(address(from), page_floats(), address(to));
}

CachePlaces PageStore::places(Context& context, const StoredRows& rows,
                              std::span<const int32_t> positions) const {
  auto* pages = context.host.allocate_array<float*>(rows.size());
  for (size_t row = 0; row < positions.size(); ++row) {
    const StoredSequence* sequence = rows[row];
    pages[row] = nullptr;
    if (sequence == nullptr) continue;
    pages[row] = sequence->addresses[static_cast<size_t>(positions[row] / block_positions())];
  }
  return {.rows = rows.size(), .pages = {pages, positions.size()}, .positions = positions};
}

void PageStore::store(Context& context, int64_t layer, const CachePlaces& places,
                      const Tensor& keys, const Tensor& values) {
  const float* k = keys.data();
  const float* v = values.data();
  context.parallel(places.rows, [&](int64_t row) {
    const auto r = static_cast<size_t>(row);
    if (places.pages[r] == nullptr) return;
    float* page = places.pages[r] + 2 * layer * layer_floats_;
    kernels::store_key_value(k + row * shape().width(), v + row * shape().width(), shape().kv_heads,
                             shape().head_dim, places.positions[r] % block_positions(), page,
                             page + layer_floats_);
  });
}

CacheView PageStore::view(Context& context, const StoredRows& rows) const {
  auto* pages = context.host.allocate_array<const float* const*>(rows.size());
  for (size_t row = 0; row < rows.slots.size(); ++row) {
    const StoredSequence* sequence = rows[row];
    pages[row] = sequence != nullptr ? sequence->addresses.data() : nullptr;
  }
  return {
      .slots = rows.slots, .pages = {pages, rows.slots.size()}, .lengths = rows.lengths(context)};
}

CacheView PageStore::view(Context& /*context*/, const StoredRows& /*rows*/,
                          const Tensor& /*table*/) const {
  fail(ErrorCode::invalid_argument, "cache: a table of entries, but keys are in pages");
}

PagedKeys PageStore::keys_of(const CacheView& view, int64_t layer) const {
  PagedKeys keys{.pages = view.pages,
                 .lengths = view.lengths,
                 .kv_heads = shape().kv_heads,
                 .head_dim = shape().head_dim};
  keys.keys_offset = 2 * layer * layer_floats_;
  keys.values_offset = keys.keys_offset + layer_floats_;
  return keys;
}

PagedKeys PageStore::keys_with(Context& context, const CacheView& view, int64_t layer,
                               const CachePlaces& places, const Tensor& keys,
                               const Tensor& values) {
  store(context, layer, places, keys, values);
  return keys_of(view, layer);
}

}  // namespace tril::ops
