#include "loading.h"

#include <fmt/core.h>

#include "advice.h"
#include "flags.h"
#include "output.h"
#include "terminal.h"
#include "tril/io/atomic_file.h"
#include "tril/text/display.h"

namespace tril::app {

LoadOptions telling(const std::string& folder, bool trust) {
  LoadOptions options;
  options.notice = [folder](const Notice& notice) {
    message(error_line(escaped(with_advice(notice.text, notice.field, folder))));
  };
  options.trust = trust;
  return options;
}

LoadOptions to_study(const std::string& folder, Device device) {
  LoadOptions options = telling(folder);
  options.device = device;
  options.purpose = Purpose::study;
  return options;
}

Translator load_translator(const std::string& folder, int threads, std::optional<Device> device,
                           std::optional<Compute> compute, bool trust) {
  // Packed weights are for the CPU, so the CPU is chosen where there are no others, unless a device
  // was given.
  const bool packed_alone = !file_exists(path_in(folder, kWeightsFile));
  if (!device && packed_alone) device = Device::cpu;
  LoadOptions options = telling(folder, trust);
  options.device = placement_for(device, compute).device;
  options.compute = compute;
  return Translator::load(folder, options, threads);
}

}  // namespace tril::app
