#include "tril/device/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "tril/base/error.h"
#include "tril/device/cuda.h"

namespace tril {
namespace {
std::atomic<int64_t> allocations{0};
// Blocks this large start on a huge page and request huge pages: fewer TLB misses while streaming.
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr std::string_view kCuda = "cuda";
}  // namespace

std::string to_string(Device device) {
  if (!on_gpu(device)) return "cpu";
  return device.index == 0 ? std::string(kCuda) : concat(kCuda, ":", device.index);
}

std::optional<Device> device_from(std::string_view text) {
  if (text == "cpu") return Device::cpu;
  if (!text.starts_with(kCuda)) return {};
  text.remove_prefix(kCuda.size());
  if (text.empty()) return Device::cuda();
  if (text.front() != ':') return {};
  text.remove_prefix(1);
  // Only digits, without leading zeros: a device has one name.
  if (text.empty() || text.front() < '0' || text.front() > '9') return {};
  if (text.front() == '0' && text.size() > 1) return {};
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return Device::cuda(index);
}

const Gpus& gpus() {
  static const Gpus found = cuda::find_gpus(cuda::injected_fault());
  return found;
}

std::string problem_with(Device device, const Gpus& found) {
  if (!on_gpu(device)) return "";
  const auto count = std::ssize(found.list);
  if (count == 0) return found.problem;
  if (device.index >= 0 && device.index < count) {
    return found.list[static_cast<size_t>(device.index)].problem;
  }
  const std::string there =
      count == 1 ? "1 GPU (cuda:0)" : concat(count, " GPUs (cuda:0 to cuda:", count - 1, ")");
  return concat(kCuda, ":", device.index, ": this machine has ", there);
}

void check_usable(Device device) {
  if (!on_gpu(device)) return;
  const std::string problem = problem_with(device, gpus());
  if (problem.empty()) return;
  // If only the number is wrong, another GPU can be used instead of the CPU.
  const bool no_such_gpu = !gpus().list.empty() && device.index >= std::ssize(gpus().list);
  require(!no_such_gpu, ErrorCode::device, problem);
  fail(ErrorCode::device, Field{"device"}, problem);
}

const Gpu& gpu_at(Device device) {
  require(on_gpu(device), ErrorCode::internal, "gpu_at: ", device, " is no GPU");
  const std::vector<Gpu>& list = gpus().list;
  const bool there = device.index >= 0 && device.index < std::ssize(list);
  if (!there || !list[static_cast<size_t>(device.index)].problem.empty()) check_usable(device);
  return list[static_cast<size_t>(device.index)];
}

Device best_device() {
  const std::vector<Gpu>& list = gpus().list;
  const auto usable =
      std::find_if(list.begin(), list.end(), [](const Gpu& gpu) { return gpu.problem.empty(); });
  return usable == list.end() ? Device::cpu : Device::cuda(static_cast<int>(usable - list.begin()));
}

void* allocate(Device device, int64_t bytes) {
  require(bytes >= 0, ErrorCode::invalid_argument, "allocate: ", bytes, " bytes");
  if (bytes == 0) return nullptr;
  if (on_gpu(device)) {
    void* memory = cuda::allocate(device.index, bytes);
    allocations.fetch_add(1, std::memory_order_relaxed);
    return memory;
  }
  require(bytes <= INT64_MAX - kHugePage, ErrorCode::out_of_memory, "out of memory: ", bytes,
          " bytes on ", device);
  const int64_t alignment = bytes >= kHugePage ? kHugePage : kMemoryAlignment;
  const int64_t padded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(padded));
  require(memory != nullptr, ErrorCode::out_of_memory, "out of memory: ", bytes, " bytes on ",
          device);
  if (bytes >= kHugePage) madvise(memory, static_cast<size_t>(padded), MADV_HUGEPAGE);
  allocations.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void release(Device device, void* memory) {
  if (!on_gpu(device)) {
    std::free(memory);
  } else if (memory != nullptr) {
    cuda::release(device.index, memory);
  }
}

void copy(Device to_device, void* to, Device from_device, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  if (!on_gpu(to_device) && !on_gpu(from_device)) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else {
    const int to_gpu = on_gpu(to_device) ? to_device.index : from_device.index;
    const int from_gpu = on_gpu(from_device) ? from_device.index : to_gpu;
    cuda::copy_and_wait(to_gpu, to, from_gpu, from, bytes);
  }
}

void fill_zero(Device device, void* memory, int64_t bytes) {
  if (bytes == 0) return;
  if (!on_gpu(device)) {
    std::memset(memory, 0, static_cast<size_t>(bytes));
  } else {
    cuda::zero_and_wait(device.index, memory, bytes);
  }
}

int64_t allocation_count() { return allocations.load(std::memory_order_relaxed); }

}  // namespace tril
