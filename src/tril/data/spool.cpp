#include "tril/data/spool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "tril/base/error.h"

namespace tril {
namespace {

[[noreturn]] void fail_to(std::string_view doing, const std::string& folder) {
  const int error = errno;
  fail(ErrorCode::io, folder, ": cannot ", doing,
       " a temporary file for the corpus: ", std::generic_category().message(error));
}

}  // namespace

Spool::Spool(std::string folder, int64_t memory_bytes)
    : folder_(std::move(folder)), memory_bytes_(memory_bytes) {}

Spool::Spool(Spool&& other) noexcept : memory_bytes_(0) { *this = std::move(other); }

Spool& Spool::operator=(Spool&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(memory_bytes_, other.memory_bytes_);
  std::swap(buffer_, other.buffer_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  // Short strings are stored inside their object, so views into them have to be set again.
  for (Spool* spool : {this, &other}) {
    if (spool->descriptor_ < 0 && spool->data_ != nullptr) spool->data_ = spool->buffer_.data();
  }
  return *this;
}

Spool::~Spool() {
  if (descriptor_ < 0) return;
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), static_cast<size_t>(size_));
  ::close(descriptor_);
}

void Spool::append(std::string_view bytes) {
  buffer_.append(bytes);
  size_ += static_cast<int64_t>(bytes.size());
  const int64_t limit = descriptor_ < 0 ? memory_bytes_ : 1 << 20;
  if (static_cast<int64_t>(buffer_.size()) <= limit) return;
  if (descriptor_ < 0) {
    std::string name = folder_ + "/.corpus-XXXXXX";
    descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0) fail_to("create", folder_);
    ::unlink(name.c_str());
  }
  flush();
}

void Spool::flush() {
  for (std::string_view rest = buffer_; !rest.empty();) {
    const ssize_t wrote = ::write(descriptor_, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_to("write", folder_);
    rest.remove_prefix(static_cast<size_t>(wrote));
  }
  buffer_.clear();
}

void Spool::finish() {
  if (descriptor_ < 0) {
    data_ = buffer_.data();
    return;
  }
  flush();
  buffer_.shrink_to_fit();
  void* mapped = ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) fail_to("map", folder_);
  data_ = static_cast<const char*>(mapped);
}

}  // namespace tril
