#include "tril/models/verify.h"

#include <algorithm>
#include <map>
#include <optional>

#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"
#include "tril/models/folder_files.h"

namespace tril {
namespace {

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
    const bool has_config = file_exists(path_in(folder_, kConfigFile));
    if (!has_config && names.empty()) return;
    if (names.empty()) add(kWeightsFile, FileState::damaged, "missing: there are no weights");
    for (const std::string& name : names) weights(name);
    if (!has_config) {
      // Without the keystone it is unknown which of the other files belong together.
      add(kConfigFile, FileState::incomplete,
          "missing: copy it again, or run again whatever was stopped while it replaced this model");
      return;
    }
    beside(kConfigFile);
    beside(kTokenizerFile);
    beside(kGenerationFile);
    beside(kHubFile);
    made_from();
    shortlist();
  }

  void checkpoint() { sealed_file(kCheckpointFile); }

 private:
  VerifiedFile& add(std::string_view name, FileState state, std::string detail) {
    const std::string path = path_in(folder_, name);
    int64_t bytes = 0;
    try {
      bytes = file_bytes(path);
    } catch (const Error& error) {
      // For a missing or damaged file the state says enough.
      if (state == FileState::sound || state == FileState::unsealed) {
        state = FileState::damaged;
        detail = error.what();
      }
    }
    return files_.emplace_back(VerifiedFile{path, state, std::move(detail), bytes});
  }

