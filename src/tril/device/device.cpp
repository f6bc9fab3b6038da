#include "tril/device/device.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tril/base/error.h"
#include "tril/device/cuda.h"

namespace tril {
namespace {
std::atomic<int64_t> allocations{0};
// Blocks this large start on a huge page and request huge pages: fewer TLB misses while streaming.
constexpr int64_t kHugePage = int64_t{2} << 20;
}  // namespace

const CudaCard& cuda_card() {
  static const CudaCard card = cuda::find_card(cuda::injected_fault());
  return card;
}

Device best_device() { return cuda_card().usable ? Device::cuda : Device::cpu; }

void check_usable(Device device) {
  if (device == Device::cuda) {
    require(cuda_card().usable, ErrorCode::device, Field{"device"}, cuda_card().problem);
  }
}

void* allocate(Device device, int64_t bytes) {
  require(bytes >= 0, ErrorCode::invalid_argument, "allocate: ", bytes, " bytes");
  if (bytes == 0) return nullptr;
  if (device == Device::cuda) {
    void* memory = cuda::allocate(bytes);
    allocations.fetch_add(1, std::memory_order_relaxed);
    return memory;
  }
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

void release(Device device, void* memory) {
  if (device == Device::cpu) {
    std::free(memory);
  } else if (memory != nullptr) {
    cuda::release(memory);
  }
}

void copy(Device to_device, void* to, Device from_device, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  if (to_device == Device::cpu && from_device == Device::cpu) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else {
    cuda::copy_and_wait(to, from, bytes);
  }
}

void fill_zero(Device device, void* memory, int64_t bytes) {
  if (bytes == 0) return;
  if (device == Device::cpu) {
    std::memset(memory, 0, static_cast<size_t>(bytes));
  } else {
    cuda::zero_and_wait(memory, bytes);
  }
}

int64_t allocation_count() { return allocations.load(std::memory_order_relaxed); }

}  // namespace tril
