#include "flags.h"

#include <CLI/CLI.hpp>

namespace tril::app {

CLI::Validator one_of(const std::vector<std::string>& words) {
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
