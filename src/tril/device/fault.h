// Deliberate faults of the GPU, its driver and its memory, for tests of the consequences. None in
// ordinary use; TRIL_FAULT in the environment requests one (docs/design/device.md):
//
//   no-driver, old-driver, no-gpu, old-gpu   simulates what the driver reports
//   memory@N        the N-th block of device memory, and every later one, is refused
//   lost-device@N   after the N-th launch a kernel traps, and the driver fails every later call of
//                   this process, as it does when a GPU fails
#pragma once

#include <cstdint>
#include <string_view>

#include "tril/base/words.h"

namespace tril::cuda {

enum class Fault { none, no_driver, old_driver, no_gpu, old_gpu, memory, lost_device };

struct InjectedFault {
  Fault kind = Fault::none;
  int64_t at = 0;  // N, from 1; 0 where there is no number
};

// Raises `invalid_argument` for anything but "" and what is listed above.
InjectedFault fault_from(std::string_view text);
// The one of the environment, read once.
const InjectedFault& injected_fault();

}  // namespace tril::cuda

namespace tril {
template <>
struct Words<cuda::Fault> {
  static constexpr std::string_view kList[] = {"",        "no-driver", "old-driver", "no-gpu",
                                               "old-gpu", "memory",    "lost-device"};
};
}  // namespace tril
