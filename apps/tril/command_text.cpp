#include "command_text.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "flags.h"

namespace tril::app {
namespace {

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t end = 0; end != std::string::npos; at = end + by.size()) {
    end = text.find(by, at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string::npos) break;
  }
  return parts;
}

// What stands between two marks; nothing where they are not there.
std::optional<std::string> between(const std::string& text, const std::string& open,
                                   const std::string& close) {
  const size_t begin = text.find(open);
  if (begin == std::string::npos) return std::nullopt;
  const size_t end = text.find(close, begin + open.size());
  if (end == std::string::npos) return std::nullopt;
  return text.substr(begin + open.size(), end - begin - open.size());
}

// The type name is "TYPE", followed by ":" and the description of each validator that has one.
void read_value(const CLI::Option& option, OptionText& text) {
  const std::string type = option.get_type_name();
  if (const auto words = between(type, ":{", "}")) {
    text.kind = Value::words;
    text.words = split(*words, ",");
    text.other_words = text.words.back() == kOtherWords;
    if (text.other_words) text.words.pop_back();
  }
  text.value = type.substr(0, type.find(':'));
  const bool is_flag = option.get_items_expected_max() == 0;
  text.optional_value = is_flag && text.kind == Value::words;
  if (is_flag) return;
  if (text.kind == Value::none) {
    text.kind = text.value == kFile     ? Value::file
                : text.value == kFolder ? Value::folder
                                        : Value::text;
  }
  if (const auto range = between(type, " in [", "]")) {
    const std::vector<std::string> ends = split(*range, " - ");
    if (ends.size() == 2) {
      text.least = ends[0];
      text.most = ends[1];
    }
  }
  const bool many = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  text.several_values = many && option.get_allow_extra_args();
  text.may_be_repeated = many;
  text.separated_values = many && option.get_delimiter() == ',';
}

OptionText option_text(const CLI::Option& option) {
  OptionText text;
  text.argument = option.get_positional() ? option.get_name(true) : "";
  if (!option.get_snames().empty()) text.short_name = "-" + option.get_snames().front();
  if (!option.get_lnames().empty()) text.long_name = "--" + option.get_lnames().front();
  text.group = option.get_group();
  text.help = option.get_description();
  text.initial = option.get_default_str();
  text.required = option.get_required();
  read_value(option, text);
  return text;
}

// Examples are indented and follow a line "Example:" or "Examples:".
Footer read_footer(const std::string& footer) {
  Footer text;
  for (const std::string& paragraph : split(footer, "\n\n")) {
    std::string running;
    for (const std::string& line : split(paragraph, "\n")) {
      if (line.starts_with("  ")) {
        text.examples.push_back(line.substr(2));
      } else if (line != "Example:" && line != "Examples:" && !line.empty()) {
        running += (running.empty() ? "" : " ") + line;
      }
    }
    if (!running.empty()) text.paragraphs.push_back(running);
  }
  return text;
}

CommandText command_text(const CLI::App& command) {
  CommandText text;
  text.name = command.get_name();
  text.help = command.get_description();
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    OptionText read = option_text(*option);
    (read.argument.empty() ? text.options : text.arguments).push_back(std::move(read));
  }
  text.footer = read_footer(command.get_footer());
  return text;
}

}  // namespace

ProgramText program_text(const CLI::App& app) {
  ProgramText text;
  text.version = app.version();
  text.itself = command_text(app);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) text.commands.push_back(command_text(*command));
  }
  return text;
}

const std::string& name_of(const OptionText& option) {
  if (!option.long_name.empty()) return option.long_name;
  return option.short_name.empty() ? option.argument : option.short_name;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string all;
  for (const std::string& word : words) {
    if (!all.empty()) all += between;
    all += word;
  }
  return all;
}

}  // namespace tril::app
