#include "tril/io/folder_update.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <system_error>
#include <utility>

#include "tril/base/error.h"

namespace tril {
namespace {

// The old keystone, moved away under a temporary name (io/atomic_file.h): it is moved back unless
// another file has taken its name since.
class OldKeystone {
 public:
  explicit OldKeystone(const std::string& path)
      : path_(path), aside_(concat(path, ".", ::getpid(), ".999999999.tmp")) {
    struct stat status;
    const bool is_folder = ::lstat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    require(!is_folder, ErrorCode::io, path_, ": cannot be replaced: it is a folder");
    const int error = ::rename(path_.c_str(), aside_.c_str()) == 0 ? 0 : errno;
    require(error == 0, ErrorCode::io, path_,
            ": cannot be replaced: ", std::generic_category().message(error));
  }
  ~OldKeystone() {
    if (aside_.empty() || ::rename(aside_.c_str(), path_.c_str()) == 0) return;
    if (::link(aside_.c_str(), path_.c_str()) == 0) ::unlink(aside_.c_str());
  }
  OldKeystone(const OldKeystone&) = delete;
  OldKeystone& operator=(const OldKeystone&) = delete;

  void give_up() {
    if (!aside_.empty()) ::unlink(aside_.c_str());
    aside_.clear();
  }

 private:
  std::string path_;
  std::string aside_;
};

}  // namespace

FolderUpdate::FolderUpdate(std::string folder, std::string keystone)
    : folder_(std::move(folder)), keystone_(std::move(keystone)) {
  make_folders(folder_);
}

std::string FolderUpdate::path(const std::string& name) const { return path_in(folder_, name); }

AtomicFile& FolderUpdate::replace(const std::string& name) {
  staged_.push_back({name, std::make_unique<AtomicFile>(path(name), Links::replace)});
  return *staged_.back().file;
}

void FolderUpdate::remove(const std::string& name) { removed_.push_back(name); }

void FolderUpdate::unlink(const std::string& name) const {
  const int error = ::unlink(path(name).c_str()) == 0 ? 0 : errno;
  require(error == 0 || error == ENOENT, ErrorCode::io, path(name),
          ": cannot remove: ", std::generic_category().message(error));
}

void FolderUpdate::commit() {
  std::erase_if(removed_, [&](const std::string& name) { return !file_exists(path(name)); });
  for (const Staged& staged : staged_) staged.file->flush();
  const bool several = staged_.size() + removed_.size() > 1;
  const bool has_keystone = std::any_of(staged_.begin(), staged_.end(), [&](const Staged& staged) {
    return staged.name == keystone_;
  });
  require(!several || has_keystone, ErrorCode::internal, folder_, ": several files change without ",
          keystone_);
  std::optional<OldKeystone> old;
  if (several && file_exists(path(keystone_))) {
    old.emplace(path(keystone_));
    flush_folder(folder_);
  }
  std::stable_partition(staged_.begin(), staged_.end(),
                        [&](const Staged& staged) { return staged.name != keystone_; });
  for (const Staged& staged : staged_) {
    // The other files are on disk under their names before the keystone declares that they belong
    // together.
    if (several && staged.name == keystone_) {
      for (const std::string& name : removed_) unlink(name);
      flush_folder(folder_);
    }
    staged.file->take_name();
    if (old) old->give_up();
  }
  if (!several) {
    for (const std::string& name : removed_) unlink(name);
  }
  flush_folder(folder_);
  staged_.clear();
  removed_.clear();
}

}  // namespace tril
