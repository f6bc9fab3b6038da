#include "tril/nn/cache.h"

#include <algorithm>
#include <new>

#include "tril/base/error.h"

namespace tril {
namespace {

size_t blocks_for(int32_t length, int32_t block_positions) {
  return static_cast<size_t>((length + block_positions - 1) / block_positions);
}
}  // namespace

Cache::Cache(int64_t layers, int64_t kv_heads, int64_t head_dim, const Placement& placement)
    : store_(ops::make_key_value_store(
          {.layers = layers, .kv_heads = kv_heads, .head_dim = head_dim}, placement)) {}

Cache::Sequence& Cache::at(int32_t slot) {
  require(is_open(slot), ErrorCode::invalid_argument, "cache: slot ", slot, " is not open");
  return sequences_[static_cast<size_t>(slot)];
}
const Cache::Sequence& Cache::at(int32_t slot) const {
  require(is_open(slot), ErrorCode::invalid_argument, "cache: slot ", slot, " is not open");
  return sequences_[static_cast<size_t>(slot)];
}

bool Cache::is_open(int32_t slot) const {
  return slot >= 0 && static_cast<size_t>(slot) < open_.size() && open_[static_cast<size_t>(slot)];
}

int32_t Cache::length(int32_t slot) const { return at(slot).length; }

int32_t Cache::open() {
  const auto closed = std::find(open_.begin(), open_.end(), false);
  const auto slot = static_cast<int32_t>(closed - open_.begin());
  if (closed == open_.end()) {
    sequences_.resize(open_.size() + 1);
    open_.push_back(true);
  } else {
    *closed = true;
  }
  return slot;
}

// `to` is empty. Blocks are counted only when nothing can fail any more.
void Cache::share(const Sequence& from, Sequence& to) {
  to.blocks.reserve(from.blocks.size());
  to.addresses.reserve(from.addresses.size());
  to = from;
  for (const int32_t block : from.blocks) ++users_[static_cast<size_t>(block)];
}

int32_t Cache::fork(int32_t slot) {
  require(is_open(slot), ErrorCode::invalid_argument, "cache: slot ", slot, " is not open");
  const int32_t copy = open();  // may move the sequences
  try {
    share(at(slot), at(copy));
  } catch (const std::bad_alloc&) {
    release(copy);
    throw;
  }
  return copy;
}

void Cache::release(int32_t slot) {
  Sequence& closing = at(slot);
  drop_blocks_from(closing, 0);
  closing.length = 0;
  open_[static_cast<size_t>(slot)] = false;
}

void Cache::release_all() {
  for (size_t slot = 0; slot < open_.size(); ++slot) {
    if (open_[slot]) release(static_cast<int32_t>(slot));
  }
}

void Cache::truncate(int32_t slot, int32_t length) {
  Sequence& shorter = at(slot);
  require(length >= 0 && length <= shorter.length, ErrorCode::invalid_argument, "cache: slot ",
          slot, " holds ", shorter.length, " positions, it cannot be cut to ", length);
  drop_blocks_from(shorter, blocks_for(length, store_->block_positions()));
  shorter.length = length;
}

int32_t Cache::take_block() {
  if (free_.empty()) {
    const auto before = static_cast<int32_t>(users_.size());
    const auto blocks = static_cast<size_t>(store_->grow());
    free_.reserve(blocks);  // so that dropping blocks never allocates
    users_.resize(blocks);
    for (auto block = static_cast<int32_t>(users_.size()); block > before;)
      free_.push_back(--block);
  }
  const int32_t block = free_.back();
  free_.pop_back();
  users_[static_cast<size_t>(block)] = 1;
  return block;
}

void Cache::drop_block(int32_t block) {
  if (--users_[static_cast<size_t>(block)] == 0) free_.push_back(block);
}

void Cache::drop_blocks_from(Sequence& sequence, size_t first) {
  std::vector<int32_t>& blocks = sequence.blocks;
  for (size_t i = first; i < blocks.size(); ++i) drop_block(blocks[i]);
  blocks.resize(std::min(first, blocks.size()));
  sequence.addresses.resize(blocks.size());
}

// A slot's k-th row must sit at its length plus k.
void Cache::check_follows_on(std::span<const int32_t> slots, std::span<const int32_t> positions) {
  seen_.assign(sequences_.size(), false);
  for (size_t row = 0; row < slots.size(); ++row) {
    if (slots[row] < 0) continue;
    const int32_t length = at(slots[row]).length;
    const bool follows_row = row > 0 && slots[row - 1] == slots[row];
    const auto number = static_cast<size_t>(slots[row]);
    require(follows_row || !seen_[number], ErrorCode::invalid_argument, "cache: the rows of slot ",
            slots[row], " are not side by side");
    seen_[number] = true;
    const int32_t expected = follows_row ? positions[row - 1] + 1 : length;
    require(positions[row] == expected, ErrorCode::invalid_argument, "cache: row ", row,
            " of slot ", slots[row], " is at position ", positions[row], ", the next is ",
            expected);
  }
}

void Cache::append_block(Sequence& sequence) {
  const int32_t block = take_block();
  try {
    sequence.addresses.push_back(store_->address(block));
    sequence.blocks.push_back(block);
  } catch (const std::bad_alloc&) {
    sequence.addresses.resize(sequence.blocks.size());
    drop_block(block);
    throw;
  }
}

void Cache::append_position(Sequence& sequence) {
  const auto index = static_cast<size_t>(sequence.length / store_->block_positions());
  if (index == sequence.blocks.size()) {
    append_block(sequence);
  } else if (const int32_t shared = sequence.blocks[index];
             users_[static_cast<size_t>(shared)] > 1) {
    const int32_t copy = take_block();
    try {
      store_->copy_block(shared, copy);
    } catch (const std::exception&) {
      drop_block(copy);
      throw;
    }
    drop_block(shared);
    sequence.blocks[index] = copy;
    sequence.addresses[index] = store_->address(copy);
  }
  ++sequence.length;
}

void Cache::extend(std::span<const int32_t> slots, std::span<const int32_t> positions) {
  require(slots.size() == positions.size(), ErrorCode::invalid_argument, "cache: ", slots.size(),
          " slots but ", positions.size(), " positions");
  check_follows_on(slots, positions);  // before anything changes
  for (const int32_t slot : slots) {
    if (slot >= 0) append_position(at(slot));
  }
}

ops::StoredRows Cache::rows_of(std::span<const int32_t> slots) const {
  for (const int32_t slot : slots) {
    require(slot < 0 || is_open(slot), ErrorCode::invalid_argument, "cache: slot ", slot,
            " is not open");
  }
  return {sequences_, slots};
}

CachePlaces Cache::places(Context& context, std::span<const int32_t> slots,
                          std::span<const int32_t> positions) const {
  require(positions.size() == slots.size(), ErrorCode::invalid_argument, "cache: ", slots.size(),
          " slots and ", positions.size(), " positions");
  const ops::StoredRows rows = rows_of(slots);
  for (size_t row = 0; row < slots.size(); ++row) {
    require(slots[row] < 0 || (positions[row] >= 0 && positions[row] < rows[row]->length),
            ErrorCode::invalid_argument, "cache: position ", positions[row], " of slot ",
            slots[row], " was not made room for");
  }
  return store_->places(context, rows, positions);
}

void Cache::check_layer(int64_t layer) const {
  require(layer >= 0 && layer < layers(), ErrorCode::invalid_argument, "cache: layer ", layer,
          " of ", layers());
}

void Cache::check_rows(const CachePlaces& places, const Tensor& keys, const Tensor& values) const {
  const int64_t width = store_->shape().width();
  require(keys.size() == places.rows * width && keys.size() == values.size(),
          ErrorCode::shape_mismatch, "cache: keys ", keys.shape(), " for ", places.rows,
          " rows of ", width);
}

void Cache::store(Context& context, int64_t layer, const CachePlaces& places, const Tensor& keys,
                  const Tensor& values) {
  check_rows(places, keys, values);
  check_layer(layer);
  store_->store(context, layer, places, keys, values);
}

CacheView Cache::view(Context& context, std::span<const int32_t> slots) const {
  return store_->view(context, rows_of(slots));
}

CacheView Cache::view(Context& context, std::span<const int32_t> slots, const Tensor& table) const {
  return store_->view(context, rows_of(slots), table);
}

ops::PagedKeys Cache::keys_of(const CacheView& view, int64_t layer) const {
  check_layer(layer);
  return store_->keys_of(view, layer);
}

ops::PagedKeys Cache::keys_with(Context& context, const CacheView& view, int64_t layer,
                                const CachePlaces& places, const Tensor& keys,
                                const Tensor& values) {
  check_rows(places, keys, values);
  check_layer(layer);
  return store_->keys_with(context, view, layer, places, keys, values);
}

}  // namespace tril
