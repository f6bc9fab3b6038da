// The map of characters by which SentencePiece normalises text: a trie of byte strings, as
// Darts-clone lays it out (a double array), whose leaves point to replacements.
//
// SentencePiece follows the trie without checks, so a map that is not trusted is walked here once,
// along every path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

class CharacterMap {
 public:
  // Raises `bad_format`, naming `file`, for a map that leads astray.
  CharacterMap(std::string_view bytes, const std::string& file);

  // The replacement of the shortest key with which `text` begins.
  std::optional<std::string_view> first_match(std::string_view text) const;

 private:
  int leaves_below(size_t node, int depth);
  void check(bool holds, std::string_view fault) const;

  const std::string file_;
  std::vector<uint32_t> units_;
  std::string replacements_;
  std::vector<int> leaves_;  // by node, while the paths are checked
};

}  // namespace tril
