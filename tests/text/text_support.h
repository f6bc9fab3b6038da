// Text for the tests of text/: random Unicode, and tokenizers learnt from a few sentences.
#pragma once

#include <string>
#include <vector>

#include "support/property.h"
#include "tril/text/tokenizer.h"

namespace tril::testing {

inline std::string utf8_of(char32_t c) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 0x3f))};
  if (c < 0x10000) {
    return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
  }
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 0x3f)), byte(0x80 | (c >> 6 & 0x3f)),
          byte(0x80 | (c & 0x3f))};
}

inline bool is_surrogate(char32_t c) { return 0xd800 <= c && c < 0xe000; }

// Sentences in several scripts, with repetitions enough for pieces of many lengths.
inline std::vector<std::string> sentences() {
  return {"how are you",
          "how old are you",
          "I am fine, thank you",
          "where are they going today?",
          "मैं ठीक हूँ",
          "आप कैसे हैं?",
          "मैं ठीक हूँ, धन्यवाद",
          "वे आज कहाँ जा रहे हैं?",
          "naïve café Ünïcödé",
          "the theory that they themselves gathered",
          "banana bandana ananas",
          "  two  blanks  ",
          "a\tb\tc",
          "👍🏽 😀😀😀 👨‍👩‍👧",
          "ffff ﬁ Ⅷ １２３",
          "日本語のテキスト",
          "lowest lower low slow slowest"};
}

// Pieces of the sentences above, so that much is merged, amid any Unicode but U+2581.
inline rc::Gen<std::string> any_line() {
  using rc::gen::arbitrary;
  using rc::gen::element;
  using rc::gen::inRange;
  using rc::gen::map;
  const auto known = map(rc::gen::pair(rc::gen::elementOf(sentences()), arbitrary<bool>()),
                         [](const std::pair<std::string, bool>& choice) {
                           const auto& [line, whole] = choice;
                           return whole ? line : line.substr(0, line.find(' ', 1));
                         });
  const auto below = [](char32_t begin, char32_t end) {
    return map(inRange<uint32_t>(begin, end), [](uint32_t c) {
      return is_surrogate(c) || c == 0x2581 ? std::string("▂") : utf8_of(c);
    });
  };
  const auto letters = map(rc::gen::container<std::string>(
                               element('a', 'b', 'e', 'h', 'l', 'n', 'o', 's', 't', 'w', 'y', ' ')),
                           [](std::string text) { return text; });
  const auto part = rc::gen::oneOf(
      known, letters, letters, below(0, 0x80), below(0, 0x20), below(0x300, 0x370),
      below(0x900, 0x980), below(0x1f300, 0x1f700), below(0x2570, 0x2590), below(0, 0x110000),
      element<std::string>(" ", "  ", "\t", "<s>", "<0x41>", "\u200d"));
  return map(rc::gen::container<std::vector<std::string>>(part),
             [](const std::vector<std::string>& parts) {
               std::string line;
               for (const std::string& text : parts) line += text;
               return line;
             });
}

inline Tokenizer learn(const std::vector<std::string>& lines, const TokenizerOptions& options,
                       TokenizerReport* report = nullptr) {
  size_t at = 0;
  const auto next = [&](std::string& line) {
    if (at == lines.size()) return false;
    line = lines[at++];
    return true;
  };
  return Tokenizer::train(next, options, report);
}

// Learnt from sentences() once for all tests.
inline const Tokenizer& bpe() {
  static const Tokenizer tokenizer = learn(sentences(), {.vocab = 450});
  return tokenizer;
}
inline const Tokenizer& unigram() {
  static const Tokenizer tokenizer =
      learn(sentences(), {.type = TokenizerType::unigram, .vocab = 420});
  return tokenizer;
}
inline const Tokenizer& nfkc() {
  static const Tokenizer tokenizer =
      learn(sentences(), {.normalization = Normalization::nfkc, .vocab = 450});
  return tokenizer;
}

}  // namespace tril::testing
