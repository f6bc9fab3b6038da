// Devices and their memory. The CPU is the only one so far; everything above names a device and
// asks here, so a second one comes in without touching the layers above ops/.
#pragma once

#include <cstdint>
#include <string_view>

namespace tril {

enum class Device : uint8_t { cpu };

constexpr std::string_view to_string(Device device) {
  return device == Device::cpu ? "cpu" : "unknown";
}

// Memory aligned to kMemoryAlignment bytes, not initialised. Raises `out_of_memory` with the number
// of bytes asked for. allocate(device, 0) gives a null pointer.
constexpr int64_t kMemoryAlignment = 64;
void* allocate(Device device, int64_t bytes);
void release(Device device, void* memory);

// How often allocate() went to the system in this process: what "a warm step allocates nothing"
// is counted with.
int64_t allocation_count();

}  // namespace tril
