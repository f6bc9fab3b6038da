#include "help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "terminal.h"
#include "tril/text/display.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* app) const override;
};

// A name with its meaning beside it, or below it where the name is long.
std::string entry(const std::string& name, const std::string& description) {
  constexpr int64_t kColumn = 24;
  const std::string indent(kColumn, ' ');
  const std::string head = concat("  ", name);
  if (description.empty()) return head + '\n';
  if (display_width(head) + 2 <= kColumn) {
    return set_text(description, pad_right(head, kColumn), indent);
  }
  return head + '\n' + set_text(description, indent, indent);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return set_text(app->get_description(), "", "");
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = CLI::Formatter::make_usage(app, std::move(name));
  usage.pop_back();
  return set_text(usage, "", "  ");
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(make_option_name(option, is_positional) + make_option_opts(option),
               make_option_desc(option));
}

// "INT=5", "FILE (required)"; without ranges and exclusions, which errors report.
std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  std::string text;
  if (option->get_type_size() != 0) {
    std::string type = option->get_type_name();
    type = type.substr(0, type.find(':'));
    if (!type.empty()) text += concat(" ", get_label(type));
    if (!option->get_default_str().empty()) text += concat("=", option->get_default_str());
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
  }
  if (option->get_required()) text += " (required)";
  return text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

// Examples, which are indented, are not reflowed.
std::string HelpFormatter::make_footer(const CLI::App* app) const {
  std::string footer = app->get_footer(), text;
  for (size_t at = 0; at < footer.size();) {
    const size_t end = std::min(footer.find('\n', at), footer.size());
    const std::string line = footer.substr(at, end - at);
    text += line.starts_with("  ") ? line + '\n' : set_text(line, "", "");
    at = end + 1;
  }
  return text;
}

}  // namespace

void set_help(CLI::App& app) { app.formatter(std::make_shared<HelpFormatter>()); }

}  // namespace tril::app
