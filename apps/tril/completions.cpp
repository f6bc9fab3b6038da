#include "completions.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "tril/base/error.h"
#include "tril/text/display.h"

namespace tril::app {
namespace {

std::string spaced(const std::vector<std::string>& words) { return joined(words, " "); }

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// In single quotes, for bash and zsh.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// What a help text says first, which is what a shell has room for.
std::string brief(const std::string& help) {
  constexpr size_t kShortest = 8;
  constexpr int64_t kWidest = 72;
  size_t end = help.size();
  for (const std::string_view mark : {". ", "; ", " ("}) {
    end = std::min(end, help.find(mark, kShortest));
  }
  return shortened(help.substr(0, end), kWidest);
}

std::vector<std::string> names_of(const OptionText& option) {
  std::vector<std::string> names;
  for (const std::string& name : {option.short_name, option.long_name}) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> commands_of(const ProgramText& program) {
  std::vector<std::string> names;
  for (const CommandText& command : program.commands) names.push_back(command.name);
  return names;
}

// Every name of every option, "-o --output --help".
std::string all_names(const CommandText& command) {
  std::vector<std::string> all;
  for (const OptionText& option : command.options) {
    for (const std::string& name : names_of(option)) all.push_back(name);
  }
  return spaced(all);
}

// What the functions of the script know about a value: "kind=words words='yes no'".
std::string bash_value(const OptionText& option) {
  std::string text;
  switch (option.kind) {
    case Value::none: return "";
    case Value::text: text = "kind=text"; break;
    case Value::file: text = "kind=file"; break;
    case Value::folder: text = "kind=folder"; break;
    case Value::words: text = "kind=words words=" + quoted(spaced(option.words)); break;
  }
  if (option.optional_value) text += " attached=yes";
  if (option.several_values) text += " several=yes";
  if (option.separated_values) text += " commas=yes";
  return text;
}

// The part of the script that is the same for every program.
constexpr std::string_view kBashFunctions = R"bash(
# _tril_propose KIND WORDS COMMAS VALUE REST: what a value may be; REST is what readline replaces.
_tril_propose() {
  local value=$4 before='' each
  case $1 in
    file) compopt -o default ;;
    folder) compopt -o dirnames ;;
    words)
      [[ -n $3 && $value == *,* ]] && before=${value%"${value##*,}"}
      for each in $2; do
        each=$before$each
        [[ $each == "$value"* ]] && COMPREPLY+=("${each#"${value%"$5"}"}")
      done
      ;;
  esac
}

