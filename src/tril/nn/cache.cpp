#include "tril/nn/cache.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/device/device.h"
#include "tril/kernels/attention.h"
#include "tril/ops/key_values.h"

namespace tril {
namespace {
constexpr auto kBad = ErrorCode::invalid_argument;
constexpr int64_t kMaxPagesPerBlock = 16;  // what is asked for ahead is memory too
constexpr int64_t kFirstEntries = 4096;    // of a pool on CUDA

size_t pages_for(int32_t length, int32_t page_positions) {
  return static_cast<size_t>((length + page_positions - 1) / page_positions);
}

template <class T>
std::span<T> array(Arena& arena, int64_t count) {
  return {arena.allocate_array<T>(count), static_cast<size_t>(count)};
}
}  // namespace

Cache::Cache(int64_t layers, int64_t kv_heads, int64_t head_dim, const Placement& placement)
    : layers_(layers),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      placement_(placement),
      page_positions_(placement.device == Device::cpu ? kernels::kKeyTile : 1),
      layer_floats_(kv_heads * head_dim * kernels::kKeyTile) {}

Cache::~Cache() {
  for (float* block : blocks_) tril::release(Device::cpu, block);
  tril::release(placement_.device, pool_);
}

Cache::Slot& Cache::at(int32_t slot) {
  require(is_open(slot), kBad, "cache: slot ", slot, " is not open");
  return slots_[static_cast<size_t>(slot)];
}
const Cache::Slot& Cache::at(int32_t slot) const {
  require(is_open(slot), kBad, "cache: slot ", slot, " is not open");
  return slots_[static_cast<size_t>(slot)];
}

bool Cache::is_open(int32_t slot) const {
  return slot >= 0 && static_cast<size_t>(slot) < slots_.size() &&
         slots_[static_cast<size_t>(slot)].open;
}

int32_t Cache::length(int32_t slot) const { return at(slot).length; }

int32_t Cache::open() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].open) {
      slots_[slot].open = true;
      return static_cast<int32_t>(slot);
    }
  }
  slots_.emplace_back().open = true;
  return static_cast<int32_t>(slots_.size() - 1);
}

void Cache::share(const Slot& from, Slot& to) {
  for (const int32_t id : from.ids) ++pages_[static_cast<size_t>(id)].users;
  drop_pages_from(to, 0);
  to.ids = from.ids;
  to.memory = from.memory;
  to.length = from.length;
}

int32_t Cache::fork(int32_t slot) {
  require(is_open(slot), kBad, "cache: slot ", slot, " is not open");
  const int32_t copy = open();  // may move the slots
  share(at(slot), at(copy));
  return copy;
}

void Cache::release(int32_t slot) {
  Slot& closing = at(slot);
  drop_pages_from(closing, 0);
  closing.length = 0;
  closing.open = false;
}

void Cache::release_all() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].open) release(static_cast<int32_t>(slot));
  }
}

void Cache::truncate(int32_t slot, int32_t length) {
  Slot& shorter = at(slot);
  require(length >= 0 && length <= shorter.length, kBad, "cache: slot ", slot, " holds ",
          shorter.length, " positions, it cannot be cut to ", length);
  drop_pages_from(shorter, pages_for(length, page_positions_));
  shorter.length = length;
}

// As many pages as there are: small caches stay small, large ones ask rarely.
void Cache::add_pages() {
  const int64_t count =
      std::clamp<int64_t>(static_cast<int64_t>(pages_.size()), 1, kMaxPagesPerBlock);
  const int64_t page_floats = 2 * layers_ * layer_floats_;
  auto* block = static_cast<float*>(
      tril::allocate(Device::cpu, count * page_floats * int64_t{sizeof(float)}));
  // Lanes past a sequence's end are multiplied and then masked: they must hold something.
  std::fill_n(block, count * page_floats, 0.0f);
  blocks_.push_back(block);
  for (int64_t i = count - 1; i >= 0; --i) {
    free_.push_back(static_cast<int32_t>(pages_.size()) + static_cast<int32_t>(i));
  }
  for (int64_t i = 0; i < count; ++i) pages_.push_back({block + i * page_floats, 0});
}

