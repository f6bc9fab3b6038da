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

void add_shortlist_flag(CLI::App& command, bool& shortlist) {
  command.add_flag("--shortlist", shortlist,
                   "Choose among the pieces that 'tril shortlist' listed for each line: faster");
}

void add_compute_flag(CLI::App& command, std::optional<Compute>& compute) {
  const std::vector<std::string> words(std::begin(Words<Compute>::kList),
                                       std::end(Words<Compute>::kList));
  command
      .add_option_function<std::string>(
          "--compute",
          [&compute](const std::string& number) {
            compute = static_cast<Compute>(std::stoi(number));
          },
          "How weights are kept: fp32, bf16 (half the memory), int8 (a quarter, fastest), or "
          "bf16-dot (bf16 products by the processor, with bits of their own)")
      ->transform(one_of(words))
      ->type_name("fp32|bf16|int8|bf16-dot");
}

}  // namespace tril::app