  // Reads a whole safetensors file; nothing if it is damaged.
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
    // A damaged tensor says nothing about the files beside it, whose checksums are in the header.
    if (!info) info = header_of(name);
    if (!info) return;
    if (name != kWeightsFile && info->metadata[kPackedFormat] == kPackedFormatNow &&
        concat("packed.", info->metadata[kCompute], ".safetensors") != name) {
      VerifiedFile* entry = entry_of(name);
      entry->state = FileState::damaged;
      entry->detail = concat("it holds weights packed in ", info->metadata[kCompute]);
    }
    seals_.emplace(name, seal_of(*info));
    infos_.emplace(name, std::move(*info));
  }

  std::optional<SafetensorsInfo> header_of(const std::string& name) const {
    try {
      return read_safetensors_info(path_in(folder_, name));
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // A file whose checksum is in the seal of the weights.
  void beside(std::string_view name) {
    const bool known = std::any_of(seals_.begin(), seals_.end(), [&](const auto& seal) {
      return seal.second.files.contains(std::string(name));
    });
    if (!file_exists(path_in(folder_, name))) {
      if (known) add(name, FileState::damaged, "missing: the weights were sealed with one");
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
    const VerifiedFile* beside = entry_of(kTokenizerFile);
    if (!info || beside == nullptr || beside->state == FileState::damaged) return;
    const std::string tokenizer = read_model_file(folder_, kTokenizerFile);
    const std::string known = hexadecimal(tokenizer_fingerprint(tokenizer));
    if (info->metadata[kShortlistTokenizer] == known) return;
    VerifiedFile* entry = entry_of(kShortlistFile);
    entry->state = FileState::stale;
    entry->detail = concat("made with another tokenizer than ", kTokenizerFile, " beside it");
  }

  std::string folder_;
  std::vector<VerifiedFile>& files_;
  std::map<std::string, FolderSeal> seals_;       // of weights with an intact header, by file
  std::map<std::string, SafetensorsInfo> infos_;  // of the same
};

// Seals the files of a folder, one after the other. Whenever it is interrupted, each file is
// complete, the folder holds the model, and calling it again seals the rest.
class FolderSealer {
 public:
  FolderSealer(std::string folder, std::vector<std::string>& written)
      : folder_(std::move(folder)), written_(written) {}

  void model() {
    if (!file_exists(path_in(folder_, kConfigFile))) return;
    ModelFiles files;
    for (const std::string_view name : {kConfigFile, kTokenizerFile, kGenerationFile, kHubFile}) {
      if (file_exists(path_in(folder_, name))) {
        files.emplace(name, read_model_file(folder_, name));
      }
    }
    // Sealing changes the identity of weights. They record the previous one, by which packed
    // weights made from them are recognised.
    std::string before, now;
    for (const std::string& name : weight_files(folder_)) {
      const std::string path = path_in(folder_, name);
      const bool first = name == kWeightsFile;
      const std::string was = identity_of(path);
      reseal(name, [&](SafetensorsMetadata& metadata, bool sealed) {
        const SafetensorsMetadata old = metadata;
        std::erase_if(metadata, [](const auto& entry) { return is_file_key(entry.first); });
        add_files(files, metadata);
        if (first && (!sealed || metadata != old)) metadata[kSealedFrom] = was;
        if (!first && metadata[kMadeFrom] == before) metadata[kMadeFrom] = now;
        if (!first && now.empty()) {
          metadata.insert_or_assign(kPackedFormat, std::string(kPackedFormatNow));
        }
      });
      if (!first) continue;
      now = identity_of(path);
      SafetensorsInfo info = read_safetensors_info(path);
      before = info.metadata[kSealedFrom];
    }
  }

  void alone(std::string_view name) {
    const std::string path = path_in(folder_, name);
    if (!file_exists(path) || !read_safetensors_info(path).seal.empty()) return;
    reseal(std::string(name), [](SafetensorsMetadata&, bool) {});
  }

 private:
  // Rewrites the file with the metadata that `change(metadata, sealed)` returns, unless they are
  // the same.
  template <class Change>
  void reseal(const std::string& name, const Change& change) {
    const std::string path = path_in(folder_, name);
    Arena arena;
    SafetensorsInfo info;
    const std::vector<NamedTensor> tensors = load_safetensors(path, arena, &info);
    const bool sealed = !info.seal.empty();
    SafetensorsMetadata metadata = info.metadata;
    change(metadata, sealed);
    if (sealed && metadata == info.metadata) return;
    AtomicFile file(path, Links::replace);
    write_safetensors(file, tensors, metadata);
    file.commit();
    written_.push_back(path);
  }

  std::string folder_;
  std::vector<std::string>& written_;
};

// A folder of transformers is not ours to judge, nor to seal.
void refuse_foreign(const std::string& folder) {
  if (!file_exists(path_in(folder, kConfigFile))) return;
  std::string config;
  try {
    config = read_model_file(folder, kConfigFile);
  } catch (const Error&) {
    return;  // which is among what is found
  }
  require_ours(folder, config);
}

bool has_run(const std::string& folder) {
  return file_exists(path_in(path_in(folder, kTrainingFolder), kCheckpointFile));
}

// Calls `of_model(folder)` for the model folders of a folder, and `of_run` for its training.
template <class Model, class Training>
void for_each_part(const std::string& folder, const Model& of_model, const Training& of_run) {
  of_model(folder);
  const std::string last = path_in(folder, kLastFolder);
  if (file_exists(last)) of_model(last);
  if (has_run(folder)) of_run(path_in(folder, kTrainingFolder));
}

std::vector<VerifiedFile> require_any(std::vector<VerifiedFile> files, const std::string& folder) {
  if (files.empty()) fail_without_model(folder);
  return files;
}

}  // namespace

std::vector<VerifiedFile> verify_folder(const std::string& folder) {
  refuse_foreign(folder);
  std::vector<VerifiedFile> files;
  for_each_part(
      folder, [&](const std::string& part) { FolderVerifier(part, files).model(); },
      [&](const std::string& part) { FolderVerifier(part, files).checkpoint(); });
  return require_any(std::move(files), folder);
}

std::vector<VerifiedFile> verify_model(const std::string& folder) {
  refuse_foreign(folder);
  std::vector<VerifiedFile> files;
  FolderVerifier(folder, files).model();
  return require_any(std::move(files), folder);
}

std::vector<std::string> seal_folder(const std::string& folder) {
  refuse_foreign(folder);
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
