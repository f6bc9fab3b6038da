#include "tril/device/device.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>

#include "tril/base/error.h"

namespace tril {
namespace {
std::atomic<int64_t> allocations{0};
// Blocks this large start on a huge page and ask for huge pages: fewer TLB misses while streaming.
constexpr int64_t kHugePage = int64_t{2} << 20;
}  // namespace

void* allocate(Device device, int64_t bytes) {
  require(bytes >= 0, ErrorCode::invalid_argument, "allocate: ", bytes, " bytes");
  if (bytes == 0) return nullptr;
  require(bytes <= INT64_MAX - kHugePage, ErrorCode::out_of_memory, "out of memory: ", bytes,
          " bytes on ", device);
  const int64_t alignment = bytes >= kHugePage ? kHugePage : kMemoryAlignment;
  const int64_t padded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(padded));
  require(memory != nullptr, ErrorCode::out_of_memory, "out of memory: ", bytes, " bytes on ",
          to_string(device));
  if (bytes >= kHugePage) madvise(memory, static_cast<size_t>(padded), MADV_HUGEPAGE);
  allocations.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void release(Device, void* memory) { std::free(memory); }

int64_t allocation_count() { return allocations.load(std::memory_order_relaxed); }

}  // namespace tril
