// Flags whose value is one of some words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tril::app {

// Turns a word into its number in the list, which CLI11 reads as the enum's value.
inline CLI::Validator one_of(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](std::string& word) {
        std::string all;
        for (size_t i = 0; i < words.size(); ++i) {
          if (words[i] == word) {
            word = std::to_string(i);
            return std::string();
          }
          all += (i == 0 ? "" : ", ") + words[i];
        }
        return "'" + word + "' is not one of " + all;
      },
      "", "");
}

}  // namespace tril::app
