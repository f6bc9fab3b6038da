// PageStore: keys and values for the kernels of the CPU, in pages of 16 positions.
//
// A page is [layer, keys or values, kv_heads * head_dim * 16] of elements, f32 or expressions: keys
// [kv_heads, head_dim, 16] and values [kv_heads, 16, head_dim], as attention reads a tile of them.
// Attention follows the addresses of a sequence's pages, so pages never move, and memory is freed
// only with the store.
#pragma once

#include "tril/ops/key_value_store.h"

namespace tril::ops {

template <class Element>
class PageStore final : public KeyValueStore {
 public:
  explicit PageStore(const CacheShape& shape);
  ~PageStore() override;

  int64_t grow() override;
  // Whatever the elements are: who reads a page knows them.
  float* address(int32_t block) const override {
    return reinterpret_cast<float*>(pages_[static_cast<size_t>(block)]);
  }
  void copy_block(int32_t from, int32_t to) override;

  CachePlaces places(Context& context, const StoredRows& rows,
                     std::span<const int32_t> positions) const override;
  void store(Context& context, int64_t layer, const CachePlaces& places, const Tensor& keys,
             const Tensor& values) override;

  CacheView view(Context& context, const StoredRows& rows) const override;
  CacheView view(Context& context, const StoredRows& rows, const Tensor& table) const override;
  PagedKeys keys_of(const CacheView& view, int64_t layer) const override;
  PagedKeys keys_with(Context& context, const CacheView& view, int64_t layer,
                      const CachePlaces& places, const Tensor& keys, const Tensor& values) override;

 private:
  int64_t page_elements() const { return 2 * shape().layers * layer_elements_; }

  int64_t layer_elements_;  // of the keys, or of the values, of one layer in a page
  std::vector<Element*> pages_;
  std::vector<Element*> allocated_;  // the memory that pages are parts of
};
extern template class PageStore<float>;
extern template class PageStore<Expression>;

}  // namespace tril::ops
