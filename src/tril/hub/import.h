// Models of Hugging Face's transformers become model folders.
//
//   hub::import("opus-mt-en-de", "model");
//   const Translator translator = Translator::load("model");
//
// A folder holds config.json, weights in one of the forms of io/foreign/foreign_tensors.h, and the
// files of its tokenizer. Nothing in it is trusted or executed; every fault is one Error that names
// file and field. The families are listed in docs/design/hub.md.
#pragma once

#include <string>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/function.h"
#include "tril/models/config.h"
#include "tril/models/transformer.h"
#include "tril/text/tokenizer.h"

namespace tril::hub {

struct ImportOptions {
  Overwrite overwrite = Overwrite::no;  // whether a model in the new folder may be replaced
  // Called with one line that the user should know.
  Function<void(const Notice&)> notice{};
};

struct ImportReport {
  std::string family{};
  TransformerConfig config{};
  int64_t parameters = 0;
  std::vector<std::string> unknown_fields{};  // of config.json, which were ignored
  std::vector<std::string> languages{};       // codes; empty for a model of one direction
  LanguagePair example{};                     // of these, with all that must be named
};

// Whether the folder's config.json is one of transformers, not one of ours.
bool is_foreign_folder(const std::string& folder);

// The model in `folder`, without its tokenizer.
Transformer read_model(const std::string& folder, const ImportOptions& options = {},
                       ImportReport* report = nullptr);

// Writes the model in `folder` to `to`. Raises `unsupported` naming the field or the family for
// what tril does not compute, `bad_format` for files that contradict each other, `invalid_argument`
// where `to` holds a model and may not be replaced, and always if it is a folder of transformers.
ImportReport import(const std::string& folder, const std::string& to,
                    const ImportOptions& options = {});

}  // namespace tril::hub
