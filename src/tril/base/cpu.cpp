#include "tril/base/cpu.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "hwy/targets.h"
#include "tril/base/error.h"

namespace tril {
namespace {

struct Known {
  Target target;
  std::string_view name;
  int64_t highway;
};
constexpr Known kKnown[] = {
    {Target::avx512_vnni, "avx512_vnni", HWY_AVX3},
    {Target::avx512, "avx512", HWY_AVX3},
    {Target::avx2, "avx2", HWY_AVX2},
    {Target::neon, "neon", HWY_NEON},
};

// The targets of the machine, before any was chosen.
int64_t machine_targets() {
  static const int64_t targets = hwy::SupportedTargets();
  return targets;
}

bool has(const Known& known) {
  if ((machine_targets() & known.highway) == 0) return false;
#if defined(__x86_64__)
  if (known.target == Target::avx512_vnni) return __builtin_cpu_supports("avx512vnni") != 0;
#endif
  return true;
}

std::string names(const std::vector<Target>& targets) {
  std::string list;
  for (const Target target : targets) list += concat(list.empty() ? "" : ", ", to_string(target));
  return list;
}

std::mutex mutex;
std::atomic<bool> chosen{false};
std::atomic<Target> current{};

void choose(Target target) {
  for (const Known& known : kKnown) {
    if (known.target == target) hwy::SetSupportedTargetsForTest(known.highway);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  current.store(target, std::memory_order_relaxed);
  chosen.store(true, std::memory_order_release);
}

}  // namespace

std::string_view to_string(Target target) {
  for (const Known& known : kKnown) {
    if (known.target == target) return known.name;
  }
  return "unknown";
}

std::vector<Target> available_targets() {
  std::vector<Target> targets;
  for (const Known& known : kKnown) {
    if (has(known)) targets.push_back(known.target);
  }
  require(!targets.empty(), ErrorCode::unsupported,
          "this processor has neither AVX2 with FMA nor NEON: tril needs fused multiply-add");
  return targets;
}

Target current_target() {
  if (chosen.load(std::memory_order_acquire)) return current.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex);
  if (chosen.load()) return current.load();
  const std::vector<Target> targets = available_targets();
  Target target = targets.front();
  if (const char* wish = std::getenv("TRIL_TARGET"); wish != nullptr && *wish != '\0') {
    bool found = false;
    for (const Target available : targets) {
      if (to_string(available) == wish) {
        target = available;
        found = true;
      }
    }
    require(found, ErrorCode::invalid_argument, "TRIL_TARGET: '", wish,
            "' is not a target of this machine, which has: ", names(targets));
  }
  choose(target);
  return target;
}

void use_target(Target target) {
  const std::vector<Target> targets = available_targets();
  const std::lock_guard lock(mutex);
  for (const Target available : targets) {
    if (available == target) return choose(target);
  }
  fail(ErrorCode::unsupported, "target ", to_string(target),
       " is not on this machine, which has: ", names(targets));
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos && colon + 2 <= line.size()) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

}  // namespace tril
