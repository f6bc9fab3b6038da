#include "tril/ops/page_store.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/device/device.h"
#include "tril/kernels/attention.h"

namespace tril::ops {
namespace {

constexpr int64_t kMaxPagesAtOnce = 16;  // pages allocated ahead take memory too

}  // namespace

template <class Element>
PageStore<Element>::PageStore(const CacheShape& shape)
    : KeyValueStore(shape, kernels::kKeyTile), layer_elements_(shape.width() * kernels::kKeyTile) {}

template <class Element>
PageStore<Element>::~PageStore() {
  for (Element* memory : allocated_) tril::release(Device::cpu, memory);
}

// As many pages as there are: small caches stay small, large ones ask rarely.
template <class Element>
int64_t PageStore<Element>::grow() {
  const int64_t count =
      std::clamp<int64_t>(static_cast<int64_t>(pages_.size()), 1, kMaxPagesAtOnce);
  allocated_.reserve(allocated_.size() + 1);
  pages_.reserve(pages_.size() + static_cast<size_t>(count));
  auto* memory = static_cast<Element*>(
      tril::allocate(Device::cpu, count * page_elements() * int64_t{sizeof(Element)}));
  // Lanes past a sequence's end are multiplied and then masked: they must hold something.
  std::fill_n(memory, count * page_elements(), Element{});
  allocated_.push_back(memory);
  for (int64_t i = 0; i < count; ++i) pages_.push_back(memory + i * page_elements());
  return static_cast<int64_t>(pages_.size());
}

template <class Element>
void PageStore<Element>::copy_block(int32_t from, int32_t to) {
  std::copy_n(pages_[static_cast<size_t>(from)], page_elements(), pages_[static_cast<size_t>(to)]);
}

template <class Element>
CachePlaces PageStore<Element>::places(Context& context, const StoredRows& rows,
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

template <class Element>
void PageStore<Element>::store(Context& context, int64_t layer, const CachePlaces& places,
                               const Tensor& keys, const Tensor& values) {
  const auto* k = keys.data<Element>();
  const auto* v = values.data<Element>();
  context.parallel(places.rows, [&](int64_t row) {
    const auto r = static_cast<size_t>(row);
    if (places.pages[r] == nullptr) return;
    Element* page = reinterpret_cast<Element*>(places.pages[r]) + 2 * layer * layer_elements_;
    kernels::store_key_value(k + row * shape().width(), v + row * shape().width(), shape().kv_heads,
                             shape().head_dim, places.positions[r] % block_positions(), page,
                             page + layer_elements_);
  });
}

template <class Element>
CacheView PageStore<Element>::view(Context& context, const StoredRows& rows) const {
  auto* pages = context.host.allocate_array<const float* const*>(rows.size());
  for (size_t row = 0; row < rows.slots.size(); ++row) {
    const StoredSequence* sequence = rows[row];
    pages[row] = sequence != nullptr ? sequence->addresses.data() : nullptr;
  }
  return {
      .slots = rows.slots, .pages = {pages, rows.slots.size()}, .lengths = rows.lengths(context)};
}

template <class Element>
CacheView PageStore<Element>::view(Context& /*context*/, const StoredRows& /*rows*/,
                                   const Tensor& /*table*/) const {
  fail(ErrorCode::invalid_argument, "cache: a table of entries, but keys are in pages");
}

template <class Element>
PagedKeys PageStore<Element>::keys_of(const CacheView& view, int64_t layer) const {
  PagedKeys keys{.pages = view.pages,
                 .lengths = view.lengths,
                 .kv_heads = shape().kv_heads,
                 .head_dim = shape().head_dim};
  keys.keys_offset = 2 * layer * layer_elements_;
  keys.values_offset = keys.keys_offset + layer_elements_;
  return keys;
}

template <class Element>
PagedKeys PageStore<Element>::keys_with(Context& context, const CacheView& view, int64_t layer,
                                        const CachePlaces& places, const Tensor& keys,
                                        const Tensor& values) {
  store(context, layer, places, keys, values);
  return keys_of(view, layer);
}

template class PageStore<float>;
template class PageStore<Expression>;

}  // namespace tril::ops
