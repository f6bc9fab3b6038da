// The part of TOML that options are written in: one `name = value` per line, where the value is a
// string, a number, a boolean, or an array of strings on one line; comments and empty lines are
// allowed. Sections, dates and everything else are errors (`bad_format`) that name file and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

struct TomlOption {
  std::string name;
  std::vector<std::string> values;  // one, or those of an array; numbers and booleans as text
  int64_t line = 0;                 // its line number, from 1
};

// In the order of the file. Raises for a name that occurs twice.
std::vector<TomlOption> parse_toml(std::string_view text, const std::string& file);

}  // namespace tril
