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

void run(const Flags& flags) {
  std::vector<VerifiedFile> files;
  std::string unsealed;  // folders
  for (const std::string& folder : flags.folders) {
    if (flags.seal) {
      for (const std::string& path : seal_folder(folder)) {
        if (!flags.json) fmt::print("sealed {}\n", escaped(path));
      }
    }
    const std::vector<VerifiedFile> these = verify_folder(folder);
    files.insert(files.end(), these.begin(), these.end());
    if (std::any_of(these.begin(), these.end(),
                    [](const VerifiedFile& f) { return f.state == FileState::unsealed; })) {
      unsealed += " " + escaped(folder);
    }
  }
  flags.json ? print_json(files) : print_text(files);
  const auto sound = std::count_if(files.begin(), files.end(), [](const VerifiedFile& file) {
    return file.state == FileState::sound;
  });
  if (!flags.json) {
    fmt::print("{} of {} sound: every byte matches its checksum\n", sound,
               counted(std::ssize(files), "file"));
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
      "another tokenizer than those beside it); or DAMAGED.\n"
      "Exit code: 0 when all files are sound, 1 when one is not, 2 when it could not run.");
  verify->callback([flags] { run(*flags); });
}

}  // namespace tril::app
