// The model folder: which files it has, and how they are known to belong together.
//
//   config.json                   the configuration, and the keystone: without it there is no model
//   model.safetensors             the weights
//   packed.COMPUTE.safetensors    the weights in the form the kernels read (`tril quantize`)
//   tokenizer.model               written together with the weights, if there is one
//   generation.json               how to search, if the model has settings of its own
//                                 (decode/generation.h)
//   shortlist.safetensors         belongs to the tokenizer (decode/shortlist.h)
//   hub.bundle                    of an imported model: what an export needs besides the weights
//                                 (hub/kept.h); whoever saves changed weights of such a model
//                                 passes it on unchanged in SaveOptions::beside
// Weights, packed or not, are sealed: their file holds checksums of every tensor, of its own
// header, of config.json and of the tokenizer. Its seal covers all of these, and so identifies the
// model. Packed weights also record the identity of the weights they were made from.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/compute.h"
#include "tril/base/error.h"
#include "tril/base/function.h"
#include "tril/device/device.h"

namespace tril {

inline constexpr std::string_view kConfigFile = "config.json";
inline constexpr std::string_view kWeightsFile = "model.safetensors";
inline constexpr std::string_view kTokenizerFile = "tokenizer.model";
inline constexpr std::string_view kGenerationFile = "generation.json";
inline constexpr std::string_view kHubFile = "hub.bundle";
inline constexpr std::string_view kShortlistFile = "shortlist.safetensors";
inline constexpr const char* kShortlistTokenizer = "tokenizer";  // in its metadata: which one
inline constexpr std::string_view kTrainingFolder = "training";  // of a run (train/trainer.h)
inline constexpr std::string_view kLastFolder = "last";          // a model folder of that run
inline constexpr std::string_view kCheckpointFile = "checkpoint.safetensors";

// Names to contents.
using ModelFiles = std::map<std::string, std::string>;

// What a model folder's weights record about the files beside them. Empty if they are not sealed.
struct FolderSeal {
  std::string identity{};
  std::map<std::string, std::string> files{};  // name to checksum

  bool sealed() const { return !identity.empty(); }
  // Raises `bad_format` if the contents are not those that were sealed. False: the seal does not
  // cover this file.
  bool check(const std::string& folder, std::string_view name, std::string_view contents) const;
};

// How a folder is saved.
struct SaveOptions {
  ModelFiles beside{};  // files that belong to the weights: tokenizer.model, hub.bundle
  std::map<std::string, std::string> notes{};  // stored in the metadata of the weights
};

// What a model is loaded for.
//   inference  computing, and nothing else: weights are kept in the form that the kernels read, and
//              in no other. No gradients; the weights as they were learnt are not there.
//   study      looking at it: weights as they were learnt, which can be read, copied to another
//              device and differentiated by.
//   training   the same, and its owner may change the weights.
// What is loaded for inference or study cannot be changed by anyone.
enum class Purpose { inference, study, training };

// How a folder is loaded.
struct LoadOptions {
  Device device{};
  // How weights are kept and multiplied. Absent: on CUDA bf16; on the CPU fp32, and for inference
  // from a folder of packed weights alone, what is there. For study and training on the CPU there
  // is only fp32; on CUDA fp32 and bf16 for any purpose.
  std::optional<Compute> compute{};
  Purpose purpose = Purpose::inference;
  // Called with one line that the user should know: that a folder is not sealed, or why packed
  // weights were not used.
  Function<void(const Notice&)> notice{};
  // Packed weights are mapped, and their checksums are verified once, when mapping. With `trust`
  // they are not: for files that were verified before and have not been written since. Only for
  // packed weights; files that are read are always verified.
  bool trust = false;
  // False: packed weights are read into memory instead of mapped, so that cutting the file short
  // cannot harm this process.
  bool map = true;
  // True: config.json and tokenizer.model are accepted as they are, whatever was sealed: to check
  // whether they are worth sealing.
  bool any_files = false;
};

// A small file of a model folder, whole. Raises `io` for anything but a regular file: reading a
// pipe would wait for its writer.
std::string read_model_file(const std::string& folder, std::string_view name);

// What model.safetensors of a folder records. Raises `io` where there is no model, or only packed
// weights.
FolderSeal read_seal(const std::string& folder);

// packed.COMPUTE.safetensors, and the kinds of it a folder has.
std::string packed_file_name(Compute compute);
std::vector<Compute> packed_kinds(const std::string& folder);
// Whether this processor can multiply by weights in this form.
bool is_supported(Compute compute);

}  // namespace tril
