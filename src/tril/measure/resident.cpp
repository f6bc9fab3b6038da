#include "tril/measure/resident.h"

#include <fstream>
#include <string>

namespace tril {

void reset_peak_resident() {
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
