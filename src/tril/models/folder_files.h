// What reading, writing and verifying a model folder share. Internal to models/.
#pragma once

#include <string>

#include "tril/io/safetensors.h"
#include "tril/models/config.h"
#include "tril/models/folder.h"

namespace tril {

// Of packed weights: which layout of the file, and the identity of the weights they were made from.
inline constexpr const char* kPackedFormat = "tril_packed";
inline constexpr const char* kPackedFormatNow = "2";
inline constexpr const char* kPackedFormatUnsealed = "1";
inline constexpr const char* kMadeFrom = "made_from";
// In which form: files of two forms may have equal shapes and types.
inline constexpr const char* kCompute = "compute";
// Of weights that were sealed after they were written: the identity they had before.
inline constexpr const char* kSealedFrom = "sealed_from";

// How the files beside the weights stand in their metadata: file:NAME.
std::string file_key(std::string_view name);
bool is_file_key(std::string_view key);
void add_files(const ModelFiles& files, SafetensorsMetadata& metadata);
FolderSeal seal_of(const SafetensorsInfo& info);

// What identifies a file of weights: its seal, or the checksum of its bytes where it has none.
std::string identity_of(const std::string& file);

struct ConfigFile {
  std::string text;
  TransformerConfig config;
};
// Raises `io` where there is none, with a word on a training that has just begun.
ConfigFile read_config(const std::string& folder);

// What to add where there is no model in a folder: that it is none, or not there.
std::string_view why_no_folder(const std::string& folder);

// "packed.int8.safetensors and packed.bf16.safetensors".
std::string names_of(const std::vector<Compute>& kinds);

}  // namespace tril
