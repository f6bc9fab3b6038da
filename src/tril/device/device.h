// Devices and their memory: the CPU, and one CUDA card. Everything above names a device and asks
// here; no layer above ops/ chooses kernels by it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tril/base/words.h"

namespace tril {

enum class Device : uint8_t { cpu, cuda };

template <>
struct Words<Device> {
  static constexpr std::string_view kList[] = {"cpu", "cuda"};
};
constexpr std::string_view to_string(Device device) {
  return device == Device::cpu ? "cpu" : "cuda";
}

// The CUDA card of this machine, or why there is none to use.
struct CudaCard {
  bool usable = false;
  std::string problem;  // one line: not built in, no driver, driver too old, card too old
  std::string name;
  int capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int driver = 0;  // 13000 for CUDA 13.0
  // Whether the instructions of 9.0a (wgmma, bulk copies) are used: false below 9.0, and where
  // TRIL_CUDA_PORTABLE=1 in the environment turns them off.
  bool hopper = false;
};
// Found out once; later calls are cheap.
const CudaCard& cuda_card();
// cuda where there is a usable card, else cpu.
Device best_device();
// Raises `device` with the card's problem where this device cannot be used.
void check_usable(Device device);

// Memory aligned to kMemoryAlignment bytes, not initialised. Raises `out_of_memory` with the number
// of bytes requested. allocate(device, 0) returns a null pointer.
constexpr int64_t kMemoryAlignment = 64;
void* allocate(Device device, int64_t bytes);
void release(Device device, void* memory);
// Between any two devices; waits until it is done, and for everything enqueued before it.
void copy(Device to_device, void* to, Device from_device, const void* from, int64_t bytes);

// Zero bytes; waits likewise.
void fill_zero(Device device, void* memory, int64_t bytes);

// How often allocate() went to the system in this process: tests use it to check that a warm step
// allocates nothing.
int64_t allocation_count();

}  // namespace tril
