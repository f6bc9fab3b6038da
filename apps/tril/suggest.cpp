#include "suggest.h"

#include <algorithm>
#include <cstdint>

namespace tril::app {
namespace {

// Edits that turn one word into the other: a letter left out, added, changed, or two neighbours
// swapped (the restricted Damerau–Levenshtein distance).
size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::vector<size_t>> edits(from.size() + 1, std::vector<size_t>(to.size() + 1));
  for (size_t i = 0; i <= from.size(); ++i) edits[i][0] = i;
  for (size_t j = 0; j <= to.size(); ++j) edits[0][j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t change = edits[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits[from.size()][to.size()];
}

// What other programs call an option.
struct Alias {
  std::string_view word, ours;
};
constexpr Alias kAliases[] = {
    {"--lr", "--rate"},
    {"--learning-rate", "--rate"},
    {"--epochs", "--updates"},
    {"--steps", "--updates"},
    {"--max-steps", "--updates"},
    {"--src", "--source"},
    {"--tgt", "--target"},
    {"--train-source", "--source"},
    {"--train-target", "--target"},
    {"--num-threads", "--threads"},
    {"--cpu-threads", "--threads"},
    {"--vocab-size", "--vocab"},
    {"--d-model", "--model"},
    {"--warmup", "--warm-up"},
    {"--warmup-steps", "--warm-up"},
    {"--port", "--listen"},
    {"--host", "--listen"},
    {"--address", "--listen"},
    {"--cors", "--allow-origin"},
    {"--api-keys", "--keys"},
    {"--api-key", "--keys"},
};

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& words) {
  constexpr size_t kLongest = 64;  // nobody mistypes longer words
  if (word.empty() || word.size() > kLongest) return "";
  for (const Alias& alias : kAliases) {
    if (word == alias.word && std::ranges::find(words, alias.ours) != words.end()) {
      return std::string(alias.ours);
    }
  }
  std::string best;
  const size_t letters = word.size() - std::min(word.size(), word.find_first_not_of('-'));
  size_t least = std::max<size_t>(1, letters / 3) + 1;
  for (const std::string& candidate : words) {
    // An abbreviation may be meant: --sent for --sentence.
    const bool begins = word.size() >= 4 && candidate.starts_with(word);
    // Or a longer name used elsewhere: --beam-size for --beam.
    const bool fuller = word.size() > candidate.size() && word.starts_with(candidate) &&
                        word[candidate.size()] == '-';
    const size_t edits = begins || fuller ? 1 : distance(word, candidate);
    if (edits < least) {
      least = edits;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& words) {
  const std::string near = nearest(word, words);
  return near.empty() ? "" : " (did you mean '" + near + "'?)";
}

}  // namespace tril::app
