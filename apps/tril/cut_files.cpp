#include "cut_files.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "output.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

// What a signal handler may call: write(2), and functions that look at memory alone.
void on_bus_error(int signal, siginfo_t* info, void*) {
  // Only where the hardware caused it is there an address.
  const char* path = info->si_code > 0 ? MappedFile::path_at(info->si_addr) : nullptr;
  if (path == nullptr) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  message("tril: ");
  for (const char* at = path; *at != '\0'; ++at) {
    const bool is_control = (*at >= 0 && *at < 0x20) || *at == 0x7F;  // it could command a terminal
    message(is_control ? "?" : std::string_view(at, 1));
  }
  message(": cut short or unreadable while in use\n");
  ::_exit(2);
}

}  // namespace

void tell_of_cut_files() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace tril::app
