#include "tril/lesson/claims.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "tril/lesson/learn_phrasebook.h"

namespace tril::claims_test {
namespace {

// Barely trained: enough for claims that hold for any weights.
Translator some_translator() {
  static const Translator translator = learn_phrasebook(make_phrasebook(), {.updates = 30});
  return translator;
}

TEST(Claims, AllFortyFourAreThereAndSayEverything) {
  ASSERT_EQ(claims().size(), 44u);
  std::set<std::string_view> said;
  for (int number = 1; number <= 44; ++number) {
    const Claim& claim = claim_number(number);
    EXPECT_EQ(claim.number, number);
    EXPECT_TRUE(said.insert(claim.says).second) << number;
    EXPECT_FALSE(claim.answer.empty()) << number;
    EXPECT_FALSE(claim.command.empty()) << number;
    // The page has the command, apart from what a reader fills in.
    std::ifstream file(concat(TRIL_GUIDE, "/", claim.page));
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    const std::string command(claim.command.substr(0, claim.command.find(" MODEL")));
    EXPECT_NE(page.find("tril " + command.substr(0, command.find(" FILE"))), std::string::npos)
        << number << ": " << claim.page << " has no '" << claim.command << "'";
  }
  EXPECT_THROW(claim_number(0), Error);
  EXPECT_THROW(claim_number(45), Error);
}

// Those that need no model and nothing to learn.
constexpr int kAtOnce[] = {18, 23, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36};
// Those that are true of any weights.
constexpr int kOfAnyModel[] = {6, 8, 9, 10, 37, 42};

TEST(Claims, WhatNeedsNoModelIsAsStated) {
  ClaimLab lab;
  for (const int number : kAtOnce) {
    const ClaimFinding finding = check_claim(number, lab);
    EXPECT_TRUE(finding.as_stated) << number << ": " << finding.figure;
    EXPECT_FALSE(finding.figure.empty()) << number;
  }
}

TEST(Claims, WhatIsTrueOfAnyModelIsAsStated) {
  ClaimLab lab({.threads = 1}, some_translator());
  for (const int number : kOfAnyModel) {
    const ClaimFinding finding = check_claim(number, lab);
    EXPECT_TRUE(finding.as_stated) << number << ": " << finding.figure;
  }
}

std::set<int> failing(std::span<const int> numbers, ClaimLab& lab) {
  std::set<int> failed;
  for (const int number : numbers) {
    if (!check_claim(number, lab).as_stated) failed.insert(number);
  }
  return failed;
}

// A mask that is off by one key turns the claims about masked attention, and no others.
TEST(Claims, AMaskThatIsTooWideTurnsTheClaimsAboutIt) {
  ClaimLab lab({.hooks = {.widen_head = TestHooks::kAllHeads}});
  const std::set<int> failed = failing(kAtOnce, lab);
  for (const int number : {18, 25, 27, 30}) EXPECT_TRUE(failed.contains(number)) << number;
  for (const int number : {23, 26, 31, 32, 33}) EXPECT_FALSE(failed.contains(number)) << number;
}

// Without the mask training sees the future: it is no longer autoregressive in function.
TEST(Claims, WithoutTheMaskTheStatementFails) {
  ClaimLab lab({.threads = 1, .masking = Masking::none}, some_translator());
  const std::set<int> failed = failing(kOfAnyModel, lab);
  EXPECT_TRUE(failed.contains(9));
  EXPECT_TRUE(failed.contains(10));
  EXPECT_FALSE(failed.contains(8));  // the inputs do not depend on the mask
  EXPECT_FALSE(failed.contains(37));
}

// A sum whose order depends on the batch: training and inference differ in bits.
TEST(Claims, AnOrderThatDependsOnTheBatchTurnsTheStatement) {
  ClaimLab lab({.threads = 1, .hooks = {.order_by_batch = true}}, some_translator());
  EXPECT_FALSE(check_claim(9, lab).as_stated);
  EXPECT_TRUE(check_claim(8, lab).as_stated);
}

}  // namespace
}  // namespace tril::claims_test
