#include "tril/text/sentences.h"

#include <algorithm>
#include <string>

#include "tril/text/abbreviations.h"
#include "tril/text/languages.h"
#include "tril/text/letters.h"
#include "tril/text/pipeline/characters.h"
#include "tril/text/unicode.h"

namespace tril {
namespace {

// A grapheme cluster: what no cut falls into. `character` is its only one, or its first when that
// is a letter; marks and blanks with something attached to them are no marks and blanks any more.
struct Cluster {
  size_t at = 0;
  char32_t character = 0;
};
constexpr char32_t kAttached = 0xFFFF;  // of such a cluster; no character

std::vector<Cluster> clusters_of(std::string_view text) {
  std::vector<Cluster> clusters;
  clusters.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    // Most of most texts: nothing attaches to a character before one of ASCII.
    if (byte(at) < 0x80 && byte(at) != '\r' && (at + 1 == text.size() || byte(at + 1) < 0x80)) {
      clusters.push_back({at, byte(at)});
      ++at;
      continue;
    }
    const size_t bytes = pipeline::cluster_bytes(text.substr(at));
    const auto first = pipeline::character_at(text, at);
    const bool plain = bytes == first.bytes || text.substr(at, bytes) == "\r\n" ||
                       pipeline::is_letter(first.character);
    clusters.push_back({at, plain ? first.character : kAttached});
    at += bytes;
  }
  return clusters;
}

template <size_t N>
bool is_among(char32_t c, const char32_t (&list)[N]) {
  return std::find(std::begin(list), std::end(list) - 1, c) != std::end(list) - 1;
}

// How a mark ends a sentence.
enum class Mark : uint8_t {
  none,
  dot,     // before a blank, if what surrounds it agrees
  strong,  // before a blank
  loose,   // before a blank or a letter
  joined,  // wherever it stands
};

Mark mark_of(char32_t c) {
  if (c < 0x80) return c == '.' ? Mark::dot : c == '!' || c == '?' ? Mark::strong : Mark::none;
  if (is_among(c, U"\u2026\u2025")) return Mark::dot;
  if (is_among(c, U"\u3002\uFF01\uFF1F\uFF61\uFF0E")) return Mark::joined;
  // Danda, Arabic question mark, Burmese, Ethiopic, Khmer, Meetei, Ol Chiki.
  if (is_among(c, U"\u0964\u0965\u061F\u104B\u1362\u1367\u1368\u17D4\u17D5\uABEB\u1C7E\u1C7F")) {
    return Mark::loose;
  }
  // Urdu, Armenian, Greek, Tibetan, Syriac, Mongolian, Sinhala; and double ones.
  if (is_among(c,
               U"\u06D4\u0589\u037E\u0F0D\u0F0E\u0700\u0701\u0702\u1803\u1809\u0DF4\u203C\u203D"
               U"\u2047\u2048\u2049\u2E2E")) {
    return Mark::strong;
  }
  return Mark::none;
}

// Those that open elsewhere close here, where they follow the end of a sentence: German “, Danish
// «.
bool closes(char32_t c) {
  return is_among(c,
                  U")]}\"'\u201D\u2019\u201C\u2018\u00BB\u203A\u00AB\u2039\u300D\u300F\u3011"
                  U"\uFF09\uFF3D\uFF5D\u3009\u300B\u3015\u3017\uFF63*_");
}
bool opens(char32_t c) {
  return is_among(c,
                  U"([{\"'\u201C\u201D\u2018\u2019\u201E\u201A\u00AB\u00BB\u2039\u203A\u300C"
                  U"\u300E\u3010\uFF08\uFF3B\uFF5B\u3008\u300A\u3014\u3016\uFF62\u00BF\u00A1*_#-"
                  U"\u2013\u2014\u2022");
}
// After which a word may be cut off, if a blank follows; `joined`: without one too.
Mark clause_mark_of(char32_t c) {
  if (is_among(c, U"\u3001\uFF0C\uFF1B\uFF1A\u2014\u2015\u1361\u1363\u1364\u1365\u104A\u17D6")) {
    return Mark::joined;
  }
  if (is_among(c, U",;:\u2013\u060C\u061B\u055D\u0387\u00B7")) return Mark::strong;
  return mark_of(c);
}

// What somebody says begins here, or a remark.
bool opens_quotation(char32_t c) {
  return is_among(c,
                  U"([{\"'\u201C\u201D\u2018\u2019\u201E\u201A\u00AB\u00BB\u2039\u203A\u300C\u300E"
                  U"\u3010\uFF08\u3008\u300A");
}
// Whether a small letter there would say that the sentence goes on.
bool has_capitals(Script script) {
  return script == Script::latin || script == Script::cyrillic || script == Script::greek ||
         script == Script::armenian;
}

bool is_no_break_space(char32_t c) { return c == 0xA0 || c == 0x202F || c == 0x2007; }
bool is_digit(char32_t c) { return character_class(c) == CharacterClass::number; }

class SentenceCutter {
 public:
  SentenceCutter(std::string_view text, std::string_view language)
      : text_(text), language_(base_language(language)), clusters_(clusters_of(text)) {}

