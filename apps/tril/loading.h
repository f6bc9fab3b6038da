// Loads models for inference, for commands that translate, continue, score or evaluate.
#pragma once

#include <optional>
#include <string>

#include "tril/tril.h"

namespace tril::app {

// How the program loads: notices for the user go to stderr.
LoadOptions telling(const std::string& folder, bool trust = false);
// The same for commands that show the weights as they were learnt, or gradients.
LoadOptions to_study(const std::string& folder, Device device = Device::cpu);

// For inference, on the device and in the format that were asked for, or the best there are.
Translator load_translator(const std::string& folder, int threads, std::optional<Device> device,
                           std::optional<Compute> compute = {}, bool trust = false);

}  // namespace tril::app
