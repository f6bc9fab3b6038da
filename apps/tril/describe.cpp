#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "command_text.h"
#include "commands.h"
#include "completions.h"
#include "flags.h"
#include "man_pages.h"
#include "tril/base/error.h"
#include "tril/io/atomic_file.h"

namespace tril::app {
namespace {

struct DescribeFlags {
  std::string form;
  std::string command;
  std::string folder;
};

// Today, or, for files that are to be the same whenever they are made, the time that
// SOURCE_DATE_EPOCH names (reproducible-builds.org).
std::string date_of_pages() {
  std::time_t seconds = std::time(nullptr);
  if (const char* given = std::getenv("SOURCE_DATE_EPOCH")) {
    std::string digits = given;
    const std::string problem = any_count()(digits);
    require(problem.empty(), ErrorCode::invalid_argument, "SOURCE_DATE_EPOCH: ", problem);
    seconds = static_cast<std::time_t>(std::stoll(digits));
  }
  constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                   "May",       "June",     "July",     "August",
                                                   "September", "October",  "November", "December"};
  std::tm day{};
  require(gmtime_r(&seconds, &day) != nullptr, ErrorCode::invalid_argument,
          "SOURCE_DATE_EPOCH is no time of this calendar");
  return fmt::format("{} {}, {}", kMonths[static_cast<size_t>(day.tm_mon)], day.tm_mday,
                     day.tm_year + 1900);
}

void write(const std::string& folder, const std::string& name, const std::string& text) {
  make_folders(folder);
  write_file_atomically(path_in(folder, name), text);
}

void write_pages(const ProgramText& program, const DescribeFlags& flags) {
  const std::string chosen = flags.command.empty() ? "tril" : "tril-" + flags.command;
  bool there = false;
  for (const ManPage& page : man_pages(program, date_of_pages())) {
    if (!flags.folder.empty()) {
      write(flags.folder, page.name + ".1", page.text);
    } else if (page.name == chosen) {
      fmt::print("{}", page.text);
      there = true;
    }
  }
  require(there || !flags.folder.empty(), ErrorCode::invalid_argument,
          "describe: there is no command '", flags.command, "'");
}

void run(const CLI::App& app, const DescribeFlags& flags) {
  require(flags.command.empty() || (flags.form == "man" && flags.folder.empty()),
          ErrorCode::invalid_argument,
          "describe: a command is named only to print its manual page");
  const ProgramText program = program_text(app);
  if (flags.form == "man") return write_pages(program, flags);
  const std::string text = flags.form == "bash"  ? bash_completion(program)
                           : flags.form == "zsh" ? zsh_completion(program)
                                                 : fish_completion(program);
  // The names by which the shells look for them.
  const std::string name = flags.form == "bash"  ? "tril"
                           : flags.form == "zsh" ? "_tril"
                                                 : "tril.fish";
  if (flags.folder.empty()) {
    fmt::print("{}", text);
  } else {
    write(flags.folder, name, text);
  }
}

}  // namespace

void add_describe(CLI::App& app) {
  auto flags = std::make_shared<DescribeFlags>();
  CLI::App* describe = app.add_subcommand(
      "describe", "Write manual pages or a shell's completions, from the program's own options");
  describe->group("");  // for whoever installs the program: not listed
  describe
      ->add_option("form", flags->form, "man, for manual pages, or the shell: bash, zsh or fish")
      ->check(among({"man", "bash", "zsh", "fish"}))
      ->required();
  describe->add_option("command", flags->command,
                       "With man: the command whose page to print (default: that of tril)");
  describe
      ->add_option("-o,--output", flags->folder,
                   "Write files to this folder, man pages of every command; without it, stdout")
      ->type_name(kFolder);
  describe->footer(
      "Examples:\n  tril describe man translate | man -l -\n  tril describe man -o man1\n"
      "  source <(tril describe bash)");
  describe->callback([&app, flags] { run(app, *flags); });
}

}  // namespace tril::app
