#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "advice.h"
#include "commands.h"
#include "flags.h"
#include "output.h"
#include "tril/tril.h"
#include "units.h"

namespace tril::app {
namespace {

struct ExportFlags {
  std::string model;
  std::string output;
  std::string type;
  bool overwrite = false;
};

std::optional<StoredType> type_named(const std::string& name) {
  if (name == "fp32") return StoredType::f32;
  if (name == "fp16") return StoredType::f16;
  if (name == "bf16") return StoredType::bf16;
  return std::nullopt;
}

void run(const ExportFlags& flags) {
  const hub::ExportReport report = hub::export_model(
      flags.model, flags.output,
      {.overwrite = flags.overwrite ? Overwrite::yes : Overwrite::no,
       .type = type_named(flags.type),
       .notice = [&](const Notice& notice) {
         message(fmt::format("tril: {}\n", with_advice(notice.text, notice.field, flags.model)));
       }});
  fmt::print("{}: {}, {} tensors, {:.1f} MiB\n", flags.output, report.family, report.tensors,
             static_cast<double>(report.bytes) / (1 << 20));
  fmt::print("try: transformers.{}.from_pretrained(\"{}\")\n",
             report.decoder_only ? "AutoModelForCausalLM" : "AutoModelForSeq2SeqLM", flags.output);
}

}  // namespace

void add_export(CLI::App& app) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command =
      app.add_subcommand("export", "Write a model as a Hugging Face transformers folder");
  command->add_option("model", flags->model, "A model folder")->type_name(kFolder)->required();
  command->add_option("-o,--output", flags->output, "The folder to write")
      ->type_name(kFolder)
      ->required();
  command
      ->add_option("--type", flags->type,
                   "What weights are written in; without this, the types they had before the "
                   "import, and fp32 for models that were not imported")
      ->check(among({"fp32", "fp16", "bf16"}))
      ->type_name("fp32|fp16|bf16");
  command->add_flag("--overwrite", flags->overwrite,
                    "Replace the model of transformers that is there");
  command->footer(
      "Examples:\n  tril export en-de -o opus-mt-tuned\n  tril export my-model -o my-model-hf\n\n"
      "An imported model becomes the folder it came from: the same tensors, and all other files "
      "byte for byte. Weights that were trained since are rounded to the types they had, unless "
      "--type says otherwise. Models that tril made become Marian (norms after the sub-layers), "
      "Pegasus (before) or, decoder-only, Llama or Mistral, where their shape allows it.");
  command->callback([flags] { run(*flags); });
}

}  // namespace tril::app
