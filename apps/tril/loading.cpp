#include "loading.h"

#include <fmt/core.h>

#include "flags.h"
#include "output.h"

namespace tril::app {

LoadOptions telling(bool trust) {
  LoadOptions options;
  options.notice = [](const std::string& text) {
    message(fmt::format("tril: {}\n", escaped(text)));
  };
  options.trust = trust;
  return options;
}

Translator load_translator(const std::string& folder, int threads, std::optional<Device> device,
                           std::optional<Compute> compute, bool trust) {
  // Packed weights are for the CPU. Where there are no others, it is chosen, unless someone has.
  const bool packed_alone = !file_exists(path_in(folder, kWeightsFile));
  if (!device && packed_alone) device = Device::cpu;
  const Placement placement = placement_for(device, compute);
  if (placement.device != Device::cpu) {
    return Translator::load(folder, threads, placement, telling(trust));
  }
  return Translator::load_for_inference(folder, threads, compute, telling(trust));
}

}  // namespace tril::app
