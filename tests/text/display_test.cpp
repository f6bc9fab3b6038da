#include "tril/text/display.h"

#include <gtest/gtest.h>

namespace tril::display_test {
namespace {

TEST(DisplayWidth, CountsColumnsAndNotCharactersOrBytes) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("bank"), 4);
  EXPECT_EQ(display_width("→"), 1);
  EXPECT_EQ(display_width("-∞"), 2);
  EXPECT_EQ(display_width("é"), 1);
  EXPECT_EQ(display_width("e\u0301"), 1);  // the same letter, its accent apart
  EXPECT_EQ(display_width("漢字"), 4);
  EXPECT_EQ(display_width("\u200D"), 0);  // joins, and is not seen
  EXPECT_EQ(display_width("\u00AD"), 1);  // the soft hyphen is seen
}

// Devanagari, letter by letter: a spacing vowel sign (ा ी ो) takes a column; the signs above and
// below (े ै ू ं ँ) and the virama of a conjunct take none.
TEST(DisplayWidth, KnowsTheMarksOfDevanagari) {
  EXPECT_EQ(display_width("आप"), 2);
  EXPECT_EQ(display_width("कैसे"), 2);
  EXPECT_EQ(display_width("हैं"), 1);
  EXPECT_EQ(display_width("मैं ठीक हूँ"), 1 + 1 + 3 + 1 + 1);
  EXPECT_EQ(display_width("धन्यवाद"), 6);  // ध न ् य व ा द
  EXPECT_EQ(display_width("बधाई हो"), 4 + 1 + 2);
}

TEST(DisplayWidth, TextThatIsNotUtf8HasAWidthToo) {
  EXPECT_EQ(display_width("ab\xFF"), 3);
  EXPECT_EQ(display_width("\xE0\xA4"), 2);
}

TEST(DisplayWidth, PadsToColumns) {
  EXPECT_EQ(pad_right("हैं", 4), "हैं   ");
  EXPECT_EQ(pad_left("हैं", 4), "   हैं");
  EXPECT_EQ(pad_right("bank", 4), "bank");
  EXPECT_EQ(pad_left("river bank", 4), "river bank");  // longer text stays whole
}

TEST(Escaped, NoTextCommandsTheTerminal) {
  EXPECT_EQ(escaped("मैं ठीक हूँ, \"fine\" \\ café 漢"), "मैं ठीक हूँ, \"fine\" \\ café 漢");
  EXPECT_EQ(escaped("क्\u200Dष क्\u200Cष"), "क्\u200Dष क्\u200Cष");  // joiners belong to the words
  EXPECT_EQ(escaped("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(escaped("\x1B[2Jgone"), "\\x1b[2Jgone");
  EXPECT_EQ(escaped("\x7F\u009B"), "\\x7f\\x9b");
  EXPECT_EQ(escaped("abc\u202Edef\u2066\u061C"), "abc\\u202edef\\u2066\\u061c");
  EXPECT_EQ(escaped("\u2028"), "\\u2028");
  EXPECT_EQ(escaped("a\xFF"
                    "b\xE0\xA4"),
            "a\\xffb\\xe0\\xa4");
  EXPECT_EQ(escaped(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(escaped(""), "");
}

TEST(Wrapped, BreaksAtBlanksWhereALineIsFull) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrapped("", 10), Lines{""});
  EXPECT_EQ(wrapped("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrapped("one two three", 6), (Lines{"one", "two", "three"}));
  EXPECT_EQ(wrapped("one   two", 20), Lines{"one two"});
  EXPECT_EQ(wrapped("one \ntwo\n\nthree", 20), (Lines{"one", "two", "", "three"}));
  EXPECT_EQ(wrapped("आप कैसे हैं", 5), (Lines{"आप कैसे", "हैं"}));  // 2 + 1 + 2 columns
  EXPECT_EQ(wrapped("a unbreakable b", 4), (Lines{"a", "unbreakable", "b"}));
}

TEST(Wrapped, KeepsTheIndentOfALine) {
  EXPECT_EQ(wrapped("  one two", 6), (std::vector<std::string>{"  one", "  two"}));
}

TEST(Shortened, SaysWhereSomethingIsLeftOut) {
  EXPECT_EQ(shortened("bank", 4), "bank");
  EXPECT_EQ(shortened("river bank", 6), "river…");
  EXPECT_EQ(shortened("मैं ठीक हूँ", 4), "मैं ठ…");
  EXPECT_EQ(shortened("bank", 1), "…");
  EXPECT_EQ(shortened("bank", 0), "");
  EXPECT_EQ(display_width(shortened("漢字漢字", 4)), 3);  // half a character is none
  EXPECT_EQ(shortened("ab\xFF", 2), "ab");
}

}  // namespace
}  // namespace tril::display_test
