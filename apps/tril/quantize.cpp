#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

namespace fs = std::filesystem;

struct QuantizeFlags {
  std::string model;
  std::string output;  // empty: beside the model
  Compute to = Compute::int8;
  bool overwrite = false;
};

std::string mebibytes(const std::string& file) {
  return fmt::format("{:.1f} MiB", static_cast<double>(file_bytes(file)) / (1 << 20));
}

// The command that uses the packed weights; --compute names the form where a folder has more than
// one.
std::string use_of(const std::string& folder, Compute compute, bool decoder_only) {
  bool others = file_exists(path_in(folder, kWeightsFile));
  for (const std::string_view word : Words<Compute>::kList) {
    if (word == word_for(compute)) continue;
    others = others || file_exists(path_in(folder, fmt::format("packed.{}.safetensors", word)));
  }
  return fmt::format("{} {} {}{}", program_name(), decoder_only ? "generate" : "translate", folder,
                     others ? fmt::format(" --compute {}", word_for(compute)) : "");
}

void run(const QuantizeFlags& flags) {
  std::error_code none;
  require(flags.output.empty() || !fs::equivalent(flags.model, flags.output, none),
          ErrorCode::invalid_argument, "-o ", flags.output,
          ": is the model's own folder; without -o the packed weights go there");
  const std::string folder = flags.output.empty() ? flags.model : flags.output;
  Transformer::save_packed(flags.model, folder, flags.to,
                           flags.overwrite ? Overwrite::yes : Overwrite::no);
  const std::string packed = path_in(folder, packed_file_name(flags.to));
  fmt::print("{}  {} (was {})\n", packed, mebibytes(packed),
             mebibytes(path_in(flags.model, kWeightsFile)));
  const std::string config_file = folder + "/config.json";
  const TransformerConfig config = config_from_json(read_file(config_file, 1 << 20), config_file);
  if (is_supported(flags.to)) {
    fmt::print("try: {}\n", use_of(folder, flags.to, config.decoder_only()));
  } else {
    fmt::print("for another machine: this processor has no bf16 dot products\n");
  }
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* quantize =
      app.add_subcommand("quantize", "Make a smaller, faster copy of a model's weights");
  quantize->add_option("model", flags->model, "A model folder")->type_name(kFolder)->required();
  quantize
      ->add_option("--to", flags->to,
                   "int8: a quarter of the memory; bf16: half; bf16-dot: half, for processors that "
                   "multiply bf16; fp32: as they are, only packed")
      ->transform(one_of({"fp32", "bf16", "int8", "bf16-dot"}))
      ->type_name("fp32|bf16|int8|bf16-dot")
      ->required();
  quantize
      ->add_option("-o,--output", flags->output,
                   "Write a folder of its own, with tokenizer, configuration and shortlist; "
                   "without this, the "
                   "packed weights are written beside the model")
      ->type_name(kFolder);
  quantize->add_flag(
      "--overwrite", flags->overwrite,
      "With -o: replace the packed weights of another model that are there, and what "
      "is beside them");
  quantize->footer(
      "Examples:\n  tril quantize my-model --to int8\n  tril translate my-model --compute "
      "int8 < text.en\n  tril quantize my-model --to int8 -o my-small-model\n\nThe weights "
      "are written in the order the processor reads them and mapped from disk. Results are "
      "the same bits as with --compute alone. A folder with other weights in it, or a "
      "training, is never written to.");
  quantize->callback([flags] { run(*flags); });
}

}  // namespace tril::app
