#include "cut_files.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

#include "output.h"
#include "tril/io/mapped_file.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

// Calls only what a signal handler may: write(2), and functions that just read memory.
void on_bus_error(int signal, siginfo_t* info, void*) {
  // There is an address only where the hardware raised the signal.
  const char* path = info->si_code > 0 ? MappedFile::path_at(info->si_addr) : nullptr;
  if (path == nullptr) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  // Several threads may get the signal at once: one reports it, the others wait for the end.
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  while (told.test_and_set()) ::pause();
  static char line[4200];
  size_t size = 0;
  const auto add = [&](const char* text) {
    for (; *text != '\0' && size < sizeof line; ++text) {
      const auto byte = static_cast<unsigned char>(*text);
      line[size++] = byte == '\n' || (byte >= 0x20 && byte != 0x7F) ? *text : '?';
    }
  };
  add("tril: ");
  add(path);
  add(": cut short or unreadable while in use\n");
  message({line, size});
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
