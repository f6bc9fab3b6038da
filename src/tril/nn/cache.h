// Cache: the keys and values of sequences being decoded, in pages of 16 positions.
//
// A slot is a sequence. A page holds 16 positions of it for all layers; `fork` shares pages and one
// is copied only when a slot writes into a page that another slot also has, so it costs little and
// never changes a bit. Attention sees logical positions; where they are stored cannot
// matter. The cross-attention keys of encoded sentences are kept in one too: a slot a sentence.
// One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tril/ops/attention.h"

namespace tril {

class Cache {
 public:
  Cache(int64_t layers, int64_t kv_heads, int64_t head_dim);
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
  // stores its keys and values [row, kv_heads * head_dim].
  void extend(std::span<const int32_t> slots, std::span<const int32_t> positions);
  void store(const Parallel& parallel, int64_t layer, std::span<const int32_t> slots,
             std::span<const int32_t> positions, const Tensor& keys, const Tensor& values);
  // What attention reads; the arrays lie in `host`. Slots of -1 have no pages.
  ops::PagedKeys view(Arena& host, int64_t layer, std::span<const int32_t> slots) const;

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
  void drop_page(int32_t id);
  void drop_pages_from(Slot& slot, size_t first);
  void share(const Slot& from, Slot& to);

  int64_t layers_;
  int64_t kv_heads_;
  int64_t head_dim_;
  int64_t layer_floats_;  // of the keys, or of the values, of one layer in a page
  std::vector<Slot> slots_;
  std::vector<Page> pages_;
  std::vector<int32_t> free_;
  std::vector<float*> blocks_;  // what the pages were cut from
};

}  // namespace tril
