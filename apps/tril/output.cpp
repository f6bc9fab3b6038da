#include "output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "tril/tril.h"

namespace tril::app {

void prepare_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding a file size limit becomes an error of the call, too
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // Takes the lowest free descriptor, and can be neither read nor written.
    const int taken = ::open("/", O_PATH);
    if (taken > 2) ::close(taken);
  }
}

void message(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void fail_output(int error) {
  if (error == EPIPE) throw OutputClosed{};
  require(error != EBADF, ErrorCode::io, "the output could not be written: stdout is closed");
  fail(ErrorCode::io, "the output could not be written: ", std::generic_category().message(error));
}

void flush_output() {
  if (std::fflush(stdout) != 0) fail_output(errno);
  // An earlier write failed unnoticed: the reason is lost, and so is some of the output.
  require(std::ferror(stdout) == 0, ErrorCode::io, "the output could not be written");
}

}  // namespace tril::app
