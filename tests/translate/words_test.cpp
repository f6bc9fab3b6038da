#include "tril/translate/words.h"

#include "support/testing.h"

namespace tril::words_test {
namespace {

using Words = std::vector<int32_t>;
using Pieces = std::vector<std::string>;
using Links = std::vector<WordLink>;

TEST(Words, BeginAtBlanks) {
  EXPECT_EQ(words_of(Pieces{"▁The", "▁dog", "s", "▁", "bark", "!"}), (Words{0, 1, 1, -1, 2, 2}));
  EXPECT_EQ(words_of(Pieces{"The", "▁dog"}), (Words{0, 1}));
  EXPECT_EQ(words_of(Pieces{"▁▁▁two", "▁▁", "▁blanks", "▁"}), (Words{0, -1, 1, -1}));
  EXPECT_EQ(words_of(Pieces{"▁", "<0xE0>", "<0xA4>", "▁x"}), (Words{-1, 0, 0, 1}));
  EXPECT_EQ(words_of(Pieces{}), Words{});
}

TEST(Words, AreLinkedByTheSumOverTheirPieces) {
  // Two source words of one and two pieces and END; three target pieces of two words, and END.
  const Alignment alignment{4,
                            4,
                            {0.4, 0.3, 0.3, 0.0,    // word 0: 0.4 against 0.6
                             0.6, 0.2, 0.2, 0.0,    // word 1, first piece
                             0.5, 0.25, 0.25, 0.0,  // and second
                             0.0, 0.0, 0.0, 1.0}};
  EXPECT_EQ(link_words(alignment, Words{0, 1, 1}, Words{0, 1, 1}), (Links{{0, 1}, {1, 0}}));
}

TEST(Words, EqualWeightsGoToTheLowerWord) {
  const Alignment alignment{2, 2, {0.5, 0.5, 0.5, 0.5}};
  EXPECT_EQ(link_words(alignment, Words{0, 1}, Words{0, 1}), (Links{{0, 0}, {0, 1}}));
}

TEST(Words, OfBlanksHaveNoLinks) {
  const Alignment alignment{2, 2, {0.5, 0.5, 0.5, 0.5}};
  EXPECT_EQ(link_words(alignment, Words{0, 1}, Words{-1, -1}), Links{});
  EXPECT_EQ(link_words(alignment, Words{-1}, Words{0, 1}), Links{});
  EXPECT_EQ(link_words(alignment, Words{-1, 0}, Words{-1, 0}), (Links{{0, 0}}));
}

TEST(Words, MustBeThoseOfTheAlignment) {
  EXPECT_EQ(testing::raised_by([] {
              link_words({1, 1, {1.0}}, Words{0, 1}, Words{0});
            }).text,
            "link_words: 2 source and 1 target pieces, but an alignment of 1 and 1 tokens");
}

TEST(Words, InThePharaohFormat) {
  EXPECT_EQ(to_pharaoh(Links{{0, 0}, {1, 2}, {10, 1}}), "0-0 1-2 10-1");
  EXPECT_EQ(to_pharaoh({}), "");
}

}  // namespace
}  // namespace tril::words_test