  CutText cut() {
    size_t begin = skip_blanks(0);
    size_t gap = 0;
    CutText result;
    starts_small_ = starts_small(begin);
    begin_ = begin;
    for (size_t i = begin; i < count();) {
      const size_t end = sentence_end(i);
      if (end == 0) continue;
      const size_t next = skip_blanks(end);
      result.units.push_back({between(gap, begin), between(begin, end)});
      gap = end;
      i = begin = begin_ = next;
      starts_small_ = starts_small(begin);
    }
    if (begin < count()) {
      const size_t end = without_blanks_after(begin);
      result.units.push_back({between(gap, begin), between(begin, end)});
      gap = end;
    }
    result.after = between(gap, count());
    return result;
  }

 private:
  size_t count() const { return clusters_.size(); }
  char32_t at(size_t i) const { return i < count() ? clusters_[i].character : 0; }
  size_t position(size_t i) const { return i < count() ? clusters_[i].at : text_.size(); }
  std::string_view between(size_t first, size_t last) const {
    return text_.substr(position(first), position(last) - position(first));
  }
  bool is_blank(size_t i) const { return i < count() && is_white_space(at(i)); }
  size_t skip_blanks(size_t i) const {
    while (is_blank(i)) ++i;
    return i;
  }
  size_t without_blanks_after(size_t begin) const {
    size_t end = count();
    while (end > begin && is_blank(end - 1)) --end;
    return end;
  }

  // The first letter of what begins here, past quotation marks and the like.
  bool starts_small(size_t i) const { return is_small_letter(at(skip_openers(i))); }
  size_t skip_openers(size_t i) const {
    for (size_t most = i + 8; i < most && i < count() && opens(at(i)); ++i) {
    }
    return i;
  }

  Mark mark_at(size_t i) const {
    const char32_t c = at(i);
    if (c == ';') {  // the question mark of Greek; elsewhere Greek letters stand in formulas
      const bool may_be_greek = language_.empty() || language_ == "el" || language_ == "grc";
      return may_be_greek && i > 0 && script_of_letter(at(i - 1)) == Script::greek ? Mark::strong
                                                                                   : Mark::none;
    }
    return mark_of(c);
  }

  // From cluster `i` on: where the sentence ends with the marks there; else 0, and `i` moves on.
  size_t sentence_end(size_t& i) {
    if (is_blank(i)) return blank_line_end(i);
    Mark mark = mark_at(i);
    if (mark == Mark::none) {
      ++i;
      return 0;
    }
    const size_t first = i;
    bool only_dots = true;
    for (; mark_at(i) != Mark::none; ++i) {
      mark = std::max(mark, mark_at(i));
      only_dots = only_dots && mark_of(at(i)) == Mark::dot;
    }
    const size_t marks_end = i;
    const size_t end = skip_closers(i, mark == Mark::joined);
    if (end == count() || skip_blanks(end) == count()) return 0;  // the text's end anyway
    if (is_blank(end)) {
      const size_t next = skip_blanks(end);
      return ends_before(first, marks_end, end, next, only_dots) ? end : 0;
    }
    if (mark == Mark::joined) return ends_joined(first, marks_end, end) ? end : 0;
    return mark == Mark::loose && ends_loose(marks_end, end) ? end : 0;
  }

