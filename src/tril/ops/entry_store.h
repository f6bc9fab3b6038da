// EntryStore: keys and values for the kernels of a GPU, one position per entry of one pool.
//
// The pool is [entry, layer, keys or values, kv_heads * head_dim], of the type of activations.
// Attention finds entries through a table of their numbers. Since an entry is one position, none is
// ever copied: sequences share it for good. The pool moves when it grows, which waits for
// everything enqueued.
#pragma once

#include "tril/ops/key_value_store.h"

namespace tril::ops {

class EntryStore final : public KeyValueStore {
 public:
  EntryStore(const CacheShape& shape, const Placement& placement)
      : KeyValueStore(shape, 1), placement_(placement) {}
  ~EntryStore() override;

  int64_t grow() override;
  float* address(int32_t /*block*/) const override { return nullptr; }
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
  int64_t entry_stride() const { return 2 * shape().layers * shape().width(); }  // in elements
  int64_t element_bytes() const { return size_of(placement_.activations); }
  // The address of the first entry, in a layer.
  char* first_key(int64_t layer) const {
    return static_cast<char*>(pool_) + 2 * layer * shape().width() * element_bytes();
  }
  char* first_value(int64_t layer) const {
    return first_key(layer) + shape().width() * element_bytes();
  }

  Placement placement_;
  void* pool_ = nullptr;
  int64_t entries_ = 0;
};

}  // namespace tril::ops
