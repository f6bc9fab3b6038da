// Cache: the keys and values of sequences being decoded.
//
// A slot is a sequence, whose positions lie in blocks; `fork` shares them, and one is copied only
// when a slot writes into a block that another slot also has, so it costs little and never changes
// a bit. Attention sees logical positions: where they are stored cannot matter. The blocks' memory
// belongs to a store for the device (ops/key_value_store.h). The cross-attention keys of encoded
// sentences are kept in a cache too: one slot per sentence. One thread at a time.
//
// release() and truncate() allocate nothing. If memory runs out elsewhere, nothing is lost: what
// was taken is released with the slots.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tril/ops/key_value_store.h"

namespace tril {

using ops::CachePlaces;
using ops::CacheView;

class Cache {
 public:
  Cache(int64_t layers, int64_t kv_heads, int64_t head_dim, const Placement& placement = {});

  int32_t open();              // an empty sequence
  int32_t fork(int32_t slot);  // a copy of it
  void release(int32_t slot);  // its number may be reused
  void release_all();
  void truncate(int32_t slot, int32_t length);  // forgets the positions from `length` on

  int64_t layers() const { return store_->shape().layers; }
  int64_t kv_heads() const { return store_->shape().kv_heads; }
  int64_t head_dim() const { return store_->shape().head_dim; }

  bool is_open(int32_t slot) const;
  int32_t length(int32_t slot) const;  // raises for a slot that is not open
  // The number in use.
  int64_t block_count() const { return static_cast<int64_t>(users_.size() - free_.size()); }

  // For the model. Makes room at the end of each row's slot for one position per row (rows with
  // slot -1 are skipped), checking that positions follow on from the slot's length; then each layer
  // stores its keys and values [row, kv_heads * head_dim]. The spans live as long as the step.
  void extend(std::span<const int32_t> slots, std::span<const int32_t> positions);
  CachePlaces places(Context& context, std::span<const int32_t> slots,
                     std::span<const int32_t> positions) const;
  void store(Context& context, int64_t layer, const CachePlaces& places, const Tensor& keys,
             const Tensor& values);
  // What attention reads. Slots of -1 have no keys.
  CacheView view(Context& context, std::span<const int32_t> slots) const;
  // The same if the table exists on a device: i32 [row or more, position or more]. Each row reads
  // its own.
  CacheView view(Context& context, std::span<const int32_t> slots, const Tensor& table) const;
  // The entries of a slot's positions, for such a table.
  std::span<const int32_t> entries(int32_t slot) const { return at(slot).blocks; }
  // A view in one layer, all of whose keys were stored before; or with those of the rows
  // themselves, [row, kv_heads, head_dim], which are stored before they are read.
  ops::PagedKeys keys_of(const CacheView& view, int64_t layer) const;
  ops::PagedKeys keys_with(Context& context, const CacheView& view, int64_t layer,
                           const CachePlaces& places, const Tensor& keys, const Tensor& values);

 private:
  using Sequence = ops::StoredSequence;

  Sequence& at(int32_t slot);
  const Sequence& at(int32_t slot) const;
  int32_t take_block();
  void drop_block(int32_t block);
  void drop_blocks_from(Sequence& sequence, size_t first);
  void share(const Sequence& from, Sequence& to);
  void append_block(Sequence& sequence);
  void append_position(Sequence& sequence);
  void check_follows_on(std::span<const int32_t> slots, std::span<const int32_t> positions);
  void check_layer(int64_t layer) const;
  void check_rows(const CachePlaces& places, const Tensor& keys, const Tensor& values) const;
  ops::StoredRows rows_of(std::span<const int32_t> slots) const;

  std::unique_ptr<ops::KeyValueStore> store_;
  std::vector<Sequence> sequences_;  // by slot
  std::vector<bool> open_;           // by slot
  std::vector<bool> seen_;           // by slot, in extend(): false between calls
  std::vector<int32_t> users_;       // by block
  std::vector<int32_t> free_;        // blocks, the next one last
};

}  // namespace tril
