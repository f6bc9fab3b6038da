#include "tril/io/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

#include "tril/base/error.h"

namespace tril {
namespace {

// Like strerror, which is not thread-safe.
std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_to(std::string_view doing, const std::string& path, int error) {
  fail(ErrorCode::io, path, ": cannot ", doing, ": ", reason(error));
}

// The system would stop reading the name at a NUL and use another file.
void check_path(const std::string& path) {
  require(path.find('\0') == std::string::npos, ErrorCode::io, path.c_str(),
          ": a path may not hold a NUL byte");
}

int open_retrying(const std::string& path, int flags, mode_t mode = 0) {
  int descriptor;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The path with links resolved; `path` itself when nothing is there yet.
std::string follow_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  return resolved == nullptr ? path : std::string(resolved.get());
}

// A temporary file is called NAME.PID.N.tmp. PID is 0 for any other name.
struct TemporaryName {
  std::string_view target;
  pid_t writer = 0;
};

TemporaryName parse_temporary(std::string_view name) {
  constexpr std::string_view kEnd = ".tmp";
  if (!name.ends_with(kEnd)) return {};
  name.remove_suffix(kEnd.size());
  std::array<int32_t, 2> numbers{};  // N, PID
  for (int32_t& number : numbers) {
    const size_t dot = name.rfind('.');
    if (dot == name.npos || dot == 0) return {};
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + dot + 1, end, number);
    if (error != std::errc() || at != end) return {};
    name = name.substr(0, dot);
  }
  return {name, numbers[1]};
}

int lock(int descriptor) {
  int result;
  do {
    result = ::flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result;
}

// The writer of a temporary file holds its lock, and the system releases it however that process
// ends. On a file system without locks nothing counts as abandoned.
bool is_abandoned(int descriptor) { return lock(descriptor) == 0; }

// A new temporary file beside `target`, locked: sets its name and returns its descriptor, or -1
// with errno set.
int create_temporary(const std::string& target, std::string& name) {
  static std::atomic<uint64_t> counter = 0;
  constexpr int kTries = 1000;
  for (int tries = 0; tries < kTries; ++tries) {
    name = concat(target, ".", ::getpid(), ".", counter++, ".tmp");
    const int descriptor = open_retrying(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;  // left by a process that was killed
    if (descriptor < 0) return -1;
    // Between creating and locking it, another writer may have taken it for abandoned.
    struct stat made;
    const bool locked = lock(descriptor) == 0 || errno != EWOULDBLOCK;
    if (locked && ::fstat(descriptor, &made) == 0 && made.st_nlink > 0) return descriptor;
    ::unlink(name.c_str());
    ::close(descriptor);
  }
  errno = EEXIST;
  return -1;
}

}  // namespace

std::string path_in(const std::string& folder, std::string_view name) {
  return concat(folder, folder.ends_with('/') ? "" : "/", name);
}

bool file_exists(const std::string& path) {
  check_path(path);
  struct stat status;
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail_to("look at it", path, errno);
  return false;
}

int64_t file_bytes(const std::string& path) {
  check_path(path);
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) fail_to("read the size", path, errno);
  return status.st_size;
}

InputFile::InputFile(const std::string& path) : path_(path) {
  check_path(path);
  descriptor_ = open_retrying(path, O_RDONLY);
  if (descriptor_ < 0) fail_to("open", path_, errno);
}

InputFile::~InputFile() { ::close(descriptor_); }

int64_t InputFile::size() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail_to("read the size", path_, errno);
  return status.st_size;
}

