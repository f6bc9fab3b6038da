// Shared by reading, writing and verifying a model folder. Internal to models/.
#pragma once

#include <string>

#include "tril/io/safetensors.h"
#include "tril/models/config.h"
#include "tril/models/folder.h"

namespace tril {

// For packed weights: the version of the file's layout, and the identity of the weights they were
// made from.
inline constexpr const char* kPackedFormat = "tril_packed";
inline constexpr const char* kPackedFormatNow = "2";
inline constexpr const char* kPackedFormatUnsealed = "1";
inline constexpr const char* kMadeFrom = "made_from";
// The form: files of two forms may have equal shapes and types.
inline constexpr const char* kCompute = "compute";
// For weights that were sealed after they were written: the identity they had before.
inline constexpr const char* kSealedFrom = "sealed_from";

// The key of a file beside the weights in their metadata: file:NAME.
std::string file_key(std::string_view name);
bool is_file_key(std::string_view key);
void add_files(const ModelFiles& files, SafetensorsMetadata& metadata);
FolderSeal seal_of(const SafetensorsInfo& info);

// The identity of a file of weights: its seal, or the checksum of its bytes if it has none.
std::string identity_of(const std::string& file);

// Raises `unsupported` for a config.json of Hugging Face's transformers.
void require_ours(const std::string& folder, std::string_view config);

struct ConfigFile {
  std::string text;
  TransformerConfig config;
};
// Raises `io` if there is none.
ConfigFile read_config(const std::string& folder);

// Raises `io` for a folder without a config.json, and says why there is none: there is no such
// folder, it is a file, or its training has just begun.
[[noreturn]] void fail_without_model(const std::string& folder);

// "packed.int8.safetensors and packed.bf16.safetensors".
std::string names_of(const std::vector<Compute>& kinds);

}  // namespace tril