  // An empty line ends a sentence.
  size_t blank_line_end(size_t& i) const {
    const size_t first = i;
    int breaks = 0;
    for (; is_blank(i); ++i) {
      if (at(i) == '\n' || at(i) == '\r') ++breaks;  // CR LF is one cluster
      if (at(i) == 0x2029) breaks = 2;
    }
    return breaks >= 2 && i < count() ? first : 0;
  }

  size_t skip_closers(size_t i, bool joined) const {
    // Chinese “ always opens.
    while (i < count() && closes(at(i)) && !(joined && is_among(at(i), U"\u201C\u2018"))) ++i;
    // French has a blank before the closing mark.
    if (is_blank(i) && (at(i + 1) == 0xBB || at(i + 1) == 0x203A) &&
        (i + 2 >= count() || is_blank(i + 2))) {
      i += 2;
    }
    return i;
  }

  // Chinese and Japanese: after a quotation the sentence may go on (「はい。」と言った).
  bool ends_joined(size_t first, size_t marks_end, size_t end) const {
    const char32_t next = at(end);
    if (clause_mark_of(next) != Mark::none) return false;
    if (at(first) == 0xFF0E && (is_digit(next) || (first > 0 && is_digit(at(first - 1))))) {
      return false;
    }
    if (end == marks_end) return true;
    return is_among(next, U"\u300C\u300E\u201C\u2018\uFF08\u300A\u3010");
  }

  bool ends_loose(size_t marks_end, size_t end) const {
    if (end != marks_end || script_of_letter(at(end)) == Script::none) return false;
    return at(end + 1) != 0x17D4;  // Khmer ។ល។, "and so on"
  }

  // Before a blank; the next word begins at `next`.
  bool ends_before(size_t first, size_t marks_end, size_t end, size_t next, bool only_dots) const {
    const char32_t character = at(skip_openers(next));
    if (mark_at(next) != Mark::none || is_among(at(next), U",;:)]}")) return false;  // ". . ."
    const bool is_quoted = end != marks_end;
    if (is_small_letter(character)) {
      // Somebody who writes no capitals.
      if (!starts_small_ || is_quoted) return false;
      return !only_dots || (marks_end - first == 1 && ends_small_word(first));
    }
    const bool is_one_dot = only_dots && marks_end - first == 1 && at(first) == '.';
    const Script script = script_of_letter(character);
    if (script != Script::none && !has_capitals(script)) {
      // Nothing shows whether a sentence begins there (`मैं... नहीं`, `"क्या?" उसने पूछा`).
      if (is_quoted && !opens_quotation(at(next))) return false;
      if (only_dots && !is_one_dot) return false;
    }
    return !is_one_dot || !is_abbreviated(first, next);
  }

  // The word right before the dot, without brackets and quotation marks before it.
  std::string word_before(size_t dot) const {
    constexpr size_t kMost = 24;  // longer ones are no abbreviations
    size_t begin = dot;
    while (begin > begin_ && dot - begin <= kMost && !is_blank(begin - 1) &&
           !is_among(at(begin - 1), U"([{\"'\u201C\u201E\u00AB\u00BB\u2018/")) {
      --begin;
    }
    return std::string(between(begin, dot));
  }

  bool ends_small_word(size_t dot) const {
    const std::u32string word = decode_utf8(word_before(dot));
    return word.size() > 2 && !is_abbreviated(dot, dot + 1) &&
           word.find(U'.') == std::u32string::npos;
  }

  bool is_abbreviated(size_t dot, size_t next) const {
    const std::u32string word = decode_utf8(word_before(dot));
    if (word.empty()) return false;
    if (std::all_of(word.begin(), word.end(), is_digit)) return is_ordinal(word, dot, next);
    if (is_initials(dot, word)) return true;
    if (has_ordinals(language_) && word.find_first_not_of(U"IVX") == std::u32string::npos) {
      return true;
    }
    std::u32string small = word;
    std::transform(small.begin(), small.end(), small.begin(), small_letter);
    const std::string letters = encode_utf8(small);
    if (is_abbreviation(letters, language_)) return true;
    if (is_abbreviation_of_number(letters)) return is_digit(at(next));
    return false;
  }

