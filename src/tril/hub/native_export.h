// Models that tril made, as folders of a family of transformers. Internal to hub/.
//
// An encoder–decoder with norms after its sub-layers becomes a Marian, one with norms before them a
// Pegasus, a decoder-only model a Llama, or a Mistral if it has a window. Some features of tril's
// have no counterpart there; then the error names the field.
#pragma once

#include <string>
#include <vector>

#include "tril/decode/generation.h"
#include "tril/hub/family.h"
#include "tril/hub/kept.h"
#include "tril/text/tokenizer.h"

namespace tril::hub {

struct NativeExport {
  // As if it had been imported: names and shapes of the tensors, and the files.
  Kept kept;
  const Family* family = nullptr;
  std::vector<TensorMap> maps{};
  // Where each of their features is among ours: Marian's sinusoids are laid out in halves.
  std::vector<int64_t> features{};
};

// Raises `unsupported`; `model` is for errors.
NativeExport native_export(const TransformerConfig& config, const GenerationSettings& settings,
                           const Tokenizer& tokenizer, const std::string& model);

}  // namespace tril::hub
