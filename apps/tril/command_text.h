// The program's commands and options as plain data: what man pages and completions are made of.
//
// Nothing in it is written for them. It is read from the tree that parses the command line: names,
// help texts, defaults and footers, and what values an option takes from the descriptions of its
// validators (flags.h: "{yes,no}" for words, "INT in [0 - 9]" for numbers).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace tril::app {

// What a shell completes.
enum class Value { none, text, words, file, folder };

// An option, or an argument without a name in front of it.
struct OptionText {
  std::string short_name;  // "-o"; empty: none
  std::string long_name;   // "--output"; empty: none
  std::string argument;    // what an argument is called ("model"); empty for an option
  std::string group;       // the heading it stands under in 'tril help'
  std::string help;
  std::string initial;  // the default; empty: none is shown

  Value kind = Value::none;        // of its value; none: it takes no value
  std::string value;               // what the help calls its value: "FILE"
  std::vector<std::string> words;  // where the kind is `words`
  bool other_words = false;        // these are not all that it takes
  std::string least, most;         // of a number; empty: not known

  bool required = false;
  bool optional_value = false;    // --split or --split=long, but not --split long
  bool several_values = false;    // one after the other: --source a b
  bool may_be_repeated = false;   // --forbid 1 --forbid 2
  bool separated_values = false;  // with commas between: --only gemm,attention
};

// What follows a command's options in its help.
struct Footer {
  std::vector<std::string> paragraphs;
  std::vector<std::string> examples;  // lines, as they are typed
};

struct CommandText {
  std::string name;
  std::string help;
  std::vector<OptionText> options;    // with a name
  std::vector<OptionText> arguments;  // without, in their order
  Footer footer;
};

struct ProgramText {
  std::string version;  // "tril 0.1.0"
  CommandText itself;   // its own options, before any command
  std::vector<CommandText> commands;
};

// Commands and options that 'tril help' does not list are left out.
ProgramText program_text(const CLI::App& app);

// "--output", "-o", or for an argument its name.
const std::string& name_of(const OptionText& option);
std::string joined(const std::vector<std::string>& words, std::string_view between);

}  // namespace tril::app
