#include "tril/models/verify.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>

#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/io/folder_update.h"
#include "tril/io/safetensors.h"
#include "tril/models/folder_files.h"

namespace tril {
namespace {

int64_t size_of_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

// The files with weights that a folder has.
std::vector<std::string> weight_files(const std::string& folder) {
  std::vector<std::string> names;
  if (file_exists(path_in(folder, kWeightsFile))) names.emplace_back(kWeightsFile);
  for (const Compute kind : packed_kinds(folder)) names.push_back(packed_file_name(kind));
  return names;
}

// Verifies the files of one folder, one after the other.
class FolderVerifier {
 public:
  FolderVerifier(std::string folder, std::vector<VerifiedFile>& files)
      : folder_(std::move(folder)), files_(files) {}

  void model() {
    const std::vector<std::string> names = weight_files(folder_);
    if (names.empty() && !file_exists(path_in(folder_, kConfigFile))) return;
    if (names.empty()) add(kWeightsFile, FileState::damaged, "missing: there are no weights");
    for (const std::string& name : names) weights(name);
    beside(kConfigFile);
    beside(kTokenizerFile);
    made_from();
    shortlist();
  }

  void checkpoint() { sealed_file(kCheckpointFile); }

 private:
  VerifiedFile& add(std::string_view name, FileState state, std::string detail) {
    const std::string path = path_in(folder_, name);
    return files_.emplace_back(VerifiedFile{path, state, std::move(detail), size_of_file(path)});
  }

  // A safetensors file read through; nothing where it is damaged.
  std::optional<SafetensorsInfo> sealed_file(std::string_view name) {
    const std::string path = path_in(folder_, name);
    if (!file_exists(path)) return std::nullopt;
    try {
      SafetensorsInfo info = verify_safetensors(path);
      const bool sealed = !info.seal.empty();
      add(name, sealed ? FileState::sound : FileState::unsealed,
          sealed ? "" : "it has no checksums to compare");
      return info;
    } catch (const Error& error) {
      add(name, FileState::damaged, error.what());
      return std::nullopt;
    }
  }

  void weights(const std::string& name) {
    std::optional<SafetensorsInfo> info = sealed_file(name);
    if (!info) return;
    seals_.emplace(name, seal_of(*info));
    infos_.emplace(name, std::move(*info));
  }

  // A file that is sealed by the weights.
  void beside(std::string_view name) {
    const bool known = std::any_of(seals_.begin(), seals_.end(), [&](const auto& seal) {
      return seal.second.files.contains(std::string(name));
    });
    if (!file_exists(path_in(folder_, name))) {
      if (known || name == kConfigFile)
        add(name, FileState::damaged, "missing: the weights were sealed with one");
      return;
    }
    try {
      const std::string contents = read_model_file(folder_, name);
      for (const auto& [file, seal] : seals_) seal.check(folder_, name, contents);
    } catch (const Error& error) {
      add(name, FileState::damaged, error.what());
      return;
    }
    add(name, known ? FileState::sound : FileState::unsealed,
        known ? "" : "no weights beside it hold its checksum");
  }

  VerifiedFile* entry_of(std::string_view name) {
    const std::string path = path_in(folder_, name);
    const auto found = std::find_if(files_.begin(), files_.end(),
                                    [&](const VerifiedFile& file) { return file.path == path; });
    return found == files_.end() ? nullptr : &*found;
  }

  // Packed weights belong to the weights beside them.
  void made_from() {
    if (!infos_.contains(std::string(kWeightsFile))) return;
    const std::string identity = identity_of(path_in(folder_, kWeightsFile));
    for (auto& [name, info] : infos_) {
      VerifiedFile* entry = entry_of(name);
      if (name == kWeightsFile || entry->state != FileState::sound) continue;
      if (info.metadata[kMadeFrom] == identity) continue;
      entry->state = FileState::stale;
      entry->detail = concat("made from other weights than ", kWeightsFile, " beside it");
    }
  }

  // A shortlist belongs to a tokenizer.
  void shortlist() {
    std::optional<SafetensorsInfo> info = sealed_file(kShortlistFile);
    if (!info || !file_exists(path_in(folder_, kTokenizerFile))) return;
    const std::string tokenizer = read_model_file(folder_, kTokenizerFile);
    VerifiedFile* entry = entry_of(kShortlistFile);
    if (entry->state == FileState::damaged ||
        info->metadata[kShortlistTokenizer] == hexadecimal(file_fingerprint(tokenizer))) {
      return;
    }
    entry->state = FileState::stale;
    entry->detail = concat("made with another tokenizer than ", kTokenizerFile, " beside it");
  }

