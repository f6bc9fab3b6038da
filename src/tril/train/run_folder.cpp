#include "tril/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/models/folder.h"

namespace tril {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

int lock(int descriptor) {
  int result;
  do {
    result = ::flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

}  // namespace

RunPaths::RunPaths(const std::string& root)
    : folder(root),
      last(path_in(root, kLastFolder)),
      training(path_in(root, kTrainingFolder)),
      tokenizer(path_in(training, kTokenizerFile)),
      options(path_in(training, "options.toml")),
      lock(path_in(training, "lock")),
      checkpoint(path_in(training, kCheckpointFile)),
      log(path_in(training, "log.jsonl")),
      curve(path_in(training, "curve.svg")) {}

void check_writable(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path there = fs::absolute(folder, ignored).lexically_normal();
  while (!fs::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  require(fs::is_directory(there, ignored), ErrorCode::io, there.string(),
          ": is a file, and a folder is needed for the model");
  for (const fs::path& path : {there, fs::path(RunPaths(folder).training)}) {
    if (!fs::exists(path, ignored)) continue;
    const int error = ::access(path.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
    require(error == 0, ErrorCode::io, path.string(),
            ": no files can be made in this folder: ", reason(error));
  }
}

FolderLock::FolderLock(const std::string& path, const std::function<void(const Notice&)>& message)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  require(descriptor_ >= 0, ErrorCode::io, path, ": cannot open: ", reason(errno));
  const int error = tril::lock(descriptor_);
  if (error == EWOULDBLOCK) {
    ::close(descriptor_);
    fail(ErrorCode::io, path, ": another run is at work in this folder");
  }
  if (error != 0 && message) {
    message(concat("warning: ", path, " cannot be locked (", reason(error),
                   "): see to it that no other run works in this folder"));
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace tril
