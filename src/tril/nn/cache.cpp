#include "tril/nn/cache.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/device/device.h"
#include "tril/kernels/attention.h"

namespace tril {
namespace {
constexpr auto kBad = ErrorCode::invalid_argument;
constexpr int64_t kMaxPagesPerBlock = 16;  // what is asked for ahead is memory too
constexpr auto kPositions = static_cast<int32_t>(kernels::kKeyTile);

size_t pages_for(int32_t length) {
  return static_cast<size_t>((length + kPositions - 1) / kPositions);
}
}  // namespace

Cache::Cache(int64_t layers, int64_t kv_heads, int64_t head_dim)
    : layers_(layers),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      layer_floats_(kv_heads * head_dim * kernels::kKeyTile) {}

Cache::~Cache() {
  for (float* block : blocks_) tril::release(Device::cpu, block);
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
  drop_pages_from(shorter, pages_for(length));
  shorter.length = length;
}

int32_t Cache::take_page() {
  if (free_.empty()) {
    // As many as there are: small caches stay small, large ones ask rarely.
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
  for (size_t row = 0; row < slots.size(); ++row) {
    if (slots[row] < 0) continue;
    const bool follows_row = row > 0 && slots[row - 1] == slots[row];
    if (!follows_row) {
      for (size_t before = 0; before + 1 < row; ++before) {
        require(slots[before] != slots[row], kBad, "cache: the rows of slot ", slots[row],
                " are not side by side");
      }
    }
    const int32_t expected = follows_row ? positions[row - 1] + 1 : at(slots[row]).length;
    require(positions[row] == expected, kBad, "cache: row ", row, " of slot ", slots[row],
            " is at position ", positions[row], ", the next is ", expected);
  }
  for (const int32_t number : slots) {
    if (number < 0) continue;
    Slot& slot = at(number);
    const size_t page = static_cast<size_t>(slot.length / kPositions);
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

void Cache::store(const Parallel& parallel, int64_t layer, std::span<const int32_t> slots,
                  std::span<const int32_t> positions, const Tensor& keys, const Tensor& values) {
  const int64_t width = kv_heads_ * head_dim_;
  require(keys.size() == static_cast<int64_t>(slots.size()) * width && keys.size() == values.size(),
          ErrorCode::shape_mismatch, "cache: keys ", keys.shape(), " for ", slots.size(),
          " rows of ", width);
  require(layer >= 0 && layer < layers_ && positions.size() == slots.size(), kBad, "cache: layer ",
          layer, " of ", layers_, " with ", slots.size(), " slots and ", positions.size(),
          " positions");
  for (size_t row = 0; row < slots.size(); ++row) {
    require(slots[row] < 0 || (positions[row] >= 0 && positions[row] < at(slots[row]).length), kBad,
            "cache: position ", positions[row], " of slot ", slots[row], " was not made room for");
  }
  const float* k = keys.data();
  const float* v = values.data();
  parallel(static_cast<int64_t>(slots.size()), [&](int64_t row) {
    const auto r = static_cast<size_t>(row);
    if (slots[r] < 0) return;
    const Slot& slot = slots_[static_cast<size_t>(slots[r])];
    const int32_t id = slot.ids[static_cast<size_t>(positions[r] / kPositions)];
    float* page = pages_[static_cast<size_t>(id)].memory + 2 * layer * layer_floats_;
    kernels::store_key_value(k + row * width, v + row * width, kv_heads_, head_dim_,
                             positions[r] % kPositions, page, page + layer_floats_);
  });
}

ops::PagedKeys Cache::view(Arena& host, int64_t layer, std::span<const int32_t> slots) const {
  require(layer >= 0 && layer < layers_, kBad, "cache: layer ", layer, " of ", layers_);
  const auto rows = static_cast<int64_t>(slots.size());
  auto* pages = host.allocate_array<const float* const*>(rows);
  auto* lengths = host.allocate_array<int32_t>(rows);
  for (size_t row = 0; row < slots.size(); ++row) {
    const bool used = slots[row] >= 0;
    pages[row] = used ? at(slots[row]).memory.data() : nullptr;
    lengths[row] = used ? at(slots[row]).length : 0;
  }
  return {.pages = {pages, slots.size()},
          .lengths = {lengths, slots.size()},
          .kv_heads = kv_heads_,
          .head_dim = head_dim_,
          .keys_offset = 2 * layer * layer_floats_,
          .values_offset = (2 * layer + 1) * layer_floats_};
}

}  // namespace tril
