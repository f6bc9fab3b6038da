// FolderUpdate: several files of one folder that change together.
//
// One of them is the keystone: without it the folder's other files have no meaning. All new files
// are first written and flushed under temporary names. Then, where several files change, the old
// keystone is moved away, the others take their names, and the new keystone takes its name last. So
// at any time, also if the process is killed, there are the old files with the old keystone, the
// new files with the new one, or no keystone; never a mixture. An error before the first file has
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
  // Removes the file of this name, if there is one.
  void remove(const std::string& name);
  // Until this is called nothing changes.
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
