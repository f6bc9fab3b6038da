#include "lines.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace tril::app {

LineReader open_lines(const std::string& path) {
  return path == "-" ? LineReader::standard_input() : LineReader(path);
}

std::string fault_of(const LineReader& lines, std::string_view what) {
  if (!lines.too_long()) return {};
  return concat(what, " has more than ", lines.max_line_bytes(), " bytes: split it");
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
