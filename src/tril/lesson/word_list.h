// Words as tokens, for texts so small that every word is known: no pieces, no bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

class WordList {
 public:
  static constexpr int32_t kStart = 0;
  static constexpr int32_t kEnd = 1;

  // Adds the words of a text, separated by blanks.
  void add(std::string_view text);
  int64_t size() const { return static_cast<int64_t>(words_.size()); }

  // Raises `invalid_argument` naming a word that is not in the list.
  std::vector<int32_t> encode(std::string_view text) const;
  // START and END write nothing. Raises `invalid_argument` for a token outside the list.
  std::string decode(std::span<const int32_t> tokens) const;

 private:
  std::vector<std::string> words_ = {"START", "END"};
  std::map<std::string, int32_t, std::less<>> tokens_{};
};

}  // namespace tril
