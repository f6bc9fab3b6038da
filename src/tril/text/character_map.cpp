#include "tril/text/character_map.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr uint32_t kValueBit = 1u << 31;
constexpr int kMaxLeaves = 32;  // the size of SentencePiece's array of matches
constexpr int kMaxDepth = 256;  // of a key in bytes; a cycle would have no end
constexpr int kUnvisited = -1;

bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) == 1; }
size_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool has_label(uint32_t unit, size_t label) { return (unit & (kValueBit | 0xffu)) == label; }

uint32_t word_at(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + i - 1]);
  return value;
}

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, const std::string& file) : file_(file) {
  check(bytes.size() > 4, "it is too short");
  const uint32_t trie_bytes = word_at(bytes, 0);
  check(trie_bytes % 4 == 0 && trie_bytes > 0 && trie_bytes <= bytes.size() - 4,
        "its trie does not fit");
  for (size_t i = 0; i < trie_bytes; i += 4) units_.push_back(word_at(bytes, 4 + i));
  replacements_ = bytes.substr(4 + trie_bytes);
  check(!replacements_.empty() && replacements_.back() == '\0', "its replacements do not end");
  check(!first_invalid_utf8(replacements_), "its replacements are not UTF-8");
  leaves_.assign(units_.size(), kUnvisited);
  check(leaves_below(0, 0) <= kMaxLeaves, "too many of its keys begin with each other");
  leaves_ = {};
}

std::optional<std::string_view> CharacterMap::first_match(std::string_view text) const {
  size_t node = offset_of(units_[0]);
  for (const char byte : text) {
    const size_t label = static_cast<uint8_t>(byte);
    if (label == 0) break;
    node ^= label;
    const uint32_t unit = units_[node];
    if (!has_label(unit, label)) return std::nullopt;
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    return std::string_view(replacements_.c_str() + (units_[node] & ~kValueBit));
  }
  return std::nullopt;
}

// The most leaves on any path below `node`. Paths may join again.
int CharacterMap::leaves_below(size_t node, int depth) {
  if (leaves_[node] != kUnvisited) return leaves_[node];
  check(depth < kMaxDepth, "its trie has no end");
  const size_t children = node ^ offset_of(units_[node]);
  check((children | 0xff) < units_.size(), "its trie leads outside itself");
  int most = 0;
  for (size_t label = 0; label < 256; ++label) {
    const size_t child = children ^ label;
    const uint32_t unit = units_[child];
    if (!has_label(unit, label)) continue;
    if (has_leaf(unit)) {
      const size_t leaf = child ^ offset_of(unit);
      const size_t value = leaf < units_.size() ? units_[leaf] & ~kValueBit : replacements_.size();
      check(value < replacements_.size() && (replacements_[value] & 0xC0) != 0x80,
            "a key leads to no replacement");
    }
    most = std::max(most, leaves_below(child, depth + 1) + (has_leaf(unit) ? 1 : 0));
  }
  return leaves_[node] = most;
}

void CharacterMap::check(bool holds, std::string_view fault) const {
  require(holds, ErrorCode::bad_format, file_, ": the map of characters is damaged: ", fault);
}

}  // namespace tril
