// Arena: memory for everything one step makes, given back all at once.
//
// allocate() moves a mark; reset() moves it back to the start. What does not fit into the block is
// taken from the system, and the next reset() merges everything into one block of the size then
// known, so from the third equal step on nothing is allocated and every address repeats.
// A tensor made before a reset(), or of an arena since destroyed, is stale: reading it is an error
// in every build, because the ticket that each tensor carries is then out of date. One arena
// belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tril/device/device.h"
#include "tril/tensor/ticket.h"

namespace tril {

// What a tensor's constructor is given. Nothing else is derived from it: it is the name by which
// tensor.h, a public header, knows an arena.
class TensorMemory {
 private:
  friend class Arena;
  TensorMemory() = default;
};

class Arena : public TensorMemory {
 public:
  explicit Arena(Device device = Device::cpu);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Device device() const { return device_; }
  Ticket ticket() const { return ticket_; }

  // Memory aligned to kMemoryAlignment, not initialised, valid until reset().
  void* allocate(int64_t bytes);
  template <class T>
  T* allocate_array(int64_t count) {
    return static_cast<T*>(allocate_items(count, static_cast<int64_t>(sizeof(T))));
  }

  // Tensors may lie in memory that something else owns (a mapped file): the arena keeps the owner
  // alive as long as itself.
  void keep(std::shared_ptr<const void> owner) { kept_.push_back(std::move(owner)); }

  void reset();

  int64_t used_bytes() const { return used_before_ + mark_; }
  int64_t peak_bytes() const { return peak_; }

  // Scratch memory: what is allocated while a Scope lives is given back when it ends. Tensors made
  // inside must not be used after it.
  class Scope {
   public:
    explicit Scope(Arena& arena)
        : arena_(arena), block_(arena.current_), mark_(arena.mark_), used_(arena.used_before_) {
      ++arena.scopes_;
    }
    ~Scope() {
      --arena_.scopes_;
      if (arena_.holds_ > 0) return;
      arena_.current_ = block_;
      arena_.mark_ = mark_;
      arena_.used_before_ = used_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t block_;
    int64_t mark_;
    int64_t used_;
  };
  bool in_scope() const { return scopes_ > 0; }

  // While a Hold lives, scopes that end give nothing back: for memory that the device may read
  // after the host has left the scope. Must not begin inside a scope.
  class Hold {
   public:
    explicit Hold(Arena& arena) : arena_(arena) { ++arena.holds_; }
    ~Hold() { --arena_.holds_; }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Arena& arena_;
  };

 private:
  struct Block {
    char* memory;
    int64_t bytes;
  };
  void* allocate_items(int64_t count, int64_t bytes_each);
  void free_blocks();

  Device device_;
  Ticket ticket_;
  std::vector<Block> blocks_;
  size_t current_ = 0;       // the block being filled
  int64_t mark_ = 0;         // bytes used in it
  int64_t used_before_ = 0;  // bytes used in the blocks before it
  int64_t peak_ = 0;
  int scopes_ = 0;  // open ones
  int holds_ = 0;
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace tril
