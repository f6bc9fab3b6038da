// KeyValueStore: the memory behind a cache (nn/cache.h), in blocks of positions for all layers.
//
// The cache counts the users of a block and lists the blocks of each sequence. A store owns their
// memory, knows the layout of keys and values in it, and gives attention what it reads. There are
// two: pages, for CPU kernels (page_store.h), and entries, for CUDA (entry_store.h). Blocks are
// numbered from 0. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tril/ops/attention.h"

namespace tril::ops {

// Tables of entries have columns for a multiple of this many positions, so that the same CUDA graph
// can be used while sequences grow.
constexpr int64_t kTableStep = 128;

struct CacheShape {
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;

  int64_t width() const { return kv_heads * head_dim; }  // of one key in all heads
};

// One sequence: its blocks in order, each with its address (KeyValueStore::address()).
struct StoredSequence {
  int32_t length = 0;
  std::vector<int32_t> blocks{};
  std::vector<float*> addresses{};
};
// The sequences of the rows of one call, by row; a slot of -1 is padding and has none.
struct StoredRows {
  std::span<const StoredSequence> sequences{};  // by slot
  std::span<const int32_t> slots{};             // by row

  int64_t size() const { return static_cast<int64_t>(slots.size()); }
  // Null for padding.
  const StoredSequence* operator[](size_t row) const {
    return slots[row] < 0 ? nullptr : &sequences[static_cast<size_t>(slots[row])];
  }
  // By row: the number of keys of its sequence, 0 for padding. Valid until the step ends.
  std::span<const int32_t> lengths(Context& context) const;
};

// Where the rows of one call are to be stored, and where attention finds what they see: made once
// per call, for all layers; valid until the step ends.
struct CachePlaces {
  int64_t rows = 0;
  std::span<float* const> pages{};       // pages: by row, null for padding
  std::span<const int32_t> positions{};  // pages: by row
  Mirrored<int32_t> entries{};           // entries: by row, -1 for padding
};
struct CacheView {
  std::span<const int32_t> slots{};  // by row; empty if the table exists on a device only
  std::span<const float* const* const> pages{};  // pages: by row
  std::span<const int32_t> lengths{};            // by row: keys stored in its sequence
  Mirrored<int32_t> table{};                     // entries: [row, table_stride]
  int64_t table_stride = 0;
};

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  KeyValueStore(const KeyValueStore&) = delete;
  KeyValueStore& operator=(const KeyValueStore&) = delete;

  const CacheShape& shape() const { return shape_; }
  int32_t block_positions() const { return block_positions_; }

  // Allocates more blocks; existing ones keep their numbers and contents. Returns the new number of
  // blocks.
  virtual int64_t grow() = 0;
  // The address of a block for CPU kernels; null if they read none. It never moves.
  virtual float* address(int32_t block) const = 0;
  // For blocks with several positions.
  virtual void copy_block(int32_t from, int32_t to) = 0;

  // Row r is position positions[r] of its sequence, which has a block for it.
  virtual CachePlaces places(Context& context, const StoredRows& rows,
                             std::span<const int32_t> positions) const = 0;
  // Stores keys and values [row, kv_heads * head_dim] in their places in a layer.
  virtual void store(Context& context, int64_t layer, const CachePlaces& places, const Tensor& keys,
                     const Tensor& values) = 0;

  // What the rows see. A store whose tables may exist on a device only takes one, i32 [row or more,
  // position or more], of which each row reads its own; others raise.
  virtual CacheView view(Context& context, const StoredRows& rows) const = 0;
  virtual CacheView view(Context& context, const StoredRows& rows, const Tensor& table) const = 0;
  // The arguments of attention for a view in a layer, all of whose keys were stored before.
  virtual PagedKeys keys_of(const CacheView& view, int64_t layer) const = 0;
  // The same, with keys and values [row, kv_heads, head_dim] of the rows themselves, which are
  // stored before anything is read: now, or by attention.
  virtual PagedKeys keys_with(Context& context, const CacheView& view, int64_t layer,
                              const CachePlaces& places, const Tensor& keys,
                              const Tensor& values) = 0;

 protected:
  KeyValueStore(const CacheShape& shape, int32_t block_positions)
      : shape_(shape), block_positions_(block_positions) {}

 private:
  CacheShape shape_;
  int32_t block_positions_;
};

// The store whose memory the kernels of this placement read.
std::unique_ptr<KeyValueStore> make_key_value_store(const CacheShape& shape,
                                                    const Placement& placement);

}  // namespace tril::ops
