// What makes a shell complete the program's commands, options and their values.
#pragma once

#include <string>

#include "command_text.h"

namespace tril::app {

// A script for each shell. Bash's needs nothing but bash 4.4 or later; the others are files for the
// shell's own folder of completions.
std::string bash_completion(const ProgramText& program);
std::string zsh_completion(const ProgramText& program);
std::string fish_completion(const ProgramText& program);

}  // namespace tril::app
