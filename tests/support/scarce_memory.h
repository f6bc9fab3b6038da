// Makes allocations of a thread fail. It replaces operator new; weakly, because the tests for a GPU
// are linked into one program, of which several sources include it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace tril::testing {

inline thread_local int64_t allocations_left = -1;  // -1: any number

// While it lives, this thread can allocate so many times.
class ScarceMemory {
 public:
  explicit ScarceMemory(int64_t allocations) { allocations_left = allocations; }
  ~ScarceMemory() { allocations_left = -1; }
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  bool was_enough() const { return allocations_left > 0; }
};

}  // namespace tril::testing

// Not inlined: the compiler would take malloc() and operator delete for a mismatch.
[[gnu::noinline, gnu::weak]] void* operator new(size_t size,
                                                const std::nothrow_t& /*tag*/) noexcept {
  int64_t& left = tril::testing::allocations_left;
  if (left == 0) return nullptr;
  if (left > 0) --left;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline, gnu::weak]] void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline, gnu::weak]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline, gnu::weak]] void operator delete(void* memory, size_t /*size*/) noexcept {
  std::free(memory);
}
