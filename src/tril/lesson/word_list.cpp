#include "tril/lesson/word_list.h"

#include "tril/base/error.h"
#include "tril/text/unicode.h"

namespace tril {

void WordList::add(std::string_view text) {
  for (const std::string_view word : split_words(text)) {
    if (tokens_.contains(word)) continue;
    tokens_.emplace(word, static_cast<int32_t>(words_.size()));
    words_.emplace_back(word);
  }
}

std::vector<int32_t> WordList::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  for (const std::string_view word : split_words(text)) {
    const auto found = tokens_.find(word);
    require(found != tokens_.end(), ErrorCode::invalid_argument, "word list: '", word,
            "' is not in it");
    tokens.push_back(found->second);
  }
  return tokens;
}

std::string WordList::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    require(token >= 0 && token < size(), ErrorCode::invalid_argument, "word list: token ", token,
            " is not below ", size());
    if (token == kStart || token == kEnd) continue;
    if (!text.empty()) text += ' ';
    text += words_[static_cast<size_t>(token)];
  }
  return text;
}

}  // namespace tril
