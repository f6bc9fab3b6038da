#include "tril/c/handles.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>

#include "tril/c/calls.h"

namespace tril::c {
namespace {

constexpr uint64_t kKindBits = 3;
constexpr size_t kShards = 16;  // so that threads seldom wait for each other

uint64_t number_of(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }
Kind kind_of(uint64_t number) { return static_cast<Kind>(number & ((1U << kKindBits) - 1)); }

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::options: return "set of options";
    case Kind::translator: return "translator";
    case Kind::result: return "result";
    case Kind::pending: return "pending line";
  }
  return {};
}

class Table {
 public:
  uint64_t add(Kind kind, std::shared_ptr<void> object) {
    const uint64_t number =
        (next_.fetch_add(1, std::memory_order_relaxed) << kKindBits) | static_cast<uint64_t>(kind);
    Shard& shard = shard_of(number);
    const std::lock_guard lock(shard.mutex);
    shard.objects.emplace(number, std::move(object));
    return number;
  }
  std::shared_ptr<void> find(uint64_t number) {
    Shard& shard = shard_of(number);
    const std::shared_lock lock(shard.mutex);
    const auto found = shard.objects.find(number);
    return found == shard.objects.end() ? nullptr : found->second;
  }
  std::shared_ptr<void> remove(uint64_t number) {
    Shard& shard = shard_of(number);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.objects.find(number);
    if (found == shard.objects.end()) return nullptr;
    std::shared_ptr<void> object = std::move(found->second);
    shard.objects.erase(found);
    return object;
  }
  int64_t size() {
    int64_t size = 0;
    for (Shard& shard : shards_) {
      const std::shared_lock lock(shard.mutex);
      size += std::ssize(shard.objects);
    }
    return size;
  }
  // Objects are destroyed without a lock: they may wait for threads that look for handles.
  void clear() {
    for (Shard& shard : shards_) {
      std::unordered_map<uint64_t, std::shared_ptr<void>> objects;
      {
        const std::lock_guard lock(shard.mutex);
        objects.swap(shard.objects);
      }
    }
  }
  uint64_t next() const { return next_; }
  // Of a forked process, after its parent's.
  void begin_after(Table* parent) {
    parent_ = parent;
    next_ = parent->next();
  }

 private:
  struct Shard {
    std::shared_mutex mutex;
    std::unordered_map<uint64_t, std::shared_ptr<void>> objects;
  };
  Shard& shard_of(uint64_t number) { return shards_[(number >> kKindBits) % kShards]; }

  std::array<Shard, kShards> shards_;
  Table* parent_ = nullptr;  // kept, so that nothing takes it for a leak
  std::atomic<uint64_t> next_{1};
};

// Never destroyed: threads may call until the process has ended.
std::atomic<Table*>& current() {
  static std::atomic<Table*> table = nullptr;
  return table;
}

// Handles with lower numbers were given before this process was forked.
std::atomic<uint64_t> first_of_process{1};

// In a forked process the threads that held locks and decoded are gone, so its table is a new one.
// The old one is left as it is, since nobody knows in which state.
void begin_child() {
  Table* parent = current();
  auto* table = new (std::nothrow) Table;
  if (table == nullptr) std::abort();
  table->begin_after(parent);
  first_of_process = table->next();
  current() = table;
}

Table& table() {
  static std::once_flag made;
  std::call_once(made, [] {
    current() = new Table;
    ::pthread_atfork(nullptr, nullptr, begin_child);
  });
  return *current().load();
}

}  // namespace

void clear_at_exit() {
  static std::once_flag registered;
  std::call_once(registered, [] { std::atexit([] { table().clear(); }); });
}

int64_t open_handles() { return table().size(); }

void* add_handle(Kind kind, std::shared_ptr<void> object) {
  const auto number = static_cast<uintptr_t>(table().add(kind, std::move(object)));
  return reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr): never an address
}

std::shared_ptr<void> find_handle(const void* handle, Kind kind) {
  const uint64_t number = number_of(handle);
  return kind_of(number) == kind ? table().find(number) : nullptr;
}

std::shared_ptr<void> remove_handle(const void* handle, Kind kind) {
  const uint64_t number = number_of(handle);
  return kind_of(number) == kind ? table().remove(number) : nullptr;
}

void fail_handle(const void* handle, Kind wanted) {
  const std::string_view name = name_of(wanted);
  require_use(handle != nullptr, "the ", name, " is NULL");
  const uint64_t number = number_of(handle);
  const Kind kind = kind_of(number);
  require_use(kind == wanted || table().find(number) == nullptr, "a ", name,
              " is wanted, and this is a ", name_of(kind));
  const bool is_old = kind == wanted && number >> kKindBits < first_of_process;
  fail_use("this is no ", name,
           is_old ? " of this process, which was forked: load in the child" : ": was it freed?");
}

}  // namespace tril::c
