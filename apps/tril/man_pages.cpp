#include "man_pages.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

namespace tril::app {
namespace {

constexpr size_t kLineBytes = 78;  // of the source; mandoc warns at more than 80

// The character whose UTF-8 begins at `at`, which moves behind it.
char32_t next_character(std::string_view text, size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t character = lead & (0x3F >> more);
  for (int i = 0; i < more && at < text.size(); ++i) {
    character = (character << 6) | (static_cast<unsigned char>(text[at++]) & 0x3F);
  }
  return character;
}

enum class Hyphens { as_they_are, literal };

// Text in which roff sees no commands and changes no character. Literal hyphens are those that are
// typed, and are not to become typographic ones.
std::string escaped_roff(std::string_view text, Hyphens hyphens) {
  std::string escaped;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    switch (c) {
      case '\\': escaped += "\\e"; break;
      case '\'': escaped += "\\(aq"; break;
      case '`': escaped += "\\(ga"; break;
      case '^': escaped += "\\(ha"; break;
      case '~': escaped += "\\(ti"; break;
      case '"': escaped += "\\(dq"; break;
      case '-': escaped += hyphens == Hyphens::literal ? "\\-" : "-"; break;
      default:
        escaped += c < 0x80 ? std::string(1, static_cast<char>(c))
                            : fmt::format("\\[u{:04X}]", static_cast<uint32_t>(c));
    }
  }
  return escaped;
}

// An argument of a macro: one word of mdoc, whatever it holds. "\&" is nothing; behind it a word is
// no macro and a mark no punctuation.
std::string argument(std::string_view text) {
  const std::string word = escaped_roff(text, Hyphens::literal);
  return word.find(' ') == std::string::npos ? "\\&" + word : "\"" + word + "\"";
}

std::string escaped_word(std::string_view word) {
  const size_t begin = word.find_first_not_of("'\"(");
  const bool is_flag = begin != std::string_view::npos && word[begin] == '-';
  return escaped_roff(word, is_flag ? Hyphens::literal : Hyphens::as_they_are);
}

bool ends_sentence(std::string_view word) {
  const size_t last = word.find_last_not_of(")'\"");
  return last != std::string_view::npos && std::string_view(".?!").find(word[last]) < 3;
}

bool begins_sentence(std::string_view word) {
  const size_t first = word.find_first_not_of("('\"");
  return first != std::string_view::npos &&
         (std::isupper(static_cast<unsigned char>(word[first])) != 0 || word[first] == '-');
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = text.find_first_not_of(" \n", at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// Running text: each sentence begins a line, as roff wants it, and long ones are wrapped.
std::string running(std::string_view text) {
  std::string lines, line;
  std::string_view before;
  const auto end_line = [&](bool sentence) {
    if (line.empty()) return;
    // Else roff would see the end of a sentence in "e.g.".
    lines += line + (!sentence && ends_sentence(before) ? "\\&\n" : "\n");
    line.clear();
  };
  for (const std::string_view word : words_of(text)) {
    std::string escaped = escaped_word(word);
    const bool sentence = ends_sentence(before) && begins_sentence(word);
    if (sentence || line.size() + 1 + escaped.size() > kLineBytes) end_line(sentence);
    if (line.empty()) {
      line = (escaped.front() == '.' ? "\\&" : "") + escaped;
    } else {
      line += " " + escaped;
    }
    before = word;
  }
  end_line(true);
  return lines;
}

std::string with_full_stop(const std::string& text) {
  return text.empty() || ends_sentence(text) ? text : text + ".";
}

// "Translate stdin" in the middle of a sentence; "BLEU and chrF" stays.
std::string uncapitalized(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

bool choices_fit(const OptionText& option) {
  constexpr size_t kWidest = 32;
  return option.kind == Value::words && !option.other_words &&
         joined(option.words, "|").size() <= kWidest;
}

// What the page calls a value: its choices where they are few.
std::string value_name(const OptionText& option) {
  if (choices_fit(option)) return joined(option.words, "|");
  if (!option.argument.empty()) return option.argument;
  if (option.value == "INT" || option.value == "UINT" || option.value == "FLOAT") return "number";
  if (option.value == "ENUM") return "word";
  std::string name = option.value;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

// ".It"'s words for one name of an option: "Fl o Ar folder".
std::string flag(const OptionText& option, const std::string& name) {
  std::string text = "Fl " + escaped_roff(name.substr(1), Hyphens::literal);
  if (option.optional_value) return text + " Ns Op = Ns Ar " + argument(value_name(option));
  if (option.kind == Value::none) return text;
  text += " Ar " + argument(value_name(option));
  return option.several_values ? text + " ..." : text;
}

// "From 1 to 1024."; of limits that only keep numbers in their type, nothing.
std::string range(const OptionText& option) {
  constexpr size_t kDigits = 6;
  if (option.least.empty() || option.least.find('e') != std::string::npos) return "";
  if (option.most.size() <= kDigits && option.most.find('e') == std::string::npos) {
    return fmt::format(" From {} to {}.", option.least, option.most);
  }
  return option.least == "0" ? "" : fmt::format(" At least {}.", option.least);
}

// Whether a help text already names every choice.
bool names_choices(const OptionText& option) {
  return std::ranges::all_of(option.words, [&](const std::string& word) {
    return option.help.find(word) != std::string::npos;
  });
}

std::string description(const OptionText& option) {
  std::string text = with_full_stop(option.help);
  if (option.kind == Value::words && !option.other_words && !choices_fit(option) &&
      !names_choices(option)) {
    text += fmt::format(" One of {}.", joined(option.words, ", "));
  }
  if (option.may_be_repeated && !option.several_values && option.argument.empty() &&
      option.help.find("repeat") == std::string::npos &&
      option.help.find("several times") == std::string::npos) {
    text += " May be repeated.";
  }
  text += range(option);
  if (!option.initial.empty()) text += fmt::format(" Default: {}.", option.initial);
  if (option.required && option.argument.empty()) text += " Required.";
  return text;
}

std::string item(const OptionText& option) {
  std::string names;
  if (!option.argument.empty()) {
    names = "Ar " + argument(option.argument) + (option.several_values ? " ..." : "");
  }
  for (const std::string& name : {option.short_name, option.long_name}) {
    if (!name.empty()) names += (names.empty() ? "" : " , ") + flag(option, name);
  }
  return ".It " + names + "\n" + running(description(option));
}

std::string list(const std::string& items) { return ".Bl -tag -width Ds\n" + items + ".El\n"; }

// Options under the headings that they have in the help.
std::string options(const CommandText& command) {
  std::string text, items;
  for (const OptionText& option : command.arguments) items += item(option);
  std::vector<std::string> groups;
  for (const OptionText& option : command.options) {
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  }
  // Those without a heading of their own come first.
  std::ranges::stable_partition(groups, [](const std::string& g) { return g == "Options"; });
  for (const std::string& group : groups) {
    if (group != "Options") {
      if (!items.empty()) text += list(items);
      items.clear();
      text += ".Ss " + escaped_roff(group, Hyphens::as_they_are) + "\n";
    }
    for (const OptionText& option : command.options) {
      if (option.group == group) items += item(option);
    }
  }
  return text + list(items);
}

std::string synopsis(const CommandText& command) {
  std::string text = ".Nm tril " + command.name + "\n.Op Ar option ...\n";
  for (const OptionText& option : command.options) {
    if (!option.required) continue;
    text += "." + flag(option, option.short_name.empty() ? option.long_name : option.short_name);
    text += "\n";
  }
  for (const OptionText& option : command.arguments) {
    text += option.required ? ".Ar " : ".Op Ar ";
    text += argument(option.argument) + (option.several_values ? " ...\n" : "\n");
  }
  return text;
}

// An example that is wider than a page goes on in the next line.
std::string folded(const std::string& line) {
  constexpr size_t kWidest = 72;
  if (line.size() <= kWidest) return line;
  size_t at = 0;
  for (const std::string_view before : {" --", " -", " | ", " > ", " < "}) {
    const size_t found = line.rfind(before, kWidest - 2);
    if (found != std::string::npos) at = std::max(at, found);
  }
  if (at == 0) return line;
  return line.substr(0, at) + " \\\n" + folded("    " + line.substr(at + 1));
}

std::string examples(const Footer& footer) {
  if (footer.examples.empty()) return "";
  std::string text = ".Sh EXAMPLES\n.Bd -literal\n";
  for (const std::string& line : footer.examples) {
    text +=
        (line.starts_with(".") ? "\\&" : "") + escaped_roff(folded(line), Hyphens::literal) + "\n";
  }
  return text + ".Ed\n";
}

// The same for every command.
constexpr std::string_view kExitStatus =
    ".Sh EXIT STATUS\n"
    ".Bl -tag -width Ds\n"
    ".It 0\n"
    "The command did what it was asked to.\n"
    ".It 1\n"
    "It ran to its end, and what it checked does not hold, or a line could not be\n"
    "used.\n"
    ".It 2\n"
    "An error, which one line on the standard error output explains.\n"
    ".It 128 and more\n"
    "A signal ended it: 128 and the number of the signal.\n"
    ".El\n";

std::string see_also(const std::set<std::string>& pages) {
  if (pages.empty()) return "";
  std::string text = ".Sh SEE ALSO\n";
  for (const std::string& page : pages) {
    text += fmt::format(".Xr {} 1{}\n", page, page == *pages.rbegin() ? "" : " ,");
  }
  return text;
}

// The pages of the commands that a page names, as in "'tril info' lists them".
std::set<std::string> pages_named(const ProgramText& program, const CommandText& page) {
  std::string text = page.help;
  for (const auto* options : {&page.options, &page.arguments}) {
    for (const OptionText& option : *options) text += "\n" + option.help;
  }
  text += "\n" + joined(page.footer.paragraphs, "\n") + "\n" + joined(page.footer.examples, "\n");
  std::set<std::string> pages = {"tril"};
  for (const CommandText& command : program.commands) {
    const std::string name = "tril " + command.name;
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += name.size()) {
      const char after = at + name.size() < text.size() ? text[at + name.size()] : ' ';
      const bool whole = std::isalpha(static_cast<unsigned char>(after)) == 0 && after != '-';
      if (whole && &command != &page) pages.insert("tril-" + command.name);
    }
  }
  return pages;
}

std::string head(const std::string& date, const std::string& name, const std::string& what) {
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string one_line = what.ends_with('.') ? what.substr(0, what.size() - 1) : what;
  return fmt::format(
      ".\\\" Written by 'tril describe man': change the help of the program instead.\n"
      ".Dd {}\n.Dt {} 1\n.Os\n.Sh NAME\n.Nm {}\n.Nd {}\n.Sh SYNOPSIS\n",
      date, title, name, escaped_roff(one_line, Hyphens::as_they_are));
}

ManPage page_of_program(const ProgramText& program, const std::string& date) {
  std::string what = program.itself.help;
  if (what.starts_with("tril: ")) what.erase(0, 6);
  std::string text = head(date, "tril", what);
  text += ".Nm\n.Ar command\n.Op Ar option ...\n.Op Ar argument ...\n";
  text += ".Nm\n.Cm help\n.Op Ar command\n";
  for (const OptionText& option : program.itself.options) {
    text += ".Nm\n." + flag(option, name_of(option)) + "\n";
  }
  text += ".Sh DESCRIPTION\n" + running("The commands, each of which has a page of its own:");
  std::string items;
  std::set<std::string> pages;
  for (const CommandText& command : program.commands) {
    items += ".It Cm " + argument(command.name) + "\n" + running(with_full_stop(command.help)) +
             "See\n.Xr tril-" + command.name + " 1 .\n";
    pages.insert("tril-" + command.name);
  }
  text += list(items);
  for (const std::string& paragraph : program.itself.footer.paragraphs) {
    text += ".Pp\n" + running(paragraph);
  }
  text += ".Sh OPTIONS\n" + options(program.itself);
  return {"tril",
          text + std::string(kExitStatus) + examples(program.itself.footer) + see_also(pages)};
}

ManPage page_of_command(const ProgramText& program, const CommandText& command,
                        const std::string& date) {
  const std::string name = "tril-" + command.name;
  std::string text = head(date, name, uncapitalized(command.help)) + synopsis(command) +
                     ".Sh DESCRIPTION\n" + running(with_full_stop(command.help));
  for (const std::string& paragraph : command.footer.paragraphs) {
    text += ".Pp\n" + running(paragraph);
  }
  text += ".Sh OPTIONS\n" + options(command);
  text += kExitStatus;
  return {name, text + examples(command.footer) + see_also(pages_named(program, command))};
}

}  // namespace

std::vector<ManPage> man_pages(const ProgramText& program, const std::string& date) {
  std::vector<ManPage> pages = {page_of_program(program, date)};
  for (const CommandText& command : program.commands) {
    pages.push_back(page_of_command(program, command, date));
  }
  return pages;
}

}  // namespace tril::app