// Entries keep their numbers.
void Cache::grow_pool() {
  const int64_t entries = std::max(kFirstEntries, 2 * pool_entries_);
  const int64_t entry_bytes = 2 * layers_ * width() * size_of(placement_.activations);
  void* pool = tril::allocate(placement_.device, entries * entry_bytes);
  try {
    // Waits for all that was enqueued: a step that is under way writes into the old one.
    tril::copy(placement_.device, pool, placement_.device, pool_, pool_entries_ * entry_bytes);
  } catch (...) {
    tril::release(placement_.device, pool);
    throw;
  }
  tril::release(placement_.device, pool_);
  for (int64_t entry = entries - 1; entry >= pool_entries_; --entry) {
    free_.push_back(static_cast<int32_t>(entry));
  }
  pages_.resize(static_cast<size_t>(entries));
  pool_ = pool;
  pool_entries_ = entries;
}

int32_t Cache::take_page() {
  if (free_.empty()) {
    if (placement_.device == Device::cpu) {
      add_pages();
    } else {
      grow_pool();
    }
  }
  const int32_t id = free_.back();
  free_.pop_back();
  pages_[static_cast<size_t>(id)].users = 1;
  return id;
}

void Cache::drop_page(int32_t id) {
  if (--pages_[static_cast<size_t>(id)].users == 0) free_.push_back(id);
}

void Cache::drop_pages_from(Slot& slot, size_t first) {
  for (size_t i = first; i < slot.ids.size(); ++i) drop_page(slot.ids[i]);
  slot.ids.resize(std::min(first, slot.ids.size()));
  slot.memory.resize(slot.ids.size());
}

void Cache::extend(std::span<const int32_t> slots, std::span<const int32_t> positions) {
  require(slots.size() == positions.size(), kBad, "cache: ", slots.size(), " slots but ",
          positions.size(), " positions");
  // Checked before anything changes: a slot's k-th row must sit at its length plus k.
  seen_.assign(slots_.size(), false);
  for (size_t row = 0; row < slots.size(); ++row) {
    if (slots[row] < 0) continue;
    const int32_t length = at(slots[row]).length;
    const bool follows_row = row > 0 && slots[row - 1] == slots[row];
    const auto number = static_cast<size_t>(slots[row]);
    require(follows_row || !seen_[number], kBad, "cache: the rows of slot ", slots[row],
            " are not side by side");
    seen_[number] = true;
    const int32_t expected = follows_row ? positions[row - 1] + 1 : length;
    require(positions[row] == expected, kBad, "cache: row ", row, " of slot ", slots[row],
            " is at position ", positions[row], ", the next is ", expected);
  }
  for (const int32_t number : slots) {
    if (number < 0) continue;
    Slot& slot = at(number);
    const size_t page = static_cast<size_t>(slot.length / page_positions_);
    if (page == slot.ids.size()) {
      slot.ids.push_back(take_page());
      slot.memory.push_back(pages_[static_cast<size_t>(slot.ids.back())].memory);
    } else if (pages_[static_cast<size_t>(slot.ids[page])].users > 1) {
      const int32_t copy = take_page();
      const float* from = slot.memory[page];
      float* to = pages_[static_cast<size_t>(copy)].memory;
      std::copy_n(from, 2 * layers_ * layer_floats_, to);
      drop_page(slot.ids[page]);
      slot.ids[page] = copy;
      slot.memory[page] = to;
    }
    ++slot.length;
  }
}

CachePlaces Cache::places(Context& context, std::span<const int32_t> slots,
                          std::span<const int32_t> positions) const {
  require(positions.size() == slots.size(), kBad, "cache: ", slots.size(), " slots and ",
          positions.size(), " positions");
  for (size_t row = 0; row < slots.size(); ++row) {
    require(slots[row] < 0 || (positions[row] >= 0 && positions[row] < at(slots[row]).length), kBad,
            "cache: position ", positions[row], " of slot ", slots[row], " was not made room for");
  }
  CachePlaces places{slots, positions};
  if (placement_.device == Device::cpu) return places;
  const std::span<int32_t> entries =
      array<int32_t>(context.host, static_cast<int64_t>(slots.size()));
  for (size_t row = 0; row < slots.size(); ++row) {
    entries[row] = slots[row] < 0 ? -1 : at(slots[row]).ids[static_cast<size_t>(positions[row])];
  }
  places.entries = {entries, context.uploaded(std::span<const int32_t>(entries))};
  return places;
}

