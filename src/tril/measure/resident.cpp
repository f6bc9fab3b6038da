#include "tril/measure/resident.h"

#include <fstream>
#include <string>

#if defined(__GLIBC__)  // defined once a standard header is included
#include <malloc.h>
#endif

namespace tril {

void reset_peak_resident() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
  constexpr const char* kResetPeak = "5";  // proc(5)
  std::ofstream("/proc/self/clear_refs") << kResetPeak;
}

double peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kibibytes = 0.0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes / 1024.0;
  }
  return 0.0;
}

}  // namespace tril
