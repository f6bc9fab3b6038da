// Models that only infer, for commands that translate, continue, score or evaluate.
#pragma once

#include <optional>
#include <string>

#include "tril/tril.h"

namespace tril::app {

// Translator::load_for_inference; what it has to say beside the result goes to stderr.
Translator load_translator(const std::string& folder, int threads, std::optional<Device> device,
                           std::optional<Compute> compute = {});

}  // namespace tril::app