int64_t InputFile::read(void* memory, int64_t bytes) {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::read(descriptor_, static_cast<char*>(memory) + done, static_cast<size_t>(bytes - done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to("read", path_, errno);
    if (got == 0) break;
    done += got;
  }
  return done;
}

int64_t InputFile::read_at(int64_t offset, void* memory, int64_t bytes) const {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(descriptor_, static_cast<char*>(memory) + done,
                                static_cast<size_t>(bytes - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to("read", path_, errno);
    if (got == 0) break;
    done += got;
  }
  return done;
}

void require_regular(const std::string& path) {
  check_path(path);
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) fail_to("open", path, errno);
  require(S_ISREG(status.st_mode), ErrorCode::io, path, ": cannot be read: it is no regular file");
}

std::string read_file(const std::string& path, int64_t max_bytes) {
  InputFile file(path);
  constexpr int64_t kChunk = 1 << 16;
  std::string contents;
  int64_t held = 0;
  // Reading one byte more than the reported size detects the end without another round.
  int64_t step = std::max(kChunk, std::min(file.size(), max_bytes) + 1);
  while (true) {
    contents.resize(static_cast<size_t>(held + step));
    const int64_t got = file.read(contents.data() + held, step);
    held += got;
    require(held <= max_bytes, ErrorCode::io, path, ": holds more than the ", max_bytes,
            " bytes allowed");
    if (got < step) break;
    step = std::max(kChunk, held);
  }
  contents.resize(static_cast<size_t>(held));
  return contents;
}

AtomicFile::AtomicFile(const std::string& path, Links links) : path_(path) {
  check_path(path);
  target_ = links == Links::follow ? follow_links(path) : path;
  struct stat old;
  const bool exists = ::lstat(target_.c_str(), &old) == 0;
  const bool replaces_link = exists && links == Links::replace && S_ISLNK(old.st_mode);
  // As root, a rename would replace even /dev/null.
  require(!exists || replaces_link || S_ISREG(old.st_mode), ErrorCode::io, path_,
          ": cannot be written: it is no regular file");

  remove_abandoned(folder_of(target_), target_.substr(target_.rfind('/') + 1));
  descriptor_ = create_temporary(target_, temporary_);
  if (descriptor_ < 0) fail_to("create a file beside it", path_, errno);

  struct stat made;
  const bool keeps_mode = exists && !replaces_link;
  if (keeps_mode && (::fstat(descriptor_, &made) != 0 ||
                     (made.st_mode != old.st_mode && ::fchmod(descriptor_, old.st_mode) != 0))) {
    give_up("keep the permissions");
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ < 0) return;
  ::unlink(temporary_.c_str());  // while the lock is still held, so that nobody else removes it
  ::close(descriptor_);
  descriptor_ = -1;
}

void AtomicFile::give_up(std::string_view doing) {
  const int error = errno;
  discard();
  fail_to(doing, path_, error);
}

void AtomicFile::check_open(std::string_view doing) const {
  require(descriptor_ >= 0, ErrorCode::io, path_, ": ", doing, " after it was finished or failed");
}

void AtomicFile::write(std::string_view bytes) {
  check_open("written to");
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = ENOSPC;
    if (put <= 0) give_up("write");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

void AtomicFile::rewrite(int64_t offset, std::string_view bytes) {
  check_open("written to");
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = ENOSPC;
    if (put <= 0) give_up("write");
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += put;
  }
}

void AtomicFile::commit() {
  flush();
  take_name();
  flush_folder(folder_of(target_));
}

void AtomicFile::flush() {
  check_open("finished");
  if (::fsync(descriptor_) != 0) give_up("flush");
}

void AtomicFile::take_name() {
  check_open("finished");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) give_up("rename a file to it");
  // From here on the file is in place; close() has nothing left to write.
  ::close(descriptor_);
  descriptor_ = -1;
}

void flush_folder(const std::string& folder) {
  const int descriptor = open_retrying(folder, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0 && errno == EACCES) return;  // a folder that can be written but not read
  if (descriptor < 0) fail_to("open the folder", folder, errno);
  // EINVAL: a file system that cannot flush a folder has nothing to flush.
  const int error = ::fsync(descriptor) != 0 && errno != EINVAL ? errno : 0;
  ::close(descriptor);
  if (error != 0) fail_to("flush the folder", folder, error);
}

void make_folders(const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return;
  std::string path = folder;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::string parent = folder_of(path);
  if (parent != path) make_folders(parent);
  const int error = ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
  require(error == 0 || std::filesystem::is_directory(path, ignored), ErrorCode::io, folder,
          ": cannot create the folder: ", reason(error));
  if (error == 0) flush_folder(parent);
}

void remove_abandoned(const std::string& folder, std::string_view name) {
  // Not std::filesystem, whose iterator ends the program when memory runs out.
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries.get())) {
    const TemporaryName temporary = parse_temporary(entry->d_name);
    if (temporary.writer <= 0 || (!name.empty() && temporary.target != name)) continue;
    const std::string path = path_in(folder, entry->d_name);
    const int descriptor = open_retrying(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) continue;
    if (is_abandoned(descriptor)) ::unlink(path.c_str());
    ::close(descriptor);
  }
}

void write_file_atomically(const std::string& path, std::string_view contents, Links links) {
  AtomicFile file(path, links);
  file.write(contents);
  file.commit();
}

}  // namespace tril
