// Cache: the keys and values of sequences being decoded, in pages of positions.
//
// A slot is a sequence. A page holds 16 positions of it for all layers (on CUDA one: an entry);
// `fork` shares pages and one is copied only when a slot writes into a page that another slot also
// has, so it costs little and never changes a bit. Attention sees logical positions; where they are
// stored cannot matter. The cross-attention keys of encoded sentences are kept in one too: a slot a
// sentence. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tril/ops/attention.h"

namespace tril {

// Tables of entries have columns for a multiple of this many positions, so that a step stays the
// same step while its sequences grow.
constexpr int64_t kTableStep = 128;

// Where the rows of one call are to be stored, and where attention finds what they see: made once a
// call, for all layers; valid as long as its step.
struct CachePlaces {
  std::span<const int32_t> slots, positions;  // by row; slot -1: filler
  Mirrored<int32_t> entries{};                // on CUDA
};
struct CacheView {
  std::span<const int32_t> slots{};              // by row; empty where a device has the table
  std::span<const float* const* const> pages{};  // by row
  std::span<const int32_t> lengths{};            // by row: keys stored in its slot
  Mirrored<int32_t> table{};                     // on CUDA: [row, table_stride] entries
  int64_t table_stride = 0;
};

class Cache {
 public:
  Cache(int64_t layers, int64_t kv_heads, int64_t head_dim, const Placement& placement = {});
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  int32_t open();              // an empty sequence
  int32_t fork(int32_t slot);  // a copy of it
  void release(int32_t slot);  // its number may be given out again
  void release_all();
  void truncate(int32_t slot, int32_t length);  // forgets the positions from `length` on

  int64_t layers() const { return layers_; }
  int64_t kv_heads() const { return kv_heads_; }
  int64_t head_dim() const { return head_dim_; }

  bool is_open(int32_t slot) const;
  int32_t length(int32_t slot) const;  // raises for a slot that is not open
  int64_t page_count() const { return static_cast<int64_t>(pages_.size() - free_.size()); }

  // For the model. Makes room at the end of each row's slot for one position a row (rows with slot
  // -1 are skipped), checking that positions follow on from the slot's length; then each layer
  // stores its keys and values [row, kv_heads * head_dim]. The spans live as long as the step.
  void extend(std::span<const int32_t> slots, std::span<const int32_t> positions);
  CachePlaces places(Context& context, std::span<const int32_t> slots,
                     std::span<const int32_t> positions) const;
  void store(Context& context, int64_t layer, const CachePlaces& places, const Tensor& keys,
             const Tensor& values);
  // What attention reads. Slots of -1 have no pages.
  CacheView view(Context& context, std::span<const int32_t> slots) const;
  // The same where a device has the table: i32 [row or more, position or more]. Each row reads its
  // own.
  CacheView view(Context& context, std::span<const int32_t> slots, const Tensor& table) const;
  // Where the positions of a slot are, on CUDA: what such a table is made of.
  std::span<const int32_t> entries(int32_t slot) const { return at(slot).ids; }
  ops::PagedKeys keys_of(const CacheView& view, int64_t layer) const;

 private:
  struct Slot {
    bool open = false;
    int32_t length = 0;
    std::vector<int32_t> ids;          // pages, in order
    std::vector<const float*> memory;  // where they are: what the kernel follows
  };
  struct Page {
    float* memory = nullptr;
    int32_t users = 0;
  };

  Slot& at(int32_t slot);
  const Slot& at(int32_t slot) const;
  int32_t take_page();
  void add_pages();
  void grow_pool();
  int64_t width() const { return kv_heads_ * head_dim_; }  // of one key in all heads
  void drop_page(int32_t id);
  void drop_pages_from(Slot& slot, size_t first);
  void share(const Slot& from, Slot& to);
  std::span<const int32_t> lengths(Context& context, std::span<const int32_t> slots) const;

  int64_t layers_;
  int64_t kv_heads_;
  int64_t head_dim_;
  Placement placement_;
  int32_t page_positions_;
  int64_t layer_floats_;  // of the keys, or of the values, of one layer in a page
  std::vector<Slot> slots_;
  std::vector<bool> seen_;  // by slot, in extend(): false between calls
  std::vector<Page> pages_;
  std::vector<int32_t> free_;
  std::vector<float*> blocks_;  // what the pages were cut from
  // On CUDA all pages are entries of one pool: [entry, layer, keys or values, width].
  void* pool_ = nullptr;
  int64_t pool_entries_ = 0;
};

}  // namespace tril
