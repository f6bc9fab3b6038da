// FolderUpdate: several files of one folder that change together.
//
// One of them is the keystone: without it the folder's other files stand for nothing. All new files
// are written and flushed under temporary names first. Then, where several files change, the old
// keystone goes, the others take their names, and the new keystone takes its own last: whoever
// looks, whenever the process is killed, finds the old files with the old keystone, the new files
// with the new one, or no keystone; never two generations mixed. An error before the first file has
// taken its name brings the old keystone back. A single file is replaced in one step, and the
// keystone stays.
// Links in the folder are replaced, never followed: they may lead into another folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tril/io/atomic_file.h"

namespace tril {

class FolderUpdate {
 public:
  // Creates the folder where there is none.
  FolderUpdate(std::string folder, std::string keystone);

  // A new file of this name, to be written; belongs to the update.
  AtomicFile& replace(const std::string& name);
  // The file of this name goes, if there is one.
  void remove(const std::string& name);
  // Without it nothing has happened.
  void commit();

  const std::string& folder() const { return folder_; }

 private:
  struct Staged {
    std::string name;
    std::unique_ptr<AtomicFile> file;
  };
  std::string path(const std::string& name) const;
  void unlink(const std::string& name) const;

  std::string folder_;
  std::string keystone_;
  std::vector<Staged> staged_;
  std::vector<std::string> removed_;
};

}  // namespace tril
