// Verifying and sealing the files of a model folder: what `tril verify` does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tril/base/words.h"

namespace tril {

enum class FileState {
  sound,     // every byte matches the checksum it was sealed with
  unsealed,  // there is no checksum to compare it with
  stale,     // intact, but made for other weights or another tokenizer than those beside it
  // config.json is missing, as after a training or a packing was stopped while it replaced a model:
  // the folder has no model until that is resumed.
  incomplete,
  damaged,  // does not match, cannot be read, or is missing
};

template <>
struct Words<FileState> {
  static constexpr std::string_view kList[] = {"sound", "unsealed", "stale", "incomplete",
                                               "damaged"};
};

struct VerifiedFile {
  std::string path;
  FileState state = FileState::sound;
  std::string detail{};  // for any state but sound: what is wrong, naming the tensor if it is one
  int64_t bytes = 0;
};

// Reads every file of a model folder, of the run that trains it and of that run's last model, and
// compares it with its checksum. The text files of a run (options, log, curve) are informative and
// not sealed. Raises `io` if there is neither a model nor a run.
std::vector<VerifiedFile> verify_folder(const std::string& folder);

// The same for the model alone: weights, configuration, tokenizer, shortlist.
std::vector<VerifiedFile> verify_model(const std::string& folder);

// Seals the unsealed files as they are, and returns the paths of the files written. A config.json
// or tokenizer.model that is missing or differs from the one sealed before is accepted; weights
// that do not match their checksums are not: that raises, and nothing in their folder has changed.
std::vector<std::string> seal_folder(const std::string& folder);

}  // namespace tril
