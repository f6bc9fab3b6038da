#include "tril/models/folder.h"

#include <filesystem>
#include <system_error>

#include "tril/base/checksum.h"
#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/folder_update.h"
#include "tril/models/folder_files.h"
#include "tril/ops/weight_form.h"
#include "tril/tensor/placement.h"

namespace tril {
namespace {

constexpr std::string_view kFileKey = "file:";
constexpr int64_t kMaxFileBytes = int64_t{1} << 28;

}  // namespace

bool FolderSeal::check(const std::string& folder, std::string_view name,
                       std::string_view contents) const {
  const auto found = files.find(std::string(name));
  if (found == files.end()) return false;
  require(to_string(checksum_of(contents)) == found->second, ErrorCode::bad_format,
          Field{"any_files"}, path_in(folder, name),
          ": damaged, or not of this model: it is not the file that was sealed with the weights");
  return true;
}

std::string read_model_file(const std::string& folder, std::string_view name) {
  const std::string path = path_in(folder, name);
  require_regular(path);
  return read_file(path, kMaxFileBytes);
}

std::string packed_file_name(Compute compute) {
  return concat("packed.", word_for(compute), ".safetensors");
}

std::vector<Compute> packed_kinds(const std::string& folder) {
  std::vector<Compute> kinds;
  for (const Compute compute : ops::computes_for(Placement())) {
    if (file_exists(path_in(folder, packed_file_name(compute)))) kinds.push_back(compute);
  }
  return kinds;
}

bool is_supported(Compute compute) {
  try {
    ops::form_for(Placement(), compute).check_supported();
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::string names_of(const std::vector<Compute>& kinds) {
  std::string names;
  for (const Compute compute : kinds) {
    names += concat(names.empty() ? "" : " and ", packed_file_name(compute));
  }
  return names;
}

void fail_without_model(const std::string& folder) {
  std::error_code ignored;
  std::string_view why = "no model in this folder (no config.json)";
  if (!std::filesystem::exists(folder, ignored)) {
    why = "no such folder";
  } else if (!std::filesystem::is_directory(folder, ignored)) {
    why = "a file, not a model folder";
  } else if (file_exists(path_in(folder, kTrainingFolder))) {
    why = "no model in this folder yet: its training has not come to the first evaluation";
  }
  fail(ErrorCode::io, folder, ": ", why);
}

std::string file_key(std::string_view name) { return concat(kFileKey, name); }

bool is_file_key(std::string_view key) { return key.starts_with(kFileKey); }

void add_files(const ModelFiles& files, SafetensorsMetadata& metadata) {
  for (const auto& [name, contents] : files) {
    metadata[file_key(name)] = to_string(checksum_of(contents));
  }
}

FolderSeal seal_of(const SafetensorsInfo& info) {
  FolderSeal seal{.identity = info.seal};
  if (!seal.sealed()) return seal;
  for (const auto& [key, value] : info.metadata) {
    if (is_file_key(key)) seal.files.emplace(key.substr(kFileKey.size()), value);
  }
  return seal;
}

std::string identity_of(const std::string& file) {
  const SafetensorsInfo info = read_safetensors_info(file);
  return info.seal.empty() ? to_string(checksum_of_file(file)) : info.seal;
}

void require_ours(const std::string& folder, std::string_view config) {
  // Other programs' models have files of the same names.
  require(config.find("\"model_type\"") == config.npos, ErrorCode::unsupported, Field{"import"},
          folder, ": holds a model of Hugging Face's transformers, not one of tril's");
}

ConfigFile read_config(const std::string& folder) {
  const std::string file = path_in(folder, kConfigFile);
  if (!file_exists(file)) fail_without_model(folder);
  ConfigFile config{.text = read_model_file(folder, kConfigFile), .config = {}};
  require_ours(folder, config.text);
  config.config = config_from_json(config.text, file);
  return config;
}

}  // namespace tril
