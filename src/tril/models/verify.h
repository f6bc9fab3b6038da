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
  stale,     // whole, but made for other weights or another tokenizer than those beside it
  // config.json is missing, as where a training or a packing was stopped while it replaced a model:
  // there is none in the folder until it goes on.
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
  std::string detail{};  // of anything but sound: what is wrong, naming the tensor if it is one
  int64_t bytes = 0;
};

// Reads every file of a model folder, of the run that trains it and of that run's last model, and
// compares it with its checksum. The text files of a run (options, log, curve) are for people and
// are not sealed. Raises `io` where there is neither a model nor a run.
std::vector<VerifiedFile> verify_folder(const std::string& folder);

// The same of the model alone: weights, configuration, tokenizer, shortlist.
std::vector<VerifiedFile> verify_model(const std::string& folder);

// Seals what is not sealed, as it is, and returns the paths of the files that were written. A
// config.json or tokenizer.model that is not the one sealed before, or not there, is accepted;
// weights that do not match their checksums are not: that is raised, and nothing has changed in
// their folder.
std::vector<std::string> seal_folder(const std::string& folder);

}  // namespace tril
