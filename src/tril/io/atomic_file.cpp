#include "tril/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

#include "tril/base/error.h"

namespace tril {
namespace {

// As strerror, which may not be called by two threads at once.
std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_to(std::string_view doing, const std::string& path, int error) {
  fail(ErrorCode::io, path, ": cannot ", doing, ": ", reason(error));
}

// The system would stop reading the name at a NUL and take another file.
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

// Where the links of `path` lead; `path` itself when nothing is there yet.
std::string follow_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  return resolved == nullptr ? path : std::string(resolved.get());
}

// The process that a temporary file NAME.PID.N.tmp belongs to; 0 for any other name.
pid_t writer_of(std::string_view name) {
  constexpr std::string_view kEnd = ".tmp";
  if (!name.ends_with(kEnd)) return 0;
  name.remove_suffix(kEnd.size());
  std::array<int32_t, 2> numbers{};  // N, PID
  for (int32_t& number : numbers) {
    const size_t dot = name.rfind('.');
    if (dot == name.npos || dot == 0) return 0;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + dot + 1, end, number);
    if (error != std::errc() || at != end) return 0;
    name = name.substr(0, dot);
  }
  return numbers[1];
}

}  // namespace

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

std::string read_file(const std::string& path, int64_t max_bytes) {
  InputFile file(path);
  constexpr int64_t kChunk = 1 << 16;
  std::string contents;
  int64_t held = 0;
  // One byte past the size the file claims shows its end without another round.
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

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  check_path(path);
  target_ = follow_links(path);
  struct stat old;
  const bool replaces = ::stat(target_.c_str(), &old) == 0;
  // A rename as root would replace even /dev/null.
  require(!replaces || S_ISREG(old.st_mode), ErrorCode::io, path_,
          ": cannot be written: it is no regular file");

  static std::atomic<uint64_t> counter = 0;
  do {
    temporary_ = concat(target_, ".", ::getpid(), ".", counter++, ".tmp");
    descriptor_ = open_retrying(temporary_, O_WRONLY | O_CREAT | O_EXCL, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);  // left by a process that was killed
  if (descriptor_ < 0) fail_to("create a file beside it", path_, errno);

  struct stat made;
  if (replaces && (::fstat(descriptor_, &made) != 0 ||
                   (made.st_mode != old.st_mode && ::fchmod(descriptor_, old.st_mode) != 0))) {
    give_up("keep the permissions");
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
  descriptor_ = -1;
}

void AtomicFile::give_up(std::string_view doing) {
  const int error = errno;
  discard();
  fail_to(doing, path_, error);
}

void AtomicFile::write(std::string_view bytes) {
  require(descriptor_ >= 0, ErrorCode::io, path_, ": written to after it was finished or failed");
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = ENOSPC;
    if (put <= 0) give_up("write");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

void AtomicFile::commit() {
  require(descriptor_ >= 0, ErrorCode::io, path_, ": finished after it was finished or failed");
  if (::fsync(descriptor_) != 0) give_up("flush");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) give_up("rename a file to it");
  // From here on the file is in place; close() has nothing left to write.
  ::close(descriptor_);
  descriptor_ = -1;

  const int folder = open_retrying(folder_of(target_), O_RDONLY | O_DIRECTORY);
  if (folder < 0 && errno == EACCES) return;  // a folder that may be written but not read
  if (folder < 0) fail_to("open the folder", path_, errno);
  // EINVAL: a file system that cannot flush a folder has nothing to flush.
  const int error = ::fsync(folder) != 0 && errno != EINVAL ? errno : 0;
  ::close(folder);
  if (error != 0) fail_to("flush the folder", path_, error);
}

void remove_abandoned(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const pid_t writer = writer_of(entry.path().filename().string());
    const bool gone = writer > 0 && ::kill(writer, 0) != 0 && errno == ESRCH;
    if (gone) ::unlink(entry.path().c_str());
  }
}

void write_file_atomically(const std::string& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

}  // namespace tril
