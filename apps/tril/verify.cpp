#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "tril/tril.h"
#include "units.h"

namespace tril::app {
namespace {

struct Flags {
  std::vector<std::string> folders;
  bool seal = false;
  bool json = false;
};

std::string_view word_of(FileState state) {
  switch (state) {
    case FileState::sound: return "sound";
    case FileState::unsealed: return "not sealed";
    case FileState::stale: return "STALE";
    case FileState::incomplete: return "INCOMPLETE";
    case FileState::damaged: return "DAMAGED";
  }
  return "";
}

// What is wrong, without the path it begins with: that stands in the line already.
std::string detail_of(const VerifiedFile& file) {
  std::string_view text = file.detail;
  if (text.starts_with(file.path + ": ")) text.remove_prefix(file.path.size() + 2);
  return escaped(text);
}

void print_text(const std::vector<VerifiedFile>& files) {
  size_t widest = 0;
  for (const VerifiedFile& file : files) widest = std::max(widest, escaped(file.path).size());
  for (const VerifiedFile& file : files) {
    fmt::print("{:<{}}  {:>10}  {}\n", escaped(file.path), widest, bytes_text(file.bytes),
               word_of(file.state));
    if (!file.detail.empty()) fmt::print("  {}\n", detail_of(file));
  }
}

void print_json(const std::vector<VerifiedFile>& files) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const VerifiedFile& file : files) {
    nlohmann::ordered_json entry = {
        {"path", escaped(file.path)}, {"bytes", file.bytes}, {"state", word_for(file.state)}};
    if (!file.detail.empty()) entry["detail"] = detail_of(file);
    list.push_back(std::move(entry));
  }
  fmt::print("{}\n", list.dump(2));
}

// What cannot be used is not worth sealing: it may be what damage has left.
void check_loads(const std::string& folder) {
  const std::string config_file = path_in(folder, kConfigFile);
  if (!file_exists(config_file)) return;
  const TransformerConfig config =
      config_from_json(read_model_file(folder, kConfigFile), config_file);
  const std::string file = path_in(folder, kTokenizerFile);
  if (!file_exists(file)) return;
  const Tokenizer tokenizer = Tokenizer::from_bytes(read_model_file(folder, kTokenizerFile), file);
  require(tokenizer.vocab() == config.target_vocab, ErrorCode::bad_format, file, ": has ",
          tokenizer.vocab(), " pieces, ", config_file, " has target_vocab ", config.target_vocab,
          ": they are not of one model");
}

void run(const Flags& flags) {
  std::vector<VerifiedFile> files;
  std::string unsealed;  // folders
  for (const std::string& folder : flags.folders) {
    if (flags.seal) {
      check_loads(folder);
      for (const std::string& path : seal_folder(folder)) {
        if (!flags.json) fmt::print("sealed {}\n", escaped(path));
      }
    }
    const std::vector<VerifiedFile> these = verify_folder(folder);
    if (!flags.json) print_text(these);
    files.insert(files.end(), these.begin(), these.end());
    if (std::any_of(these.begin(), these.end(),
                    [](const VerifiedFile& f) { return f.state == FileState::unsealed; })) {
      unsealed += " " + escaped(folder);
    }
  }
  if (flags.json) print_json(files);
  const auto sound = std::count_if(files.begin(), files.end(), [](const VerifiedFile& file) {
    return file.state == FileState::sound;
  });
  if (!flags.json) {
    const bool all = sound == std::ssize(files);
    fmt::print("{} of {} sound{}\n", sound, counted(std::ssize(files), "file"),
               all ? ": every byte matches its checksum" : "");
    if (!unsealed.empty()) {
      fmt::print("files that are not sealed cannot be verified: {} verify --seal{}\n",
                 program_name(), unsealed);
    }
  }
  if (sound != std::ssize(files)) throw Failed{};
}

}  // namespace

void add_verify(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* verify =
      app.add_subcommand("verify", "Check every byte of model folders against its checksum");
  verify->add_option("folder", flags->folders, "Model folders")->required();
  verify->add_flag("--seal", flags->seal,
                   "Seal what is not sealed, as it is now: from then on damage is found");
  verify->add_flag("--json", flags->json, "Print JSON");
  verify->footer(
      "Examples:\n"
      "  tril verify my-model\n"
      "  tril verify --seal an-old-model\n\n"
      "Every command compares the files it loads with the checksums they were written with; this\n"
      "one reads all files of a folder: weights, packed weights, tokenizer, configuration,\n"
      "shortlist, the checkpoint of a training and its last model. A file is sound; not sealed\n"
      "(written by another program or an older tril); STALE (whole, but made for other weights or\n"
      "another tokenizer than those beside it); INCOMPLETE (a model that was being replaced when\n"
      "something was stopped); or DAMAGED. --seal accepts a config.json or tokenizer.model that "
      "was\n"
      "changed since, so look at it first; it never accepts weights that are damaged.\n"
      "Exit code: 0 when all files are sound, 1 when one is not, 2 when it could not run.");
  verify->callback([flags] { run(*flags); });
}

}  // namespace tril::app