  // "J", "z. B", "U.S": letters that stand alone.
  bool is_initials(size_t dot, const std::u32string& word) const {
    const bool is_alone = dot > 0 && pipeline::is_letter(at(dot - 1)) &&
                          (dot < 2 || dot - 1 == begin_ || !pipeline::is_letter(at(dot - 2)));
    if (!is_alone) return false;
    const Script script = script_of_letter(at(dot - 1));
    if (is_written_without_blanks(script) || script == Script::hangul) return false;
    if (script != Script::latin) return !is_short_word(encode_utf8(word), language_);
    bool alternate = true;
    for (size_t i = 1; i < word.size(); i += 2) alternate = alternate && word[i] == U'.';
    return alternate && word.size() % 2 == 1;
  }

  // "3. Oktober", and the number of an item at the beginning.
  bool is_ordinal(const std::u32string& digits, size_t dot, size_t next) const {
    if (dot - digits.size() == begin_ && digits.size() <= 3) return true;
    if (digits.size() > 3) return false;
    if (has_ordinals(language_)) return true;
    if (!language_.empty() || digits.size() > 2) return false;
    size_t end = next;
    while (end < count() && end - next < 12 && pipeline::is_letter(at(end))) ++end;
    return is_month(between(next, end));
  }

  const std::string_view text_;
  const std::string language_;
  const std::vector<Cluster> clusters_;
  size_t begin_ = 0;           // of the current sentence
  bool starts_small_ = false;  // the current sentence
};

}  // namespace

CutText cut_sentences(std::string_view text, std::string_view language) {
  return SentenceCutter(text, language).cut();
}

std::string_view without_outer_blanks(std::string_view text) {
  text = strip_end(text);
  size_t begin = 0;
  while (begin < text.size()) {
    const std::string_view rest = text.substr(begin);
    const auto first = pipeline::character_at(text, begin);
    const size_t bytes = pipeline::cluster_bytes(rest);
    const bool is_whole = bytes == first.bytes || rest.substr(0, bytes) == "\r\n";
    if (!is_white_space(first.character) || !is_whole) break;
    begin += bytes;
  }
  return text.substr(begin);
}

std::vector<CutPlace> cut_places(std::string_view text) {
  const std::vector<Cluster> clusters = clusters_of(text);
  std::vector<CutPlace> places;
  places.reserve(clusters.size());
  const auto is_blank = [&](size_t i) { return is_white_space(clusters[i].character); };
  for (size_t i = 1; i < clusters.size(); ++i) {
    const char32_t before = clusters[i - 1].character;
    if (is_blank(i - 1)) continue;  // within white space at the beginning
    const size_t end = clusters[i].at;
    bool only_no_break = true;
    size_t next = i;
    for (; next < clusters.size() && is_blank(next); ++next) {
      only_no_break = only_no_break && is_no_break_space(clusters[next].character);
    }
    if (next == clusters.size()) break;
    CutPlace place{end, clusters[next].at, CutPlaceKind::cluster};
    const char32_t after = clusters[next].character;
    const Mark mark = clause_mark_of(before);
    const bool goes_on = closes(after) || clause_mark_of(after) != Mark::none;
    if (next > i) {
      if (!only_no_break) {
        place.kind = mark != Mark::none ? CutPlaceKind::clause : CutPlaceKind::blank;
      }
      i = next;
    } else if (mark == Mark::joined && !goes_on) {
      place.kind = CutPlaceKind::clause;
    } else if (!goes_on && (is_written_without_blanks(script_of_letter(before)) ||
                            is_written_without_blanks(script_of_letter(after)))) {
      place.kind = CutPlaceKind::bare;
    }
    places.push_back(place);
  }
  return places;
}

}  // namespace tril
