// tril: the program. Results go to stdout, everything else to stderr; any error is one line.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <sstream>
#include <system_error>

#include "advice.h"
#include "commands.h"
#include "cut_files.h"
#include "flags.h"
#include "help.h"
#include "output.h"
#include "progress.h"
#include "suggest.h"
#include "terminal.h"
#include "tril/tril.h"

std::string tril::app::program_name() {
  const char* name = std::getenv("TRIL_NAME");
  return name == nullptr ? "tril" : name;
}

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

// One line per command, for people who start the program without an argument.
void list_commands(const CLI::App& app) {
  fmt::print("{}\n", tril::app::set_text(app.get_description(), "", ""));
  tril::app::Table table;
  for (const CLI::App* command : commands_of(app)) {
    if (command->get_group().empty()) continue;  // hidden
    table.push_back({command->get_name(), command->get_description()});
  }
  tril::app::print_table(table, tril::app::Align::left);
  fmt::print("\nStart with '{0} demo'. '{0} help COMMAND' lists every option.\n",
             tril::app::program_name());
}

void add_commands(CLI::App& app) {
  tril::app::add_demo(app);
  tril::app::add_lesson(app);
  tril::app::add_train(app);
  tril::app::add_translate(app);
  tril::app::add_generate(app);
  tril::app::add_score(app);
  tril::app::add_serve(app);
  tril::app::add_verify_answer(app);
  tril::app::add_evaluate(app);
  tril::app::add_quantize(app);
  tril::app::add_shortlist(app);
  tril::app::add_verify(app);
  tril::app::add_prove(app);
  tril::app::add_explain(app);
  tril::app::add_bench(app);
  tril::app::add_import(app);
  tril::app::add_export(app);
  tril::app::add_info(app);
  tril::app::add_describe(app);
}

// An empty path, as from an unset shell variable, is refused wherever a file or a folder is read or
// written.
void refuse_empty_paths(CLI::App& app) {
  const CLI::Validator named(
      [](std::string& path) { return path.empty() ? "is empty: give a path" : std::string(); }, "");
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options()) {
      // The options of a run, which --resume reads, say that it learnt its tokenizer by "".
      if (option->check_lname("tokenizer")) continue;
      const std::string type = option->get_type_name();
      const std::string value = type.substr(0, type.find(':'));
      if (value == tril::app::kFile || value == tril::app::kFolder) option->check(named);
    }
  }
}