void Cache::store(Context& context, int64_t layer, const CachePlaces& places, const Tensor& keys,
                  const Tensor& values) {
  require(keys.size() == static_cast<int64_t>(places.slots.size()) * width() &&
              keys.size() == values.size(),
          ErrorCode::shape_mismatch, "cache: keys ", keys.shape(), " for ", places.slots.size(),
          " rows of ", width());
  require(layer >= 0 && layer < layers_, kBad, "cache: layer ", layer, " of ", layers_);
  if (placement_.device != Device::cpu) {
    auto* first = static_cast<char*>(pool_) + 2 * layer * width() * size_of(placement_.activations);
    ops::store_key_values(
        context, keys, values, places.entries,
        {first, first + width() * size_of(placement_.activations), 2 * layers_ * width()});
    return;
  }
  const float* k = keys.data();
  const float* v = values.data();
  context.parallel(static_cast<int64_t>(places.slots.size()), [&](int64_t row) {
    const auto r = static_cast<size_t>(row);
    if (places.slots[r] < 0) return;
    const Slot& slot = slots_[static_cast<size_t>(places.slots[r])];
    const int32_t position = places.positions[r];
    const int32_t id = slot.ids[static_cast<size_t>(position / page_positions_)];
    float* page = pages_[static_cast<size_t>(id)].memory + 2 * layer * layer_floats_;
    kernels::store_key_value(k + row * width(), v + row * width(), kv_heads_, head_dim_,
                             position % page_positions_, page, page + layer_floats_);
  });
}

std::span<const int32_t> Cache::lengths(Context& context, std::span<const int32_t> slots) const {
  const std::span<int32_t> result =
      array<int32_t>(context.host, static_cast<int64_t>(slots.size()));
  for (size_t row = 0; row < slots.size(); ++row) {
    result[row] = slots[row] >= 0 ? at(slots[row]).length : 0;
  }
  return result;
}

CacheView Cache::view(Context& context, std::span<const int32_t> slots, const Tensor& table) const {
  require(table.rows() >= static_cast<int64_t>(slots.size()), ErrorCode::shape_mismatch,
          "cache: a table ", table.shape(), " for ", slots.size(), " rows");
  return {.lengths = lengths(context, slots),
          .table = {{}, table.on_device<int32_t>()},
          .table_stride = table.columns()};
}

CacheView Cache::view(Context& context, std::span<const int32_t> slots) const {
  const auto rows = static_cast<int64_t>(slots.size());
  CacheView view{.slots = slots, .lengths = lengths(context, slots)};
  if (placement_.device == Device::cpu) {
    const auto pages = array<const float* const*>(context.host, rows);
    for (size_t row = 0; row < slots.size(); ++row) {
      pages[row] = slots[row] >= 0 ? at(slots[row]).memory.data() : nullptr;
    }
    view.pages = pages;
    return view;
  }
  for (const int32_t length : view.lengths) {
    view.table_stride = std::max<int64_t>(view.table_stride, length);
  }
  view.table_stride = (view.table_stride + kTableStep - 1) / kTableStep * kTableStep;
  const std::span<int32_t> table = array<int32_t>(context.host, rows * view.table_stride);
  for (size_t row = 0; row < slots.size(); ++row) {
    int32_t* to = table.data() + static_cast<int64_t>(row) * view.table_stride;
    int32_t* end = to;
    if (slots[row] >= 0) {
      const std::vector<int32_t>& entries = at(slots[row]).ids;
      end = std::copy(entries.begin(), entries.end(), to);
    }
    std::fill(end, to + view.table_stride, 0);
  }
  view.table = {table, context.uploaded(std::span<const int32_t>(table))};
  return view;
}

ops::PagedKeys Cache::keys_of(const CacheView& view, int64_t layer) const {
  require(layer >= 0 && layer < layers_, kBad, "cache: layer ", layer, " of ", layers_);
  ops::PagedKeys keys{
      .pages = view.pages, .lengths = view.lengths, .kv_heads = kv_heads_, .head_dim = head_dim_};
  if (placement_.device == Device::cpu) {
    keys.keys_offset = 2 * layer * layer_floats_;
    keys.values_offset = keys.keys_offset + layer_floats_;
    return keys;
  }
  const auto* first =
      static_cast<const char*>(pool_) + 2 * layer * width() * size_of(placement_.activations);
  keys.keys = first;
  keys.values = first + width() * size_of(placement_.activations);
  keys.entry_stride = 2 * layers_ * width();
  keys.sequences = view.slots;
  keys.table = view.table;
  keys.table_stride = view.table_stride;
  return keys;
}

}  // namespace tril
