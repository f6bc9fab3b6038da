#include "loading.h"

#include <fmt/core.h>

#include "flags.h"

namespace tril::app {

Translator load_translator(const std::string& folder, int threads, std::optional<Device> device,
                           std::optional<Compute> compute) {
  const Placement placement = placement_for(device, compute);
  if (placement.device != Device::cpu) return Translator::load(folder, threads, placement);
  return Translator::load_for_inference(folder, threads, compute, [](const std::string& text) {
    fmt::print(stderr, "tril: {}\n", escaped(text));
  });
}

}  // namespace tril::app