_tril() {
  # The words before the cursor as the program would get them: bash also cuts at "=" and ":".
  local -a given=()
  local line=${COMP_LINE:0:COMP_POINT} word blank i
  COMPREPLY=()
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    blank=${line%%[![:space:]]*}
    line=${line#"$blank"}
    word=${COMP_WORDS[i]}
    ((i == COMP_CWORD)) && word=$line
    line=${line#"$word"}
    if ((i == 0)) || [[ -n $blank ]]; then given+=("$word"); else given[-1]+=$word; fi
  done
  local current=${given[-1]} rest=$word last=$((${#given[@]} - 1))
  [[ $rest == [=:]* ]] && rest=''
  local command=${given[1]-} kind='' words='' several='' commas='' attached='' at=1
  if ((last <= 1)); then
    _tril_propose words "$(_tril_commands) help $(_tril_options)" '' "$current" "$rest"
    return
  fi
  if [[ $command == help ]]; then
    ((last == 2)) && _tril_propose words "$(_tril_commands)" '' "$current" "$rest"
    return
  fi
  for ((i = 2; i < last; ++i)); do
    word=${given[i]}
    if [[ -n $kind && -z $several ]]; then
      kind=''
    elif [[ $word == -?* ]]; then
      _tril_option "$command" "$word"
      [[ -n $attached ]] && kind=''
    elif [[ -z $kind ]]; then
      at=$((at + 1))
    fi
  done
  if [[ $current == --*=* && (-z $kind || -n $several) ]]; then
    _tril_option "$command" "${current%%=*}"
    _tril_propose "$kind" "$words" "$commas" "${current#*=}" "$rest"
  elif [[ $current == -* && (-z $kind || -n $several) ]]; then
    _tril_propose words "$(_tril_options "$command")" '' "$current" "$rest"
  else
    [[ -z $kind ]] && _tril_argument "$command" "$at"
    _tril_propose "$kind" "$words" "$commas" "$current" "$rest"
  fi
}

complete -F _tril tril
)bash";

// zsh's name for an action that proposes what the value may be.
std::string zsh_action(const OptionText& option) {
  switch (option.kind) {
    case Value::file: return "_files";
    case Value::folder: return "_files -/";
    case Value::words:
      return option.separated_values ? "_sequence compadd - " + spaced(option.words)
                                     : "(" + spaced(option.words) + ")";
    default: return " ";
  }
}

// Text between brackets or colons of a specification of _arguments.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\:[]").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_option(const OptionText& option) {
  std::string value;
  if (option.kind != Value::none) {
    const std::string what = option.value.empty() ? "value" : option.value;
    value = fmt::format("{}{}:{}", option.optional_value ? "::" : ":", zsh_text(what),
                        zsh_action(option));
  }
  std::string specs;
  const std::vector<std::string> names = names_of(option);
  for (const std::string& name : names) {
    // "=": the value is the next word, or follows "=". "=-": only the latter.
    const std::string ending = option.kind == Value::none ? ""
                               : option.optional_value    ? "=-"
                               : name.starts_with("--")   ? "="
                                                          : "+";
    const std::string before = option.may_be_repeated ? "*" : "(" + spaced(names) + ")";
    specs += " \\\n    " +
             quoted(before + name + ending + "[" + zsh_text(brief(option.help)) + "]" + value);
  }
  return specs;
}

std::string zsh_argument(const OptionText& option, size_t number) {
  const std::string place = option.several_values ? "*" : concat(number);
  const char* optional = option.required || option.several_values ? ":" : "::";
  return " \\\n    " +
         quoted(place + optional + zsh_text(option.argument) + ":" + zsh_action(option));
}

// In single quotes, for fish.
std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

// What fish proposes as a value: "-x -a 'yes no'".
std::string fish_value(const OptionText& option) {
  switch (option.kind) {
    case Value::none: return "";
    case Value::text: return " -x";
    case Value::file: return " -r -F";
    case Value::folder: return " -x -a '(__fish_complete_directories)'";
    case Value::words: break;
  }
  const std::string words = spaced(option.words);
  if (option.optional_value) return " -f -a " + fish_quoted(words);
  if (option.separated_values) return " -x -a " + fish_quoted("(__fish_append , " + words + ")");
  return " -x -a " + fish_quoted(words);
}

// The same for the arguments of a command, which fish does not count.
std::string fish_argument(const OptionText& option) {
  if (option.kind == Value::file) return " -F";
  if (option.kind == Value::folder) return " -a '(__fish_complete_directories)'";
  return " -a " + fish_quoted(spaced(option.words));
}

std::string fish_option(const OptionText& option) {
  std::string text;
  if (!option.short_name.empty()) text += " -s " + option.short_name.substr(1);
  if (!option.long_name.empty()) text += " -l " + option.long_name.substr(2);
  return text + fish_value(option) + " -d " + fish_quoted(brief(option.help));
}

}  // namespace

std::string bash_completion(const ProgramText& program) {
  std::string text = "# bash completion of tril, written by 'tril describe bash'.\n\n";
  text += "_tril_commands() { printf '%s' " + quoted(spaced(commands_of(program))) + "; }\n\n";
  std::string options, values, arguments;
  for (const CommandText& command : program.commands) {
    options += fmt::format("    {}) printf '%s' {} ;;\n", command.name, quoted(all_names(command)));
    for (const OptionText& option : command.options) {
      if (option.kind == Value::none) continue;
      std::string patterns;
      for (const std::string& name : names_of(option)) {
        patterns += (patterns.empty() ? "" : " | ") + quoted(command.name + " " + name);
      }
      values += fmt::format("    {}) {} ;;\n", patterns, bash_value(option));
    }
    for (size_t i = 0; i < command.arguments.size(); ++i) {
      const OptionText& option = command.arguments[i];
      const std::string place =
          quoted(command.name + " ") + (option.several_values ? std::string("*") : concat(i + 1));
      arguments += fmt::format("    {}) {} ;;\n", place, bash_value(option));
    }
  }
  text +=
      "# _tril_options [COMMAND]: the options of the program, or of a command.\n"
      "_tril_options() {\n  case ${1-} in\n    '') printf '%s' " +
      quoted(all_names(program.itself)) + " ;;\n" + options + "  esac\n}\n\n";
  text +=
      "# _tril_option COMMAND OPTION: sets what is known about the option's value.\n"
      "_tril_option() {\n  kind='' words='' several='' commas='' attached=''\n"
      "  case \"$1 $2\" in\n" +
      values + "  esac\n}\n\n";
  text +=
      "# _tril_argument COMMAND NUMBER: the same of an argument.\n"
      "_tril_argument() {\n  kind='' words='' several='' commas='' attached=''\n"
      "  case \"$1 $2\" in\n" +
      arguments + "  esac\n}\n";
  return text + std::string(kBashFunctions);
}

std::string zsh_completion(const ProgramText& program) {
  std::string text = "#compdef tril\n# zsh completion of tril, written by 'tril describe zsh'.\n\n";
  std::string commands;
  for (const CommandText& command : program.commands) {
    commands += "    " + quoted(command.name + ":" + zsh_text(brief(command.help))) + "\n";
    text += fmt::format("_tril_{}() {{\n  _arguments -S", command.name);
    for (const OptionText& option : command.options) text += zsh_option(option);
    for (size_t i = 0; i < command.arguments.size(); ++i) {
      text += zsh_argument(command.arguments[i], i + 1);
    }
    text += "\n}\n\n";
  }
  text += "_tril() {\n  local -a commands=(\n" + commands + "  )\n  local -a options=(";
  for (const OptionText& option : program.itself.options) text += zsh_option(option);
  text += R"zsh(
  )
  if ((CURRENT == 2)); then
    if [[ $PREFIX == -* ]]; then
      _arguments $options
    else
      commands+=('help:List the options of a command')
      _describe -t commands command commands
    fi
  elif [[ $words[2] == help ]]; then
    ((CURRENT == 3)) && _describe -t commands command commands
  elif (($+functions[_tril_$words[2]])); then
    local command=$words[2]
    shift words
    ((CURRENT -= 1))
    _tril_$command
  fi
}

_tril "$@"
)zsh";
  return text;
}