// --names of a command's options.
std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Last first, as CLI11 takes them.
std::vector<std::string> arguments_of(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.resize(std::min<size_t>(arguments.size(), 1));
    arguments.emplace_back("--help");
  }
  const std::string command = arguments.front();
  const std::vector<std::string> names = names_of(commands_of(app));
  tril::require(command.empty() || command.starts_with('-') ||
                    std::find(names.begin(), names.end(), command) != names.end(),
                tril::ErrorCode::invalid_argument, "there is no command '", command, "'",
                tril::app::did_you_mean(command, names), "; 'tril help' lists them");
  if (command == "train") {
    arguments = tril::app::with_files({arguments.begin() + 1, arguments.end()},
                                      options_of(*app.get_subcommand(command)));
    arguments.insert(arguments.begin(), command);
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

std::string in_our_words(const CLI::Error& error) {
  const std::string text = error.what();
  const std::string option = text.substr(0, text.find(':'));
  constexpr std::string_view kConvert = "Could not convert: ";
  if (text.starts_with(kConvert)) {
    const size_t equals = text.find(" = ");
    if (equals == std::string::npos) return text;
    return tril::concat(text.substr(kConvert.size(), equals - kConvert.size()), ": '",
                        text.substr(equals + 3), "' is not a value it takes");
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return text;
  if (text.ends_with(" missing")) return option + " needs a value";
  if (text.find("At Most 1") != std::string::npos) return option + " is given more than once";
  return text;
}

// For an argument that is missing: "give a model folder: tril prove MODEL".
std::string what_to_give(const CLI::App& command, const std::string& problem) {
  const std::string name = problem.substr(0, problem.find(' '));
  const CLI::Option* option = command.get_option_no_throw(name);
  if (option == nullptr || !option->get_positional()) return problem;
  const auto in_case = [](std::string text, size_t letters, int (*changed)(int)) {
    for (size_t i = 0; i < std::min(letters, text.size()); ++i) {
      text[i] = static_cast<char>(changed(static_cast<unsigned char>(text[i])));
    }
    return text;
  };
  return tril::concat("give ", in_case(option->get_description(), 1, std::tolower), ": tril ",
                      command.get_name(), " ", in_case(name, name.size(), std::toupper));
}

// CLI11's complaint, reworded where its own text is hard to read.
std::string problem_of(const CLI::App& command, const CLI::Error& error) {
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return what_to_give(command, error.what());
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
    return tril::app::origin_of(error.what()) + in_our_words(error);
  }
  for (const std::string& word : command.remaining(true)) {
    if (!word.starts_with("-")) continue;
    const std::string name = word.substr(0, word.find('='));
    return tril::concat("there is no option '", name, "'",
                        tril::app::did_you_mean(name, options_of(command)));
  }
  const auto words = command.remaining(true);
  if (words.empty()) return error.what();
  const std::string name = command.get_name();
  if (name == "translate" && (words.front() == "long" || words.front() == "always")) {
    return tril::concat("'", words.front(), "' was not expected: as a value of --split it is ",
                        "written --split=", words.front());
  }
  if (name == "translate" || name == "generate" || name == "score") {
    return tril::concat("'", words.front(), "' was not expected: ", name,
                        " reads lines from --input or stdin, as in echo 'How are you?' | tril ",
                        name, " MODEL");
  }
  return tril::concat("'", words.front(), "' was not expected");
}

// The same where no command comes first.
std::string problem_without_command(const std::string& word, const CLI::Error& error) {
  if (dynamic_cast<const CLI::RequiredError*>(&error) == nullptr &&
      dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
    return error.what();
  }
  if (!word.starts_with("-")) return "give a command, as in 'tril demo'";
  return tril::concat("there is no option '", word.substr(0, word.find('=')),
                      "'; a command comes first, as in 'tril demo'");
}

// Runs the command that was given; returns the exit code.
int run(int argc, char** argv) {
  CLI::App app(
      "tril: Transformers whose parallel training pass and token-by-token decoding are the same "
      "function, bit for bit.");
  app.name("tril");
  tril::app::set_help(app);
  app.footer("'tril help COMMAND' lists every option of a command, with an example.");
  app.set_version_flag("--version", tril::concat("tril ", tril::kVersion));
  app.require_subcommand(1);
  const std::string command = argc > 1 ? argv[1] : "";
  app.failure_message([&](const CLI::App* root, const CLI::Error& error) {
    const auto chosen = root->get_subcommands();  // those found on the command line
    const bool known = !chosen.empty() && chosen.front()->get_name() == command;
    const std::string problem =
        known ? problem_of(*chosen.front(), error) : problem_without_command(command, error);
    return tril::app::error_line(
        fmt::format("{} (try 'tril help{}')", tril::escaped(problem), known ? " " + command : ""));
  });
  add_commands(app);
  refuse_empty_paths(app);
  try {
    if (argc > 1) {
      app.parse(arguments_of(app, argc, argv));
    } else {
      list_commands(app);
    }
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    tril::app::message(err.str());
    fmt::print("{}", out.str());
    return code == 0 ? 0 : 2;
  } catch (const tril::app::Failed&) {
    return 1;
  } catch (const tril::app::Told&) {
    return 2;
  }
  return 0;
}

// A hint on what needs less memory, where there is one.
std::string_view what_needs_less(std::string_view command) {
  if (command == "train") return "try a smaller --micro-batch-tokens, --max-tokens or --preset";
  if (command == "translate" || command == "generate" || command == "evaluate") {
    return "try a smaller --batch, --beam or --max-tokens, or --compute int8";
  }
  if (command == "score") return "try shorter lines, or --compute int8";
  return "try on a machine with more memory, or when less of it is in use";
}

// Prints the exception being handled in one line; returns the exit code.
int tell_error(std::string_view command) {
  using tril::app::message;
  const auto error = [](std::string_view text) {
    message(tril::app::error_line(tril::escaped(text)));
    return 2;
  };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    // Without allocating memory.
    for (const std::string_view part :
         {std::string_view("tril: "), command, std::string_view(": out of memory: "),
          what_needs_less(command), std::string_view("\n")}) {
      message(part);
    }
    return 2;
  } catch (const std::system_error& failure) {
    // The exception that fmt::print() throws.
    if (std::ferror(stdout) != 0) {
      if (failure.code().value() == EPIPE) return 0;
      return error("the output could not be written: " + failure.code().message());
    }
    if (failure.code() == std::errc::resource_unavailable_try_again) {
      return error(
          fmt::format("{}: threads could not be started ({}): give a smaller --threads, "
                      "or raise the limit of processes",
                      command, failure.code().message()));
    }
    return error(failure.what());
  } catch (const tril::Error& failure) {
    const bool memory = failure.code() == tril::ErrorCode::out_of_memory;
    return error(memory
                     ? fmt::format("{}: {}; {}", command, failure.what(), what_needs_less(command))
                     : tril::app::with_advice(failure.what(), failure.field()));
  } catch (const std::exception& failure) {
    return error(failure.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  tril::app::prepare_standard_streams();
  tril::app::tell_of_cut_files();
  int code = 0;
  try {
    code = run(argc, argv);
    tril::app::flush_output();
  } catch (const tril::app::OutputClosed&) {
    return code;
  } catch (const tril::app::Stopped& stopped) {
    return 128 + stopped.signal;
  } catch (...) {
    return tell_error(argc > 1 ? argv[1] : "");
  }
  return code;
}
