#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "loading.h"
#include "output_files.h"
#include "terminal.h"
#include "tril/serve/http_server.h"
#include "tril/tril.h"
#include "units.h"

namespace tril::app {
namespace {

using Json = nlohmann::ordered_json;

struct InfoFlags {
  std::string folder;
  std::string svg;
  bool json = false;
  bool tensors = false;
};

// What cannot be used, and why, without the word that other messages begin with.
std::string without_prefix(const std::string& problem) {
  constexpr std::string_view kPrefix = "cuda: ";
  return problem.substr(problem.starts_with(kPrefix) ? kPrefix.size() : 0);
}

std::string capability_of(const Gpu& gpu) {
  return fmt::format("{}.{}", gpu.capability / 10, gpu.capability % 10);
}

Json json_of(const Gpu& gpu, size_t index) {
  return {{"device", fmt::format("cuda:{}", index)},  {"name", gpu.name},
          {"compute_capability", capability_of(gpu)}, {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.memory_bytes},         {"problem", without_prefix(gpu.problem)}};
}

std::string text_of(const Gpu& gpu, size_t index) {
  if (!gpu.problem.empty()) return fmt::format("cuda:{}: {}", index, without_prefix(gpu.problem));
  return fmt::format("cuda:{}: {}, compute capability {}, {} multiprocessors, {:.0f} GiB, {}",
                     index, gpu.name, capability_of(gpu), gpu.multiprocessors,
                     static_cast<double>(gpu.memory_bytes) / (1 << 30),
                     gpu.hopper ? "with the instructions of 9.0a" : "without those of 9.0a");
}

Json dimensions_of(const ConstTensor& tensor) {
  Json dimensions = Json::array();
  for (int axis = 0; axis < tensor.shape().rank(); ++axis) {
    dimensions.push_back(tensor.shape()[axis]);
  }
  return dimensions;
}

void show_machine(const InfoFlags& flags) {
  const Target target = current_target();  // may raise, as the next line: before any output
  const Gpus& found = gpus();
  if (flags.json) {
    Json targets = Json::array();
    for (const Target other : available_targets()) targets.push_back(to_string(other));
    Json list = Json::array();
    for (size_t i = 0; i < found.list.size(); ++i) list.push_back(json_of(found.list[i], i));
    const Json machine = {{"processor", cpu_name()},
                          {"threads", Parallel().threads()},
                          {"target", to_string(target)},
                          {"targets", targets},
                          {"gpus", list},
                          {"gpu_problem", without_prefix(found.problem)},
                          {"serve_problem", serve::problem_of_http()}};
    fmt::print("{}\n", machine.dump(2));
    return;
  }
  std::string targets;
  for (const Target other : available_targets()) targets += concat(" ", to_string(other));
  Table table = {{"processor", cpu_name()},
                 {"threads", std::to_string(Parallel().threads())},
                 {"target", concat(to_string(target), " (of", targets, "; TRIL_TARGET chooses)")}};
  if (!found.problem.empty()) {
    table.push_back({"GPU", concat("none to use: ", without_prefix(found.problem))});
  } else {
    for (size_t i = 0; i < found.list.size(); ++i) {
      table.push_back({i == 0 ? "GPU" : "", text_of(found.list[i], i)});
    }
  }
  const std::string_view serve_problem = serve::problem_of_http();
  table.push_back(
      {"serve", serve_problem.empty() ? "there" : concat("not there: ", serve_problem)});
  print_table(table, Align::left, "");
}

// Describes a model in a line or two.
std::string summary_of(const Transformer& model, bool packed) {
  const TransformerConfig& c = model.config();
  const std::string layers =
      c.decoder_only() ? counted(c.decoder_layers, "layer")
                       : fmt::format("{} + {} layers", c.encoder_layers, c.decoder_layers);
  return fmt::format(
      "{}, {} of {}, {} wide, feed-forward {}, {}, {}{}",
      c.decoder_only() ? "decoder-only" : "encoder–decoder", layers, counted(c.heads, "head"),
      c.model, c.feed_forward, counted(c.target_vocab, "token"),
      counted(model.parameter_count(), "parameter"),
      packed ? fmt::format(", packed in {}: for inference on the CPU", word_for(model.compute()))
             : "");
}

GenerationSettings settings_in(const std::string& folder, const TransformerConfig& config) {
  const std::string file = path_in(folder, kGenerationFile);
  if (!file_exists(file)) return {};
  GenerationSettings settings =
      generation_from_json(read_model_file(folder, kGenerationFile), file);
  check_tokens(settings, config.target_vocab, file);
  return settings;
}

// The codes of a model's languages, and those it uses where none are named.
struct Languages {
  std::vector<std::string> codes;
  LanguagePair usual;
};
Languages languages_in(const std::string& folder, const GenerationSettings& settings) {
  Languages found;
  const std::string file = path_in(folder, kTokenizerFile);
  if (file_exists(file)) {
    const Tokenizer tokenizer =
        Tokenizer::from_bytes(read_model_file(folder, kTokenizerFile), file);
    for (const Language& language : tokenizer.languages()) found.codes.push_back(language.code);
    found.usual = tokenizer.default_languages();
  }
  if (!settings.from_language.empty()) found.usual.from = settings.from_language;
  if (!settings.to_language.empty()) found.usual.to = settings.to_language;
  return found;
}

// In columns that fit the terminal.
void print_codes(const std::vector<std::string>& codes) {
  size_t widest = 0;
  for (const std::string& code : codes) widest = std::max(widest, code.size());
  const size_t width = widest + 2;
  const size_t in_line = std::max<size_t>(1, (static_cast<size_t>(columns()) - 2) / width);
  for (size_t i = 0; i < codes.size(); ++i) {
    const bool last = i + 1 == codes.size() || (i + 1) % in_line == 0;
    fmt::print("{}{}", i % in_line == 0 ? "  " : "",
               last ? codes[i] + "\n" : pad_right(codes[i], int64_t(width)));
  }
}

void print_languages(const Languages& languages) {
  const LanguagePair& usual = languages.usual;
  if (languages.codes.empty()) {
    if (usual.from.empty() && usual.to.empty()) return;
    fmt::print("\nlanguages: from {} to {}\n", usual.from.empty() ? "?" : usual.from,
               usual.to.empty() ? "?" : usual.to);
    return;
  }
  fmt::print("\n{}, for --from-language and --to-language:\n",
             counted(static_cast<int64_t>(languages.codes.size()), "language"));
  print_codes(languages.codes);
  if (!usual.from.empty()) fmt::print("by default from {}\n", usual.from);
  if (!usual.to.empty()) fmt::print("by default to {}\n", usual.to);
}

void show_model(const InfoFlags& flags) {
  const std::string& folder = flags.folder;
  check_output("--svg", flags.svg, {}, folder);
  const bool packed =
      !file_exists(path_in(folder, kWeightsFile)) && file_exists(path_in(folder, kConfigFile));
  const Transformer model = Transformer::load(folder, packed ? telling(folder) : to_study(folder));
  const GenerationSettings settings = settings_in(folder, model.config());
  const Languages languages = languages_in(folder, settings);
  if (!flags.svg.empty()) write_file_atomically(flags.svg, draw_architecture(model.config()));
  if (flags.json) {
    Json document = {
        {"summary", summary_of(model, packed)},
        {"parameters", model.parameter_count()},
        {"compute", word_for(model.compute())},
        {"seal", model.seal().identity},
        {"config", Json::parse(to_json(model.config()))},
        {"generation", Json::parse(to_json(settings))},
        {"languages",
         {{"codes", languages.codes}, {"from", languages.usual.from}, {"to", languages.usual.to}}}};
    if (!packed) {
      Json tensors = Json::array();
      for (const auto& parameter : model.parameters()) {
        tensors.push_back({{"name", parameter.name},
                           {"shape", dimensions_of(parameter.tensor)},
                           {"size", parameter.tensor.size()}});
      }
      document["tensors"] = tensors;
    }
    fmt::print("{}\n", document.dump(2));
    return;
  }
  fmt::print("{}\n", set_text(concat(folder, ": ", summary_of(model, packed)), "", "  "));
  fmt::print("{}", to_json(model.config()));
  if (!(settings == GenerationSettings{})) {
    fmt::print("\nhow it searches ({}):\n{}", kGenerationFile, to_json(settings));
  }
  print_languages(languages);
  if (packed || !flags.tensors) return;
  Table table;
  for (const auto& parameter : model.parameters()) {
    table.push_back({parameter.name, to_string(parameter.tensor.shape())});
  }
  fmt::print("\n");
  print_table(table, Align::left, "");
}

}  // namespace

void add_info(CLI::App& app) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App* info = app.add_subcommand("info", "Describe this machine, or a model folder");
  const CLI::Option* given =
      info->add_option("model", flags->folder, "A model folder; without one, the machine")
          ->type_name(kFolder);
  info->add_flag("--json", flags->json, "Print a JSON object");
  const CLI::Option* tensors =
      info->add_flag("--tensors", flags->tensors, "Also list every tensor with its shape");
  const CLI::Option* svg =
      info->add_option("--svg", flags->svg,
                       "Draw the model: a file for the picture of its layers and shapes")
          ->type_name(kFile);
  info->footer(
      "Examples:\n  tril info\n  tril info my-model\n  tril info my-model --svg model.svg");
  info->callback([=] {
    require(given->count() > 0 || (tensors->count() == 0 && svg->count() == 0),
            ErrorCode::invalid_argument, "info: --tensors and --svg need a model folder");
    given->count() == 0 ? show_machine(*flags) : show_model(*flags);
  });
}

}  // namespace tril::app
