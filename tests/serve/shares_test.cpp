// Shares: what one client may have, and what is kept for others.
#include "tril/serve/shares.h"

#include <gtest/gtest.h>

namespace tril::shares_test {
namespace {

using serve::Share;
using serve::Shares;

TEST(Shares, AClientHasAPartAndTheLastQuarterIsForNewOnes) {
  Shares all(100, 40);
  Share a(all, 1), more_of_a(all, 1), b(all, 2), more_of_b(all, 2), c(all, 3), d(all, 4);
  EXPECT_TRUE(a.hold(30));
  EXPECT_FALSE(more_of_a.hold(11));
  EXPECT_TRUE(more_of_a.hold(10));
  EXPECT_TRUE(b.hold(30));
  EXPECT_FALSE(more_of_b.hold(6));  // though it would have 36: others have none yet
  EXPECT_TRUE(more_of_b.hold(5));
  EXPECT_TRUE(c.hold(20));
  EXPECT_FALSE(d.hold(6));
  EXPECT_TRUE(d.hold(5));
  EXPECT_EQ(all.held(), 100);
}

// However large: it would never be let in otherwise.
TEST(Shares, AClientsOnlyRequestMayTakeAll) {
  Shares all(100, 25);
  Share one(all, 1), two(all, 1), other(all, 2);
  EXPECT_TRUE(one.hold(60));
  EXPECT_TRUE(one.hold(90));
  EXPECT_FALSE(two.hold(1));
  EXPECT_FALSE(one.hold(101));
  EXPECT_EQ(all.held(), 90);  // as before
  EXPECT_TRUE(other.hold(10));
  EXPECT_TRUE(one.hold(50));  // less is always right
  EXPECT_EQ(all.held(), 60);
}

TEST(Shares, AreGivenBack) {
  Shares all(100, 50);
  for (int i = 0; i < 3; ++i) {
    Share one(all, 1), two(all, 1);
    EXPECT_TRUE(one.hold(50));
    EXPECT_FALSE(two.hold(1));
    one.release();
    EXPECT_TRUE(two.hold(50));
    EXPECT_EQ(all.held(), 50);
    one.hold_anyway(200);
    EXPECT_EQ(all.held(), 250);
  }
  EXPECT_EQ(all.held(), 0);
}

TEST(Shares, OfWhoCannotBeToldApartAreBoundedInSum) {
  Shares all(100, 10);
  Share one(all, std::nullopt), two(all, std::nullopt);
  EXPECT_TRUE(one.hold(60));
  EXPECT_FALSE(two.hold(41));
  EXPECT_TRUE(two.hold(40));
  EXPECT_EQ(all.held(), 100);
}

}  // namespace
}  // namespace tril::shares_test
