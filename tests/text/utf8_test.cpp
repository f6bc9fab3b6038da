#include "tril/text/utf8.h"

#include <array>

#include "text_support.h"

namespace tril::utf8_test {
namespace {

using testing::is_surrogate;
using testing::utf8_of;

// Every character there is, written the one right way.
std::vector<std::string> all_characters() {
  std::vector<std::string> all;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (!is_surrogate(c)) all.push_back(utf8_of(c));
  }
  return all;
}

TEST(Utf8, TakesEveryCharacter) {
  for (const std::string& character : all_characters()) {
    ASSERT_FALSE(first_invalid_utf8(character)) << ::testing::PrintToString(character);
  }
  EXPECT_FALSE(first_invalid_utf8(""));
}

// Of all strings of up to three bytes exactly the characters and their rows are UTF-8.
TEST(Utf8, TakesNothingElse) {
  std::array<int, 4> good{1, 0, 0, 0};  // strings of valid characters, by their bytes
  const std::array<int, 4> characters{0, 0x80, 0x800 - 0x80, 0x10000 - 0x800 - 0x800};
  for (size_t bytes = 1; bytes < 4; ++bytes) {
    for (size_t last = 1; last <= bytes; ++last)
      good[bytes] += characters[last] * good[bytes - last];
  }
  for (size_t bytes = 1; bytes < 4; ++bytes) {
    int found = 0;
    std::string text(bytes, '\0');
    for (uint32_t i = 0; i < 1u << 8 * bytes; ++i) {
      for (size_t b = 0; b < bytes; ++b) text[b] = static_cast<char>(i >> 8 * b);
      found += first_invalid_utf8(text) ? 0 : 1;
    }
    EXPECT_EQ(found, good[bytes]) << bytes << " bytes";
  }
}

TEST(Utf8, RefusesFourBytesOutOfRange) {
  EXPECT_EQ(first_invalid_utf8("\xf0\x8f\xbf\xbf"), 0u);  // U+FFFF in four bytes
  EXPECT_EQ(first_invalid_utf8("\xf4\x90\x80\x80"), 0u);  // U+110000
  EXPECT_EQ(first_invalid_utf8("\xf5\x80\x80\x80"), 0u);
  EXPECT_EQ(first_invalid_utf8("\xf8\x88\x80\x80\x80"), 0u);
  EXPECT_EQ(first_invalid_utf8("\xf0\x90\x80"), 0u);
  EXPECT_EQ(first_invalid_utf8("\xf0\x90\x80\xc0"), 0u);
}

RC_GTEST_PROP(Utf8, NamesTheFirstFault, ()) {
  const std::string before = *testing::any_line();
  const std::string after = *testing::any_line();
  RC_ASSERT(!first_invalid_utf8(before + after));
  const auto fault =
      *rc::gen::element<std::string>("\x80", "\xc0\x80", "\xed\xa0\x80", "\xff", "\xe0\x80");
  RC_ASSERT(first_invalid_utf8(before + fault + after) == before.size());
}

}  // namespace
}  // namespace tril::utf8_test
