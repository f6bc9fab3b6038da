// The memory of the whole process according to the system.
#pragma once

namespace tril {

// Gives free memory back to the system; from here on peak_resident() starts again, if the system
// allows it (Linux: clear_refs).
void reset_peak_resident();
// The most that was resident, in MiB, pages of mapped files included; 0 if the system does not
// report it (Linux: VmHWM).
double peak_resident();

}  // namespace tril
