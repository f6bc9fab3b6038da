// Loads models for inference, for commands that translate, continue, score or evaluate.
#pragma once

#include <optional>
#include <string>

#include "tril/tril.h"

namespace tril::app {

// How the program loads: notices for the user go to stderr.
LoadOptions telling(const std::string& folder, bool trust = false);

// Translator::load_for_inference, or load() for a GPU.
Translator load_translator(const std::string& folder, int threads, std::optional<Device> device,
                           std::optional<Compute> compute = {}, bool trust = false);

}  // namespace tril::app
