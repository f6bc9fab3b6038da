#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "advice.h"
#include "commands.h"
#include "output.h"
#include "tril/tril.h"
#include "units.h"

namespace tril::app {
namespace {

struct ImportFlags {
  std::string folder;
  std::string output;
  bool overwrite = false;
};

void run(const ImportFlags& flags) {
  const hub::ImportReport report = hub::import(
      flags.folder, flags.output,
      {.overwrite = flags.overwrite ? Overwrite::yes : Overwrite::no,
       .notice = [](const Notice& notice) { message(fmt::format("tril: {}\n", notice.text)); }});
  const TransformerConfig& config = report.config;
  fmt::print("{}: {}, {} parameters, {} + {} layers, {} wide, {} pieces\n", flags.output,
             report.family, grouped(report.parameters), config.encoder_layers,
             config.decoder_layers, config.model, grouped(config.target_vocab));
  fmt::print("try: {} translate {}\n", program_name(), flags.output);
}

}  // namespace

void add_import(CLI::App& app) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* import =
      app.add_subcommand("import", "Make a model of a Hugging Face transformers folder");
  import
      ->add_option("folder", flags->folder,
                   "A folder with config.json, weights (safetensors or .bin) and tokenizer files")
      ->required();
  import->add_option("-o,--output", flags->output, "The model folder to write")->required();
  import->add_flag("--overwrite", flags->overwrite, "Replace the model that is there");
  import->footer(
      "Examples:\n  tril import opus-mt-en-de -o en-de\n  echo 'How are you?' | tril translate "
      "en-de\n\nFamilies: marian (OPUS-MT), pegasus, m2m_100 (NLLB too), bart, mbart. Nothing in "
      "the folder is executed: a .bin file is read as data.");
  import->callback([flags] { run(*flags);
});
}  // namespace tril::app

}  // namespace tril::app
