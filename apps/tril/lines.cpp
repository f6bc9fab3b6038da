#include "lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "output.h"
#include "tril/data/lines.h"

namespace tril::app {

LineReader open_lines(const std::string& path) {
  if (path != "-") return LineReader(path);
  // A descriptor that was closed is as prepare_standard_streams() left it.
  const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
  require(flags >= 0 && (flags & O_PATH) == 0, ErrorCode::io, "stdin is closed: nothing to read");
  return LineReader::standard_input();
}

std::string fault_of(const LineReader& lines, std::string_view what) {
  if (!lines.too_long()) return {};
  return concat(what, " has more than ", lines.max_line_bytes(), " bytes: split it");
}

bool LineWriter::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) return false;
    if (written < 0) fail_output(errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace tril::app
