// TOML, the part of it that options are written in: a line `name = value` each, where the value is
// a string, a number, a boolean, or an array of strings on the line; comments and empty lines
// between. Sections, dates and everything else are errors (`bad_format`) that name file and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

struct TomlOption {
  std::string name;
  std::vector<std::string> values;  // one, or those of an array; numbers and booleans as written
  int64_t line = 0;                 // where it stands, from 1
};

// In the order written. Raises for a name that comes twice.
std::vector<TomlOption> parse_toml(std::string_view text, const std::string& file);

}  // namespace tril
