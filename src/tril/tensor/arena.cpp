#include "tril/tensor/arena.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "tril/base/error.h"

namespace tril {
namespace {

// The current life of each arena, that is how often it was reset, indexed by the arena's number.
// Static, so that a ticket can be checked after its arena is gone. Numbers are reused; lives only
// grow.
constexpr size_t kMaxArenas = 1 << 16;
std::array<std::atomic<uint32_t>, kMaxArenas> lives;
std::mutex registry_mutex;
std::vector<uint32_t>& free_numbers() {
  // Never destroyed, because arenas of objects with static lifetime may be destroyed later.
  static auto& numbers = *new std::vector<uint32_t>;
  return numbers;
}
uint32_t next_number = 1;  // 0 is the ticket of an undefined tensor

uint32_t take_number() {
  const std::lock_guard lock(registry_mutex);
  if (!free_numbers().empty()) {
    const uint32_t number = free_numbers().back();
    free_numbers().pop_back();
    return number;
  }
  require(next_number < kMaxArenas, ErrorCode::out_of_memory, "more than ", kMaxArenas - 1,
          " arenas at once");
  return next_number++;
}

constexpr int64_t kSmallestBlock = int64_t{1} << 16;
constexpr int64_t kLargest = int64_t{1} << 56;  // below this, no sum of sizes overflows

}  // namespace

bool is_current(Ticket ticket) {
  return ticket.memory < kMaxArenas &&
         lives[ticket.memory].load(std::memory_order_relaxed) == ticket.life;
}

Arena::Arena(Device device) : device_(device) {
  ticket_.memory = take_number();
  ticket_.life = lives[ticket_.memory].fetch_add(1) + 1;
}

Arena::~Arena() {
  lives[ticket_.memory].fetch_add(1);
  free_blocks();
  const std::lock_guard lock(registry_mutex);
  free_numbers().push_back(ticket_.memory);
}

void Arena::free_blocks() {
  for (const Block& block : blocks_) release(device_, block.memory);
  blocks_.clear();
}

void* Arena::allocate(int64_t bytes) {
  require(bytes >= 0, ErrorCode::invalid_argument, "arena: ", bytes, " bytes asked for");
  require(bytes <= kLargest, ErrorCode::out_of_memory, "out of memory: ", bytes, " bytes");
  const int64_t padded = (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  if (padded == 0) return nullptr;
  while (current_ < blocks_.size() && mark_ + padded > blocks_[current_].bytes) {
    used_before_ += mark_;
    mark_ = 0;
    ++current_;
  }
  if (current_ == blocks_.size()) {
    // Growing by at least the current size keeps the number of blocks logarithmic.
    int64_t held = 0;
    for (const Block& block : blocks_) held += block.bytes;
    const int64_t size = std::max({padded, held, kSmallestBlock});
    blocks_.reserve(blocks_.size() + 1);  // first: a block that could not be noted would be lost
    blocks_.push_back({static_cast<char*>(tril::allocate(device_, size)), size});
  }
  void* memory = blocks_[current_].memory + mark_;
  mark_ += padded;
  peak_ = std::max(peak_, used_bytes());
  return memory;
}

void* Arena::allocate_items(int64_t count, int64_t bytes_each) {
  int64_t bytes = 0;
  require(!__builtin_mul_overflow(count, bytes_each, &bytes), ErrorCode::out_of_memory,
          "out of memory: ", count, " items of ", bytes_each, " bytes");
  return allocate(bytes);
}

void Arena::reset() {
  ticket_.life = lives[ticket_.memory].fetch_add(1) + 1;
  current_ = 0;
  mark_ = 0;
  used_before_ = 0;
  if (blocks_.size() > 1) {
    int64_t total = 0;
    for (const Block& block : blocks_) total += block.bytes;
    free_blocks();
    blocks_.push_back({static_cast<char*>(tril::allocate(device_, total)), total});
  }
}

}  // namespace tril
