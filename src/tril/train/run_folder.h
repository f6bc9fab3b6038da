// The folder of a training run: where its files are, who may work in it. Internal to train/.
#pragma once

#include <functional>
#include <string>

#include "tril/base/error.h"

namespace tril {

struct RunPaths {
  explicit RunPaths(const std::string& root);

  std::string folder, last, training, tokenizer, options, lock, checkpoint, log, curve;
};

// Raises `io` unless files can be created in the folder, or the folder itself if it does not exist
// yet: better before hours of work than after.
void check_writable(const std::string& folder);

// One run at a time in a folder: held from before the first file is written to the end. If the file
// system has no locks, `message` is called, and nothing is held.
class FolderLock {
 public:
  FolderLock(const std::string& path, const std::function<void(const Notice&)>& message);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace tril
