#include "loading.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "flags.h"
#include "output.h"

namespace tril::app {

Translator load_translator(const std::string& folder, int threads, std::optional<Device> device,
                           std::optional<Compute> compute) {
  // Packed weights are for the CPU. Where there are no others, it is chosen, unless someone has.
  std::error_code ignored;
  const bool packed_alone = !std::filesystem::exists(folder + "/model.safetensors", ignored);
  if (!device && packed_alone) device = Device::cpu;
  const Placement placement = placement_for(device, compute);
  if (placement.device != Device::cpu) return Translator::load(folder, threads, placement);
  return Translator::load_for_inference(folder, threads, compute, [](const std::string& text) {
    message(fmt::format("tril: {}\n", escaped(text)));
  });
}

}  // namespace tril::app