  std::string folder_;
  std::vector<VerifiedFile>& files_;
  std::map<std::string, FolderSeal> seals_;       // of sound or unsealed weights, by file
  std::map<std::string, SafetensorsInfo> infos_;  // of the same
};

// Seals the weights of a folder anew, where anything is to be sealed: all that have changed
// together, so that what belongs together stays so whenever this is stopped.
class FolderSealer {
 public:
  FolderSealer(std::string folder, std::vector<std::string>& written)
      : folder_(std::move(folder)), written_(written) {}

  void model() {
    if (weight_files(folder_).empty() || !file_exists(path_in(folder_, kConfigFile))) return;
    ModelFiles files;
    for (const std::string_view name : {kConfigFile, kTokenizerFile}) {
      if (file_exists(path_in(folder_, name))) {
        files.emplace(name, read_model_file(folder_, name));
      }
    }
    FolderUpdate update(folder_, std::string(kConfigFile));
    const size_t before = written_.size();
    std::string old_identity, identity;
    for (const std::string& name : weight_files(folder_)) {
      const std::string path = path_in(folder_, name);
      const bool first = name == kWeightsFile;
      const std::string was = identity_of(path);
      std::string seal = reseal(name, update, [&](SafetensorsMetadata& metadata) {
        std::erase_if(metadata, [](const auto& entry) { return is_file_key(entry.first); });
        add_files(files, metadata);
        if (first || !metadata.contains(kMadeFrom)) return;
        if (metadata[kMadeFrom] == old_identity) metadata[kMadeFrom] = identity;
        if (metadata[kPackedFormat] == kPackedFormatUnsealed && old_identity.empty()) {
          metadata.insert_or_assign(kPackedFormat, std::string(kPackedFormatNow));
        }
      });
      if (first) old_identity = was;
      if (first) identity = seal.empty() ? was : seal;
    }
    if (written_.size() - before > 1) {
      update.replace(std::string(kConfigFile)).write(files.at(std::string(kConfigFile)));
    }
    if (written_.size() > before) update.commit();
  }

  void alone(std::string_view name) {
    const std::string path = path_in(folder_, name);
    if (!file_exists(path) || !read_safetensors_info(path).seal.empty()) return;
    FolderUpdate update(folder_, std::string(name));
    reseal(std::string(name), update, [](SafetensorsMetadata&) {});
    update.commit();
  }

 private:
  // Writes the file with what `change` makes of its metadata; an empty string where that is what it
  // says already.
  template <class Change>
  std::string reseal(const std::string& name, FolderUpdate& update, const Change& change) {
    const std::string path = path_in(folder_, name);
    Arena arena;
    SafetensorsInfo info;
    const std::vector<NamedTensor> tensors = load_safetensors(path, arena, &info);
    SafetensorsMetadata metadata = info.metadata;
    change(metadata);
    if (!info.seal.empty() && metadata == info.metadata) return {};
    written_.push_back(path);
    return write_safetensors(update.replace(name), tensors, metadata);
  }

  std::string folder_;
  std::vector<std::string>& written_;
};

// Calls `of_model(folder)` for the model folders of a folder, and `of_run` for its training.
template <class Model, class Training>
void for_each_part(const std::string& folder, const Model& of_model, const Training& of_run) {
  of_model(folder);
  const std::string last = path_in(folder, kLastFolder);
  if (file_exists(last)) of_model(last);
  const std::string training = path_in(folder, kTrainingFolder);
  if (file_exists(training)) of_run(training);
}

std::vector<VerifiedFile> require_any(std::vector<VerifiedFile> files, const std::string& folder) {
  require(!files.empty(), ErrorCode::io, path_in(folder, kConfigFile),
          ": there is no model in this folder");
  return files;
}

}  // namespace

std::vector<VerifiedFile> verify_folder(const std::string& folder) {
  std::vector<VerifiedFile> files;
  for_each_part(
      folder, [&](const std::string& part) { FolderVerifier(part, files).model(); },
      [&](const std::string& part) { FolderVerifier(part, files).checkpoint(); });
  return require_any(std::move(files), folder);
}

std::vector<VerifiedFile> verify_model(const std::string& folder) {
  std::vector<VerifiedFile> files;
  FolderVerifier(folder, files).model();
  return require_any(std::move(files), folder);
}

std::vector<std::string> seal_folder(const std::string& folder) {
  std::vector<std::string> written;
  for_each_part(
      folder,
      [&](const std::string& part) {
        FolderSealer(part, written).model();
        FolderSealer(part, written).alone(kShortlistFile);
      },
      [&](const std::string& part) { FolderSealer(part, written).alone(kCheckpointFile); });
  return written;
}

}  // namespace tril
