// Devices and their memory: the CPU, and the machine's GPUs. Everything above passes a device on to
// here; no layer above ops/ chooses kernels by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

enum class DeviceType : uint8_t { cpu, cuda };

// Where memory is and work is done. GPUs are counted from 0, in the order in which CUDA lists them;
// the CPU is one device, whatever its number of sockets.
struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  static const Device cpu;
  static constexpr Device cuda(int index = 0) { return {DeviceType::cuda, index}; }
  // The index of the CPU means nothing.
  constexpr bool operator==(const Device& other) const {
    return type == other.type && (type == DeviceType::cpu || index == other.index);
  }
};
inline constexpr Device Device::cpu{};
// How the folders up to ops/ tell the two kinds apart.
constexpr bool on_gpu(Device device) { return device.type == DeviceType::cuda; }

// "cpu", "cuda" for the first GPU, "cuda:1" for the second.
std::string to_string(Device device);
// Reads these, and "cuda:0". Nothing for anything else.
std::optional<Device> device_from(std::string_view text);

// A GPU of this machine.
struct Gpu {
  std::string problem{};  // why it cannot be used, one line; empty: it can
  std::string name{};
  int capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  // Whether the instructions of 9.0a (wgmma, bulk copies) are used: false below 9.0, and where
  // TRIL_CUDA_PORTABLE=1 in the environment turns them off.
  bool hopper = false;
};
// The GPUs that CUDA finds on this machine.
struct Gpus {
  // Why none can be used, one line: not built in, no driver, driver too old, no GPU, only GPUs that
  // are too old. Empty: at least one can.
  std::string problem{};
  int driver = 0;           // 13000 for CUDA 13.0; 0: none
  std::vector<Gpu> list{};  // by index
};
// Determined once; later calls are cheap.
const Gpus& gpus();
// Why a device cannot be used on a machine with these GPUs, in one line; empty: it can.
std::string problem_with(Device device, const Gpus& found);

// Raises `device` with the problem if this device cannot be used.
void check_usable(Device device);
// The properties of a GPU. Raises as check_usable() does, and `internal` for the CPU.
const Gpu& gpu_at(Device device);
// The first usable GPU, else the CPU.
Device best_device();

// Memory aligned to kMemoryAlignment bytes, not initialised. Raises `out_of_memory` with the number
// of bytes requested. allocate(device, 0) returns a null pointer.
constexpr int64_t kMemoryAlignment = 64;
void* allocate(Device device, int64_t bytes);
void release(Device device, void* memory);
// Between any two devices; waits until it is done, and for everything enqueued on them before it.
void copy(Device to_device, void* to, Device from_device, const void* from, int64_t bytes);

// Zero bytes; waits likewise.
void fill_zero(Device device, void* memory, int64_t bytes);

// How often allocate() went to the system in this process: tests use it to check that a warm step
// allocates nothing.
int64_t allocation_count();

}  // namespace tril
