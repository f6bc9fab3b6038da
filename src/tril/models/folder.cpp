#include "tril/models/folder.h"

#include <filesystem>
#include <system_error>

#include "tril/base/checksum.h"
#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/folder_update.h"
#include "tril/models/folder_files.h"

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

std::string names_of(const std::vector<Compute>& kinds) {
  std::string names;
  for (const Compute compute : kinds) {
    names += concat(names.empty() ? "" : " and ", packed_file_name(compute));
  }
  return names;
}

std::string_view why_no_folder(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) return ": there is no such folder";
  return std::filesystem::is_directory(folder, ignored) ? "" : ": it is a file";
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

ConfigFile read_config(const std::string& folder) {
  const std::string file = path_in(folder, kConfigFile);
  const bool missing = !file_exists(file);
  const bool in_training = missing && file_exists(path_in(folder, "training"));
  require(!missing, ErrorCode::io, file, ": there is no model in this folder",
          in_training ? " yet: its training has not come to the first evaluation"
                      : why_no_folder(folder));
  ConfigFile config{.text = read_model_file(folder, kConfigFile), .config = {}};
  config.config = config_from_json(config.text, file);
  return config;
}

}  // namespace tril
