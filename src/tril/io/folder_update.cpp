#include "tril/io/folder_update.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tril/base/error.h"

namespace tril {

FolderUpdate::FolderUpdate(std::string folder, std::string keystone)
    : folder_(std::move(folder)), keystone_(std::move(keystone)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  // A link to a folder is reported as one that exists already.
  std::error_code ignored;
  require(!error || std::filesystem::is_directory(folder_, ignored), ErrorCode::io, folder_,
          ": cannot create the folder: ", error.message());
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
  if (several && file_exists(path(keystone_))) {
    unlink(keystone_);
    flush_folder(folder_);
  }
  for (const std::string& name : removed_) unlink(name);
  std::stable_partition(staged_.begin(), staged_.end(),
                        [&](const Staged& staged) { return staged.name != keystone_; });
  for (const Staged& staged : staged_) {
    // The others are on the disk under their names before the keystone says that they belong
    // together.
    if (several && staged.name == keystone_) flush_folder(folder_);
    staged.file->take_name();
  }
  flush_folder(folder_);
  staged_.clear();
  removed_.clear();
}

}  // namespace tril
