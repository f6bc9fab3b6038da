#include "lines.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "tril/tril.h"

namespace tril::app {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;
constexpr size_t kMaxLineBytes = size_t{1} << 24;

int open_input(const std::string& path) {
  if (path == "-") return STDIN_FILENO;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, ErrorCode::io, path, ": cannot be opened: ", std::strerror(errno));
  return descriptor;
}

}  // namespace

LineReader::LineReader(const std::string& path)
    : name_(path == "-" ? "stdin" : path), descriptor_(open_input(path)) {}

LineReader::~LineReader() {
  if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
}

bool LineReader::is_terminal() const { return ::isatty(descriptor_) != 0; }

bool LineReader::fill(Wait wait) {
  if (ended_) return false;
  pollfd ready{.fd = descriptor_, .events = POLLIN, .revents = 0};
  if (wait == Wait::no && ::poll(&ready, 1, 0) <= 0) return false;
  buffer_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  const size_t held = buffer_.size();
  require(held <= kMaxLineBytes, ErrorCode::invalid_argument, name_, ": line ", lines_ + 1,
          " is longer than ", kMaxLineBytes, " bytes");
  buffer_.resize(held + kReadBytes);
  ssize_t got = 0;
  do {
    got = ::read(descriptor_, buffer_.data() + held, kReadBytes);
  } while (got < 0 && errno == EINTR);
  const int reason = errno;
  buffer_.resize(held + static_cast<size_t>(got > 0 ? got : 0));
  require(got >= 0, ErrorCode::io, name_, ": cannot be read: ", std::strerror(reason));
  ended_ = got == 0;
  return true;
}

std::optional<std::string> LineReader::next(Wait wait) {
  for (;;) {
    const size_t end = buffer_.find('\n', scanned_);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(begin_, end - begin_);
      begin_ = scanned_ = end + 1;
      ++lines_;
      return line;
    }
    scanned_ = buffer_.size();
    if (fill(wait)) continue;
    if (!ended_ || begin_ == buffer_.size()) return std::nullopt;
    std::string last = buffer_.substr(begin_);
    begin_ = buffer_.size();
    ++lines_;
    return last;
  }
}

LineWriter::LineWriter() { std::signal(SIGPIPE, SIG_IGN); }

bool LineWriter::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) return false;
    require(written > 0, ErrorCode::io, "the output could not be written: ", std::strerror(errno));
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace tril::app