std::string fish_completion(const ProgramText& program) {
  std::string text = "# fish completion of tril, written by 'tril describe fish'.\n\n";
  text += R"fish(function __tril_command --description 'Whether the command is this one'
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]
end
function __tril_no_command --description 'Whether no command has been typed yet'
    test (count (commandline -opc)) -eq 1
end

complete -c tril -f
)fish";
  const auto condition = [](const std::string& words) { return " -n " + fish_quoted(words); };
  for (const OptionText& option : program.itself.options) {
    text += "complete -c tril" + condition("__tril_no_command") + fish_option(option) + "\n";
  }
  text += "complete -c tril" + condition("__tril_no_command") +
          " -a help -d 'List the options of a command'\n";
  text += "complete -c tril" + condition("__tril_command help") + " -a " +
          fish_quoted(spaced(commands_of(program))) + "\n";
  for (const CommandText& command : program.commands) {
    text += "\ncomplete -c tril" + condition("__tril_no_command") + " -a " + command.name + " -d " +
            fish_quoted(brief(command.help)) + "\n";
    const std::string begin = "complete -c tril" + condition("__tril_command " + command.name);
    for (const OptionText& option : command.options) text += begin + fish_option(option) + "\n";
    for (const OptionText& option : command.arguments) {
      if (option.kind != Value::text) text += begin + fish_argument(option) + "\n";
    }
  }
  return text;
}

}  // namespace tril::app
