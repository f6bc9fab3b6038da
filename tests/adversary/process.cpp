#include "process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include "files.h"

extern char** environ;

namespace adversary {
namespace {

constexpr unsigned kNobody = 65534;

// Between fork and exec the child may not allocate, so everything is prepared before.
struct Prepared {
  std::vector<char*> arguments;
  std::vector<std::string> settings;
  std::vector<char*> environment;

  explicit Prepared(const Child& child) {
    for (const std::string& argument : child.arguments) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    for (const auto& [name, value] : child.environment) settings.push_back(name + "=" + value);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      bool given = false;
      for (const auto& [name, value] : child.environment) given |= text.starts_with(name + "=");
      if (!given) environment.push_back(*entry);
    }
    for (std::string& setting : settings) environment.push_back(setting.data());
    environment.push_back(nullptr);
  }
};

void take(const char* file, int flags, int as) {
  ::close(as);
  if (std::strcmp(file, kClosed) == 0) return;
  const int descriptor = ::open(file, flags, 0666);
  if (descriptor < 0) ::_exit(126);
  if (descriptor == as) return;
  if (::dup2(descriptor, as) < 0) ::_exit(126);
  ::close(descriptor);
}

[[noreturn]] void become(const Child& child, const Prepared& prepared, const char* output,
                         const char* errors) {
  // Highest first, so that a descriptor that stays closed is not taken by the next file.
  take(errors, O_WRONLY | O_CREAT | O_TRUNC, 2);
  take(output, O_WRONLY | O_CREAT | O_TRUNC, 1);
  take(child.input.c_str(), O_RDONLY, 0);
  if (child.largest_file >= 0) {
    const auto bytes = static_cast<rlim_t>(child.largest_file);
    const rlimit limit{bytes, bytes};
    ::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(126);
  }
  if (child.as_nobody && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(126);
  ::execve(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
  ::_exit(127);
}

std::string shown(const std::string& file) { return is_regular(file) ? read_all(file) : ""; }

}  // namespace

Ended run(const Child& child) {
  using Clock = std::chrono::steady_clock;
  const std::string output = child.output.empty() ? child.folder + "/out" : child.output;
  const std::string errors = child.errors.empty() ? child.folder + "/err" : child.errors;
  const Prepared prepared(child);
  const auto start = Clock::now();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("cannot fork");
  if (pid == 0) become(child, prepared, output.c_str(), errors.c_str());
  Ended ended;
  bool sent = false;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    ended.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const bool kill_now = child.kill_after >= 0 && ended.seconds >= child.kill_after;
    ended.hung = ended.hung || (!sent && ended.seconds > child.limit);
    if (!sent && (kill_now || ended.hung)) {
      ::kill(pid, SIGKILL);
      sent = true;
    }
    ::usleep(500);
  }
  ended.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (WIFSIGNALED(status)) {
    ended.signal = WTERMSIG(status);
  } else {
    ended.code = WEXITSTATUS(status);
  }
  if (ended.code == 126 || ended.code == 127) {
    throw std::runtime_error("cannot start " + shell_line(child.arguments));
  }
  if (child.output.empty()) ended.out = shown(output);
  if (child.errors.empty()) ended.err = shown(errors);
  return ended;
}

std::string shell_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) {
    bool plain = !argument.empty();
    for (const char c : argument) {
      plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                        std::strchr("/._-+=:,@", c) != nullptr);
    }
    line += (line.empty() ? "" : " ") + (plain ? argument : "'" + argument + "'");
  }
  return line;
}

}  // namespace adversary
