#include "tril/io/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "tril/base/error.h"
#include "tril/io/atomic_file.h"

namespace tril {
namespace {

// A mapping and its path. `begin` is 0 in a free entry, and is written last, so that a reader who
// sees it sees the rest.
struct Mapping {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<size_t> size{0};
  std::atomic<const char*> path{nullptr};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free &&
                  std::atomic<const char*>::is_always_lock_free,
              "a signal handler reads them");

constexpr size_t kMappings = 256;
std::array<Mapping, kMappings> mappings;

void enter(const void* memory, size_t size, const char* path) {
  for (Mapping& mapping : mappings) {
    if (mapping.taken.exchange(true)) continue;
    mapping.size = size;
    mapping.path = path;
    mapping.begin = reinterpret_cast<uintptr_t>(memory);
    return;
  }
}

void remove(const void* memory) {
  for (Mapping& mapping : mappings) {
    if (mapping.begin != reinterpret_cast<uintptr_t>(memory)) continue;
    mapping.begin = 0;
    mapping.taken = false;
    return;
  }
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : MappedFile(InputFile(path)) {}

MappedFile::MappedFile(const InputFile& file) : path_(file.path()) {
  struct stat status {};
  int error = ::fstat(file.descriptor(), &status) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(status.st_mode)) error = EINVAL;
  if (error == 0 && status.st_size > 0) {
    size_ = static_cast<size_t>(status.st_size);
    void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (memory == MAP_FAILED) {
      error = errno;
    } else {
      memory_ = memory;
    }
  }
  require(error == 0, ErrorCode::io, path_,
          ": cannot map: ", std::generic_category().message(error));
  if (memory_ != nullptr) enter(memory_, size_, path_.c_str());
}

MappedFile::~MappedFile() {
  if (memory_ == nullptr) return;
  remove(memory_);
  ::munmap(const_cast<void*>(memory_), size_);
}

void MappedFile::release(std::string_view part) const noexcept {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  if (part.empty()) return;
  // Pages that are only partly in it are released too: the next access reads them again.
  const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  // It may be refused, where pages are locked: then they just stay.
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

const char* MappedFile::path_at(const void* address) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Mapping& mapping : mappings) {
    const uintptr_t begin = mapping.begin;
    if (begin != 0 && at >= begin && at - begin < mapping.size) return mapping.path;
  }
  return nullptr;
}

}  // namespace tril
