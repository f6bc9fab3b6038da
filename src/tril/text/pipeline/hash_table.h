// A hash table of 64-bit keys and 32-bit values with open addressing: made once, then only read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tril::pipeline {

class HashTable {
 public:
  static constexpr int32_t kNone = -1;

  // Keys must not be all ones; a key that is there already keeps its first value.
  void add(uint64_t key, int32_t value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key)];
    if (slot.key == key) return;
    slot = {key, value};
    ++size_;
  }
  // The key must be there.
  void replace(uint64_t key, int32_t value) { slots_[place_of(key)].value = value; }
  int32_t find(uint64_t key) const {
    if (slots_.empty()) return kNone;
    const Slot& slot = slots_[place_of(key)];
    return slot.key == key ? slot.value : kNone;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t key = kFree;
    int32_t value = kNone;
  };

  // Where the key is, or the free slot where it would be.
  size_t place_of(uint64_t key) const {
    uint64_t mixed = key * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 32;
    size_t place = mixed & (slots_.size() - 1);
    while (slots_[place].key != key && slots_[place].key != kFree) {
      place = (place + 1) & (slots_.size() - 1);
    }
    return place;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kFree) slots_[place_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  size_t size_ = 0;
};

}  // namespace tril::pipeline
