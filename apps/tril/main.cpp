// tril: the program. Results go to stdout, everything else to stderr; any error is one line.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "commands.h"
#include "progress.h"
#include "tril/tril.h"

std::string tril::app::program_name() {
  const char* name = std::getenv("TRIL_NAME");
  return name == nullptr ? "tril" : name;
}

namespace {

// What there is, a line each: for who starts the program without a word.
void list_commands(const CLI::App& app) {
  fmt::print("{}\n\n", app.get_description());
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    fmt::print("  {:<10} {}\n", command->get_name(), command->get_description());
  }
  fmt::print("\nBegin with: {0} demo. Every option: {0} COMMAND --help.\n",
             tril::app::program_name());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "tril: Transformers whose parallel training pass and step-by-step decoding are the same\n"
      "function, bit for bit.");
  app.name("tril");
  app.set_version_flag("--version", "tril 0.1.0");
  app.require_subcommand(1);
  const std::string command = argc > 1 ? argv[1] : "";
  app.failure_message([&](const CLI::App* root, const CLI::Error& error) {
    const auto chosen = root->get_subcommands();  // those that were found on the command line
    const bool known = !chosen.empty() && chosen.front()->get_name() == command;
    return fmt::format("tril: {} (try 'tril {}--help')\n", tril::escaped(error.what()),
                       known ? command + " " : "");
  });
  tril::app::add_demo(app);
  tril::app::add_lesson(app);
  tril::app::add_train(app);
  tril::app::add_translate(app);
  tril::app::add_generate(app);
  tril::app::add_score(app);
  tril::app::add_evaluate(app);
  tril::app::add_quantize(app);
  tril::app::add_shortlist(app);
  tril::app::add_verify(app);
  tril::app::add_prove(app);
  tril::app::add_explain(app);
  tril::app::add_bench(app);
  tril::app::add_info(app);
  int code = 0;
  try {
    const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
    tril::require(command.empty() || command.starts_with('-') ||
                      std::any_of(commands.begin(), commands.end(),
                                  [&](const CLI::App* one) { return one->get_name() == command; }),
                  tril::ErrorCode::invalid_argument, "there is no command '", command,
                  "' (try 'tril --help')");
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (command == "train") {
      arguments = tril::app::with_files({argv + 2, argv + argc});
      arguments.insert(arguments.begin(), command);
    }
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    if (argc > 1) {
      app.parse(std::move(arguments));
    } else {
      list_commands(app);
    }
  } catch (const CLI::ParseError& error) {
    code = app.exit(error) == 0 ? 0 : 2;
  } catch (const tril::app::Failed&) {
    code = 1;
  } catch (const tril::app::Stopped& stopped) {
    return 128 + stopped.signal;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tril: {}\n", tril::escaped(error.what()));
    return 2;
  }
  if (std::fflush(stdout) != 0) {
    fmt::print(stderr, "tril: the output could not be written\n");
    return 2;
  }
  return code;
}
