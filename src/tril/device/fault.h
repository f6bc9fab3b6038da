// Deliberate faults of the card, its driver and its memory, for tests of what happens then. None in
// ordinary use; TRIL_FAULT in the environment asks for one (docs/design/device.md):
//
//   no-driver, old-driver, no-card, old-card   what the driver is taken to say about itself
//   memory@N        the N-th block of device memory, and every later one, is refused
//   lost-device@N   behind the N-th launch a kernel traps, and the driver gives this process's work
//                   up as it does when a card fails: every later call is answered with a fault
#pragma once

#include <cstdint>
#include <string_view>

#include "tril/base/words.h"

namespace tril::cuda {

enum class Fault { none, no_driver, old_driver, no_card, old_card, memory, lost_device };

struct InjectedFault {
  Fault kind = Fault::none;
  int64_t at = 0;  // N, from 1; 0 where there is no number
};

// Raises `invalid_argument` for anything but "" and what is listed above.
InjectedFault fault_from(std::string_view text);
// The environment's, found out once.
const InjectedFault& injected_fault();

}  // namespace tril::cuda

namespace tril {
template <>
struct Words<cuda::Fault> {
  static constexpr std::string_view kList[] = {"",         "no-driver", "old-driver", "no-card",
                                               "old-card", "memory",    "lost-device"};
};
}  // namespace tril
