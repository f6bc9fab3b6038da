// Model folders: import and export, packed weights, verification; and the built-in phrasebook.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bind.h"
#include "gil.h"
#include "tril/device/device.h"
#include "tril/hub/export.h"
#include "tril/hub/import.h"
#include "tril/lesson/phrasebook.h"
#include "tril/models/verify.h"
#include "words.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

Overwrite overwriting(bool yes) { return yes ? Overwrite::yes : Overwrite::no; }

// Reports of these calls are dictionaries of plain values.
nb::dict import_model(const std::string& folder, const std::string& to, bool overwrite) {
  std::vector<std::string> notices;
  hub::ImportReport report;
  begin_use();
  {
    const WithoutGil unlocked;
    report = hub::import(folder, to,
                         {.overwrite = overwriting(overwrite),
                          .notice = [&](const Notice& n) { notices.push_back(n.text); }});
  }
  nb::dict result;
  result["family"] = report.family;
  result["parameters"] = report.parameters;
  result["languages"] = report.languages;
  result["unknown_fields"] = report.unknown_fields;
  result["notices"] = notices;
  return result;
}

nb::dict export_model(const std::string& model, const std::string& to,
                      const std::optional<std::string>& type, bool overwrite) {
  std::vector<std::string> notices;
  hub::ExportReport report;
  hub::ExportOptions options{.overwrite = overwriting(overwrite),
                             .notice = [&](const Notice& n) { notices.push_back(n.text); }};
  if (type) {
    const std::pair<std::string_view, StoredType> types[] = {
        {"float32", StoredType::f32}, {"float16", StoredType::f16}, {"bfloat16", StoredType::bf16}};
    for (const auto& [name, each] : types) {
      if (name == *type) options.type = each;
    }
    require(options.type.has_value(), ErrorCode::invalid_argument,
            "dtype: expected float32, float16 or bfloat16, got '", *type, "'");
  }
  begin_use();
  {
    const WithoutGil unlocked;
    report = hub::export_model(model, to, options);
  }
  nb::dict result;
  result["family"] = report.family;
  result["tensors"] = report.tensors;
  result["rounded"] = report.rounded;
  result["bytes"] = report.bytes;
  result["notices"] = notices;
  return result;
}

void quantize(const std::string& folder, const std::string& compute,
              const std::optional<std::string>& to, bool overwrite) {
  const Compute form = from_word<Compute>("compute_type", compute);
  begin_use();
  const WithoutGil unlocked;
  Transformer::save_packed(folder, to.value_or(folder), form, overwriting(overwrite));
}

std::vector<std::tuple<std::string, std::string, std::string>> verify(const std::string& folder) {
  std::vector<VerifiedFile> files;
  {
    const WithoutGil unlocked;
    files = verify_folder(folder);
  }
  std::vector<std::tuple<std::string, std::string, std::string>> result;
  for (const VerifiedFile& file : files) {
    result.emplace_back(file.path, std::string(word_for(file.state)), file.detail);
  }
  return result;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;
Pairs pairs_of(const std::vector<PhrasePair>& phrases) {
  Pairs pairs;
  for (const PhrasePair& phrase : phrases) pairs.emplace_back(phrase.english, phrase.hindi);
  return pairs;
}

}  // namespace

void bind_folders(nb::module_& module) {
  module.def("import_model", &import_model, "folder"_a, "to"_a, "overwrite"_a = false,
             nb::sig("def import_model(folder: str, to: str, overwrite: bool = False) -> dict[str, "
                     "typing.Any]"));
  module.def("export_model", &export_model, "model"_a, "to"_a, "dtype"_a = nb::none(),
             "overwrite"_a = false,
             nb::sig("def export_model(model: str, to: str, dtype: str | None = None, overwrite: "
                     "bool = False) -> dict[str, typing.Any]"));
  module.def("quantize", &quantize, "folder"_a, "compute_type"_a = "int8", "to"_a = nb::none(),
             "overwrite"_a = false);
  module.def("verify", &verify, "folder"_a);
  module.def("is_foreign_folder", &hub::is_foreign_folder, "folder"_a);
  module.def("best_device", [] { return to_string(best_device()); });
  module.def(
      "device_problem", [] { return gpus().problem; }, "Why no GPU can be used; empty: one can.");
  module.def("phrasebook", [] {
    const Phrasebook book = make_phrasebook();
    return std::pair(pairs_of(book.train), pairs_of(book.held_out));
  });
}

}  // namespace tril::python
