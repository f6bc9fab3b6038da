#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "advice.h"
#include "commands.h"
#include "flags.h"
#include "output.h"
#include "tril/tril.h"
#include "units.h"

namespace tril::app {
namespace {

struct VerifyFlags {
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

// What is wrong, without the path at its beginning, which the line already shows.
std::string detail_of(const VerifiedFile& file) {
  std::string_view text = file.detail;
  if (text.starts_with(file.path + ": ")) text.remove_prefix(file.path.size() + 2);
  return escaped(text);
}

void print_text(const std::vector<VerifiedFile>& files) {
  size_t widest = 0;
  for (const VerifiedFile& file : files) widest = std::max(widest, escaped(file.path).size());
  for (const VerifiedFile& file : files) {
    const bool missing = file.bytes == 0 && !file_exists(file.path);
    fmt::print("{:<{}}  {:>10}  {}\n", escaped(file.path), widest,
               missing ? "" : bytes_text(file.bytes), word_of(file.state));
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

// Files that cannot be used are not sealed: they may be damaged.
void check_loads(const std::string& folder) {
  if (!file_exists(path_in(folder, kConfigFile))) return;
  LoadOptions options;
  options.any_files = true;
  const bool text = file_exists(path_in(folder, kTokenizerFile));
  if (file_exists(path_in(folder, kWeightsFile))) {
    options.purpose = Purpose::study;
    text ? (void)Translator::load(folder, options, 1) : (void)Transformer::load(folder, options);
    return;
  }
  for (const Compute compute : packed_kinds(folder)) {
    options.compute = compute;
    text ? (void)Translator::load(folder, options, 1) : (void)Transformer::load(folder, options);
  }
}

// The files of one folder; raises an Error for a folder that has none.
std::vector<VerifiedFile> verify_one(const std::string& folder, const VerifyFlags& flags) {
  if (flags.seal) {
    check_loads(folder);
    for (const std::string& path : seal_folder(folder)) {
      if (!flags.json) fmt::print("sealed {}\n", escaped(path));
    }
  }
  return verify_folder(folder);
}

void run(const VerifyFlags& flags) {
  std::vector<VerifiedFile> files;
  std::string unsealed;  // folders
  bool failed = false;
  for (const std::string& folder : flags.folders) {
    std::vector<VerifiedFile> these;
    try {
      these = verify_one(folder, flags);
    } catch (const Error& error) {  // the other folders are still to be checked
      message(fmt::format("tril: {}\n", escaped(with_advice(error.what(), error.field()))));
      failed = true;
    }
    if (!flags.json) print_text(these);
    files.insert(files.end(), these.begin(), these.end());
    if (std::any_of(these.begin(), these.end(), [](const VerifiedFile& f) {
          return f.state == FileState::unsealed && f.path.ends_with(".safetensors");
        })) {
      unsealed += " " + escaped(folder);
    }
  }
  if (flags.json) print_json(files);
  const auto sound = std::count_if(files.begin(), files.end(), [](const VerifiedFile& file) {
    return file.state == FileState::sound;
  });
  if (!flags.json && !files.empty()) {
    const bool all = sound == std::ssize(files);
    fmt::print("{} of {} sound{}{}\n", sound, counted(std::ssize(files), "file"),
               all ? ": every byte matches its checksum" : "",
               failed ? "; not all folders could be read" : "");
    if (!unsealed.empty()) {
      fmt::print("files that are not sealed cannot be verified: {} verify --seal{}\n",
                 program_name(), unsealed);
    }
  }
  if (failed) throw Told{};
  if (sound != std::ssize(files)) throw Failed{};
}

}  // namespace

void add_verify(CLI::App& app) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* verify =
      app.add_subcommand("verify", "Check every byte of model folders against its checksum");
  verify->add_option("folder", flags->folders, "Model folders")->type_name(kFolder)->required();
  verify->add_flag("--seal", flags->seal,
                   "Seal what is not sealed, as it is now: from then on damage is found");
  verify->add_flag("--json", flags->json, "Print JSON");
  verify->footer(
      "Examples:\n"
      "  tril verify my-model\n"
      "  tril verify --seal an-old-model\n\n"
      "Every command verifies the files it loads against the checksums they were written with. "
      "This "
      "one reads all files of a folder: weights, packed weights, tokenizer, configuration, "
      "shortlist, "
      "the checkpoint of a training run and its last model. A file is sound; not sealed (written "
      "by "
      "another program or an older tril); STALE (intact, but made for other weights or another "
      "tokenizer than those beside it); INCOMPLETE (a model whose replacement was interrupted); or "
      "DAMAGED. --seal accepts a config.json, tokenizer.model or generation.json that was changed "
      "since, so look at "
      "it first; it never accepts damaged weights.\n"
      "Exit code: 0 when all files are sound, 1 when one is not, 2 when it could not run.");
  verify->callback([flags] { run(*flags); });
}

}  // namespace tril::app
