// The memory of the whole process as the system counts it, for the measurements.
#pragma once

namespace tril {

// Gives free memory back to the system; from here on peak_resident() counts anew, where the system
// allows it (Linux: clear_refs).
void reset_peak_resident();
// The most that was resident, in MiB, pages of mapped files included; 0 where the system does not
// tell (Linux: VmHWM).
double peak_resident();

}  // namespace tril
