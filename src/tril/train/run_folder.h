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

// Raises `io` unless files can be made in the folder, or it itself where it is not there yet:
// better known before hours of work than after.
void check_writable(const std::string& folder);

// One run at a time in a folder: held from before the first file is written to the end. Where the
// file system has no locks, `message` is told, and nothing is held.
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
