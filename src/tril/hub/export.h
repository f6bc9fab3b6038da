// Models leave for Hugging Face's transformers.
//
//   hub::export_model("model", "opus-mt-tuned");
//
// A model that was imported becomes the folder it came from: each tensor with its name and its
// type, all other files byte for byte; a .bin file comes back as safetensors. Weights that have not
// changed have the same bytes; weights that were trained since are rounded to the type that they
// had.
#pragma once

#include <optional>
#include <string>

#include "tril/base/error.h"
#include "tril/base/function.h"
#include "tril/io/stored_type.h"
#include "tril/models/transformer.h"

namespace tril::hub {

struct ExportOptions {
  Overwrite overwrite = Overwrite::no;  // whether a model of transformers may be replaced
  // What weights are written in: f32, f16 or bf16. Absent: each as it was before the import, and
  // fp32 for models that were not imported.
  std::optional<StoredType> type{};
  // Called with one line that the user should know.
  Function<void(const Notice&)> notice{};
};

struct ExportReport {
  std::string family{};
  bool decoder_only = false;
  int64_t tensors = 0;
  int64_t rounded = 0;  // of these, because not all of their numbers fit the type
  int64_t bytes = 0;    // of all weights
};

// Writes the model in `model` to the folder `to`. Raises `unsupported` naming the field for a model
// that none of transformers' families computes, `invalid_argument` where `to` holds a model and may
// not be replaced, and always if that is one of tril's.
ExportReport export_model(const std::string& model, const std::string& to,
                          const ExportOptions& options = {});

}  // namespace tril::hub
