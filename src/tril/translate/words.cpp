#include "tril/translate/words.h"

#include <algorithm>
#include <string_view>

#include "tril/base/error.h"

namespace tril {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581, "▁"

int32_t count_of(std::span<const int32_t> words) {
  return words.empty() ? 0 : *std::max_element(words.begin(), words.end()) + 1;
}

}  // namespace

std::vector<int32_t> words_of(std::span<const std::string> pieces) {
  std::vector<int32_t> words;
  int32_t word = -1;
  bool begins = true;
  for (const std::string& piece : pieces) {
    std::string_view rest = piece;
    for (; rest.starts_with(kBlank); rest.remove_prefix(kBlank.size())) begins = true;
    if (rest.empty()) {
      words.push_back(-1);
      continue;
    }
    if (begins) ++word;
    begins = false;
    words.push_back(word);
  }
  return words;
}

std::vector<WordLink> link_words(const Alignment& alignment, std::span<const int32_t> source_words,
                                 std::span<const int32_t> target_words) {
  require(static_cast<int64_t>(source_words.size()) <= alignment.source &&
              static_cast<int64_t>(target_words.size()) <= alignment.target,
          ErrorCode::invalid_argument, "link_words: ", source_words.size(), " source and ",
          target_words.size(), " target pieces, but an alignment of ", alignment.source, " and ",
          alignment.target, " tokens");
  const auto sources = static_cast<size_t>(count_of(source_words));
  const auto targets = static_cast<size_t>(count_of(target_words));
  std::vector<double> weights(sources * targets, 0.0);
  for (size_t t = 0; t < target_words.size(); ++t) {
    if (target_words[t] < 0) continue;
    for (size_t s = 0; s < source_words.size(); ++s) {
      if (source_words[s] < 0) continue;
      weights[static_cast<size_t>(target_words[t]) * sources +
              static_cast<size_t>(source_words[s])] +=
          alignment.weight(static_cast<int64_t>(t), static_cast<int64_t>(s));
    }
  }
  std::vector<WordLink> links;
  for (size_t t = 0; t < targets && sources > 0; ++t) {
    const auto row = weights.begin() + static_cast<ptrdiff_t>(t * sources);
    const auto best = std::max_element(row, row + static_cast<ptrdiff_t>(sources));
    links.push_back({static_cast<int32_t>(best - row), static_cast<int32_t>(t)});
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const WordLink& a, const WordLink& b) { return a.source < b.source; });
  return links;
}

std::string to_pharaoh(std::span<const WordLink> links) {
  std::string text;
  for (const WordLink& link : links) {
    text += concat(text.empty() ? "" : " ", link.source, "-", link.target);
  }
  return text;
}

}  // namespace tril
