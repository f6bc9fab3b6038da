// Flags whose value is one of some words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tril/tril.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace tril::app {

// Turns a word into its number in the list, which CLI11 reads as the enum's value.
CLI::Validator one_of(const std::vector<std::string>& words);

// --shortlist, for commands that translate or score.
void add_shortlist_flag(CLI::App& command, bool& shortlist);

// --compute, for commands that only infer.
void add_compute_flag(CLI::App& command, std::optional<Compute>& compute);

}  // namespace tril::app
