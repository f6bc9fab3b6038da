#include "tril/text/pipeline/characters.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "tril/text/unicode.h"

namespace tril::pipeline {
namespace {

struct CharacterRange {
  char32_t first = 0, last = 0;
};

enum class Cluster : uint8_t {
  kOther,
  kControl,
  kPrepend,
  kMark,
  kExtend,
  kConjunctExtend,  // Extend, and part of an Indic conjunct
  kLinker,          // the same, and what makes a conjunct of two consonants
  kZwj,
  kConsonant,
  kPicture,
  kFlag,
  kL,
  kV,
  kT,
  kLv,
  kLvt
};

struct ClusterRange {
  char32_t first = 0, last = 0;
  Cluster kind = Cluster::kOther;
};

constexpr CharacterRange kLetters[] = {
#include "tril/text/pipeline/letters.inc"
};
constexpr CharacterRange kWords[] = {
#include "tril/text/pipeline/words.inc"
};
constexpr ClusterRange kClusters[] = {
#include "tril/text/pipeline/clusters.inc"
};

// Ranges are ascending and do not overlap. Null for a character outside all of them.
template <class Range, size_t N>
const Range* range_of(const Range (&ranges)[N], char32_t character) {
  const Range* range =
      std::lower_bound(std::begin(ranges), std::end(ranges), character,
                       [](const Range& r, char32_t value) { return r.last < value; });
  return range == std::end(ranges) || character < range->first ? nullptr : range;
}

// Answers for the alphabets of Europe without a search.
constexpr char32_t kTable = 0x500;
template <class F>
std::array<bool, kTable> tabulated(const F& f) {
  std::array<bool, kTable> table{};
  for (char32_t c = 0; c < kTable; ++c) table[c] = f(c);
  return table;
}

constexpr char32_t kFirstSyllable = 0xAC00, kLastSyllable = 0xD7A3;  // of Hangul

Cluster cluster_of(char32_t character) {
  if (kFirstSyllable <= character && character <= kLastSyllable) {
    return (character - kFirstSyllable) % 28 == 0 ? Cluster::kLv : Cluster::kLvt;
  }
  const ClusterRange* range = range_of(kClusters, character);
  return range == nullptr ? Cluster::kOther : range->kind;
}

bool extends(Cluster kind) {
  return kind == Cluster::kExtend || kind == Cluster::kConjunctExtend || kind == Cluster::kLinker ||
         kind == Cluster::kZwj;
}

// What of a cluster decides whether it goes on.
class ClusterState {
 public:
  explicit ClusterState(Cluster first) { add(first); }

  // Whether the next character belongs to the same cluster: the rules GB4 to GB13.
  bool continues(Cluster next) const {
    if (last_ == Cluster::kControl || next == Cluster::kControl) return false;
    if (extends(next) || next == Cluster::kMark) return true;
    if (last_ == Cluster::kPrepend) return true;
    switch (next) {
      case Cluster::kL:
      case Cluster::kLv:
      case Cluster::kLvt: return last_ == Cluster::kL;
      case Cluster::kV:
        return last_ == Cluster::kL || last_ == Cluster::kV || last_ == Cluster::kLv;
      case Cluster::kT:
        return last_ == Cluster::kV || last_ == Cluster::kLv || last_ == Cluster::kT ||
               last_ == Cluster::kLvt;
      case Cluster::kConsonant: return linked_;
      case Cluster::kPicture: return picture_ && last_ == Cluster::kZwj;
      case Cluster::kFlag: return last_ == Cluster::kFlag && flags_ % 2 == 1;
      default: return false;
    }
  }

  void add(Cluster next) {
    const bool in_conjunct =
        next == Cluster::kConjunctExtend || next == Cluster::kLinker || next == Cluster::kZwj;
    conjunct_ = next == Cluster::kConsonant || (conjunct_ && in_conjunct);
    linked_ = conjunct_ && next != Cluster::kConsonant && (linked_ || next == Cluster::kLinker);
    picture_ = next == Cluster::kPicture || (picture_ && extends(next));
    flags_ = next == Cluster::kFlag ? flags_ + 1 : 0;
    last_ = next;
  }

 private:
  Cluster last_ = Cluster::kOther;
  bool conjunct_ = false;  // a consonant and what may stand before the next of a conjunct
  bool linked_ = false;    // and among it a linker
  bool picture_ = false;   // a picture and what extends it
  int flags_ = 0;          // halves of flags at the end
};

bool is_plain(char c) { return ' ' <= c && c <= '~'; }

}  // namespace

bool is_letter(char32_t character) {
  static const auto table = tabulated([](char32_t c) { return range_of(kLetters, c) != nullptr; });
  return character < kTable ? table[character] : range_of(kLetters, character) != nullptr;
}

bool is_number(char32_t character) { return character_class(character) == CharacterClass::number; }

// Unlike Python's white space without U+001C to U+001F.
bool is_space(char32_t character) {
  return is_white_space(character) && !(0x1C <= character && character <= 0x1F);
}

bool is_word(char32_t character) { return range_of(kWords, character) != nullptr; }

CharacterAt character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<uint8_t>(text[at + i]));
  };
  const size_t bytes = utf8_bytes(text[at]);
  const auto tail = [&](size_t i) { return byte(i) & 0x3F; };
  switch (bytes) {
    case 1: return {byte(0), 1};
    case 2: return {(byte(0) & 0x1F) << 6 | tail(1), 2};
    case 3: return {(byte(0) & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
    default: return {(byte(0) & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
  }
}

CharacterAt character_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return character_at(text, at);
}

size_t cluster_bytes(std::string_view text) {
  if (is_plain(text[0]) && (text.size() == 1 || is_plain(text[1]))) return 1;
  if (text.starts_with("\r\n")) return 2;
  const CharacterAt first = character_at(text, 0);
  ClusterState state(cluster_of(first.character));
  size_t bytes = first.bytes;
  while (bytes < text.size()) {
    const CharacterAt next = character_at(text, bytes);
    const Cluster kind = cluster_of(next.character);
    if (!state.continues(kind)) break;
    state.add(kind);
    bytes += next.bytes;
  }
  return bytes;
}

}  // namespace tril::pipeline
