#include "tril/text/unicode.h"

#include <array>

#include "score_cases.h"
#include "support/property.h"
#include "tril/text/utf8.h"

namespace tril::unicode_test {
namespace {

using testing::field;

constexpr char32_t kEnd = 0x110000;

bool is_surrogate(char32_t c) { return c >= 0xD800 && c < 0xE000; }

TEST(Unicode, ClassesAreThoseOfTheOracle) {
  std::array<int64_t, 4> counts{}, sums{};
  for (char32_t c = 0; c < kEnd; ++c) {
    const auto kind = static_cast<size_t>(character_class(c));
    ++counts.at(kind);
    sums.at(kind) += c;
  }
  const JsonValue facts = testing::read_scores("characters.json");
  const auto expect = [&](CharacterClass kind, const char* name) {
    EXPECT_EQ(counts[static_cast<size_t>(kind)], field(field(facts, name), "count").integer);
    EXPECT_EQ(sums[static_cast<size_t>(kind)], field(field(facts, name), "sum").integer);
  };
  expect(CharacterClass::punctuation, "P");
  expect(CharacterClass::symbol, "S");
  expect(CharacterClass::number, "N");
}

TEST(Unicode, WhiteSpaceIsPythons) {
  std::vector<int64_t> white, expected;
  for (char32_t c = 0; c < kEnd; ++c) {
    if (is_white_space(c)) white.push_back(c);
  }
  const JsonValue facts = testing::read_scores("characters.json");
  for (const JsonValue& item : field(facts, "white space").items) expected.push_back(item.integer);
  EXPECT_EQ(white, expected);
}

TEST(Unicode, EveryCharacterIsWrittenAndReadBack) {
  std::u32string all;
  for (char32_t c = 0; c < kEnd; ++c) {
    if (is_surrogate(c)) continue;
    const std::string text = encode_utf8({&c, 1});
    ASSERT_FALSE(first_invalid_utf8(text).has_value()) << static_cast<uint32_t>(c);
    ASSERT_EQ(decode_utf8(text), std::u32string(1, c)) << static_cast<uint32_t>(c);
    all.push_back(c);
  }
  EXPECT_EQ(decode_utf8(encode_utf8(all)), all);
}

// Any characters, white ones often.
rc::Gen<std::u32string> any_text() {
  const auto any = rc::gen::map(rc::gen::inRange<uint32_t>(0, kEnd), [](uint32_t c) {
    return is_surrogate(c) ? U'x' : static_cast<char32_t>(c);
  });
  return rc::gen::container<std::u32string>(
      rc::gen::oneOf(any, rc::gen::element(U' ', U'\n', U'\u0085', U'\u3000', U'\u200b', U'a')));
}

RC_GTEST_PROP(Unicode, WordsAreWhatWhiteSpaceLeaves, ()) {
  const std::u32string characters = *any_text();
  std::vector<std::u32string> expected(1);
  for (const char32_t c : characters) {
    if (!is_white_space(c)) {
      expected.back().push_back(c);
    } else if (!expected.back().empty()) {
      expected.emplace_back();
    }
  }
  if (expected.back().empty()) expected.pop_back();
  const std::string text = encode_utf8(characters);
  std::vector<std::u32string> words;
  for (const std::string_view word : split_words(text)) words.push_back(decode_utf8(word));
  RC_ASSERT(words == expected);
}

RC_GTEST_PROP(Unicode, OnlyTheWhiteEndIsStripped, ()) {
  const std::u32string characters = *any_text();
  std::u32string expected = characters;
  while (!expected.empty() && is_white_space(expected.back())) expected.pop_back();
  const std::string text = encode_utf8(characters);
  RC_ASSERT(decode_utf8(strip_end(text)) == expected);
}

}  // namespace
}  // namespace tril::unicode_test
