#include "tril/lesson/mask_check.h"

#include <gtest/gtest.h>

#include "tril/base/error.h"

namespace tril::mask_check_test {
namespace {

using Notation = MaskCheck::Notation;

TEST(MaskCheck, ReadsEveryNotation) {
  struct Case {
    const char* text;
    Notation notation;
  };
  for (const Case& each :
       {Case{"0 -inf -inf\n0 0 -inf\n0 0 0\n", Notation::added},
        Case{"[[0, -∞, -∞],\n [0, 0, -∞],\n [0, 0, 0]]", Notation::added},
        Case{"0 -1e9 -1e9\n0 0 -1e9\n0 0 0", Notation::added},
        Case{"1 0 0\n1 1 0\n1 1 1", Notation::ones_may_look},
        Case{"True False False\nTrue True False\nTrue True True", Notation::ones_may_look},
        Case{"0 1 1\n0 0 1\n0 0 0", Notation::ones_are_blocked},
        Case{"# I am fine\n. X X\n. . X\n. . .", Notation::dots},
        Case{"| · | × | × |\n| · | · | × |\n| · | · | · |", Notation::dots}}) {
    const MaskCheck check = check_mask(each.text);
    EXPECT_TRUE(check.causal()) << each.text;
    EXPECT_EQ(check.notation, each.notation) << each.text;
    EXPECT_EQ(check.rows, 3);
  }
}

TEST(MaskCheck, SaysWhichCellsAreWrong) {
  const MaskCheck sketch = check_mask(". . . X\n. . . X\n. . . X\n. . . .");
  EXPECT_FALSE(sketch.causal());
  EXPECT_EQ(sketch.leaks, (std::vector<MaskCheck::Cell>{{0, 1}, {0, 2}, {1, 2}}));
  EXPECT_TRUE(sketch.hidden.empty());

  const MaskCheck strict = check_mask("X X\n. X");  // a row must see itself
  EXPECT_FALSE(strict.causal());
  EXPECT_TRUE(strict.leaks_nothing());
  EXPECT_EQ(strict.hidden, (std::vector<MaskCheck::Cell>{{0, 0}, {1, 1}}));

  EXPECT_TRUE(check_mask(". . .\nX . .\nX X .").transposed);
  EXPECT_TRUE(check_mask(". . .\n. . X\n. X X").upside_down);
  EXPECT_FALSE(check_mask(". X X\n. . X").causal());  // as the last rows, each sees too little
  EXPECT_FALSE(check_mask(". X\n. .\n. .").causal());
}

// Two new rows after one key in the cache.
TEST(MaskCheck, RowsBehindACache) {
  const MaskCheck check = check_mask(". . X\n. . .");
  EXPECT_TRUE(check.causal());
  EXPECT_EQ(check.offset(), 1);
  EXPECT_EQ(check_mask(". . .\n. . .").leaks, (std::vector<MaskCheck::Cell>{{0, 2}}));
}

// Only zeros are not a mask: everything leaks.
TEST(MaskCheck, ZerosBlockNothing) {
  const MaskCheck check = check_mask("0 0 0\n0 0 0\n0 0 0");
  EXPECT_EQ(check.notation, Notation::added);
  EXPECT_EQ(check.leaks.size(), 3u);
  EXPECT_FALSE(check.leaks_nothing());
}

TEST(MaskCheck, RowsInBracketsOnOneLine) {
  EXPECT_TRUE(check_mask("[[0, -inf], [0, 0]]").causal());
  EXPECT_EQ(check_mask("[[1,0,0],[1,1,0],[1,1,1]]  # as numpy prints it").rows, 3);
  EXPECT_TRUE(check_mask("tensor([[0., -inf],\n        [0., 0.]])").causal());
  EXPECT_TRUE(check_mask(".XX\n..X\n...").causal());
}

// True for blocked, as in PyTorch, and one cell wrong: it is judged by the nearest convention.
TEST(MaskCheck, TheNearerConvention) {
  const MaskCheck check = check_mask("0 1 1\n0 0 0\n0 0 0");
  EXPECT_EQ(check.notation, Notation::ones_are_blocked);
  EXPECT_EQ(check.leaks, (std::vector<MaskCheck::Cell>{{1, 2}}));
  EXPECT_TRUE(check.hidden.empty());
}

TEST(MaskCheck, ARowThatSeesNothingIsNamed) {
  EXPECT_EQ(check_mask(". X\n. .").blind_row(), -1);
  EXPECT_EQ(check_mask(". X\nX X").blind_row(), 1);
}

TEST(MaskCheck, AMaskOfOneWord) {
  EXPECT_TRUE(check_mask("0").causal());  // added, or nothing blocked
  EXPECT_TRUE(check_mask("1").causal());
  EXPECT_FALSE(check_mask("X").causal());
}

TEST(MaskCheck, WhatIsNoMaskIsAnErrorThatNamesTheLine) {
  const auto error = [](std::string_view text) -> std::string {
    try {
      check_mask(text);
    } catch (const Error& failure) {
      return failure.what();
    }
    return "none";
  };
  EXPECT_NE(error("").find("no row"), std::string::npos);
  EXPECT_NE(error("0 -inf\n0 maybe").find("line 2: 'maybe'"), std::string::npos);
  EXPECT_NE(error("0 -inf\n0").find("line 2 has 1 cells"), std::string::npos);
  EXPECT_NE(error(". X\n0 1").find("two notations"), std::string::npos);
  EXPECT_NE(error("-inf 1\n0 0").find("two notations"), std::string::npos);
  EXPECT_NE(error("0 \x1b[2J").find("\\x1b"), std::string::npos);
}

}  // namespace
}  // namespace tril::mask_check_test
