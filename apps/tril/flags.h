// Flags whose value is one of some words.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class Validator;
}

namespace tril::app {

// Turns a word into its number in the list, which CLI11 reads as the enum's value.
CLI::Validator one_of(const std::vector<std::string>& words);

}  // namespace tril::app
