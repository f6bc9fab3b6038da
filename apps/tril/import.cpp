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
  const std::string layers =
      config.decoder_only()
          ? counted(config.decoder_layers, "layer")
          : fmt::format("{} + {} layers", config.encoder_layers, config.decoder_layers);
  fmt::print("{}: {}, {} parameters, {}, {} wide, {} pieces\n", flags.output, report.family,
             grouped(report.parameters), layers, config.model, grouped(config.target_vocab));
  std::string choice;
  if (!report.languages.empty()) {
    constexpr size_t kShown = 8;
    std::string codes = ":";
    for (const std::string& code : report.languages) codes += " " + code;
    if (report.languages.size() > kShown) {
      codes = fmt::format(" ('{} info {}' lists them)", program_name(), flags.output);
    }
    fmt::print("{} languages{}\n", report.languages.size(), codes);
    const auto& [from, to] = report.example;
    if (!from.empty()) choice = fmt::format(" --from-language {}", from);
    choice += fmt::format(" --to-language {}", to);
  }
  fmt::print("try: {} {} {}{}\n", program_name(), config.decoder_only() ? "generate" : "translate",
             flags.output, choice);
}

}  // namespace

void add_import(CLI::App& app) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command =
      app.add_subcommand("import", "Make a model of a Hugging Face transformers folder");
  command
      ->add_option("folder", flags->folder,
                   "A folder with config.json, weights (safetensors or .bin) and tokenizer files")
      ->type_name(kFolder)
      ->required();
  command->add_option("-o,--output", flags->output, "The model folder to write")
      ->type_name(kFolder)
      ->required();
  command->add_flag("--overwrite", flags->overwrite, "Replace the model of tril that is there");
  command->footer(
      "Examples:\n  tril import opus-mt-en-de -o en-de\n  echo 'How are you?' | tril translate "
      "en-de\n\nFamilies: marian (OPUS-MT), pegasus, m2m_100 (NLLB too), bart, mbart, t5 (FLAN and "
      "MADLAD too), mt5, gpt2, llama, mistral. tril downloads nothing: the folder must be there. "
      "Nothing in it is executed: a .bin file is read as data. What the model does not need is "
      "kept, so that 'tril export' gives the "
      "folder back.");
  command->callback([flags] { run(*flags); });
}

}  // namespace tril::app
