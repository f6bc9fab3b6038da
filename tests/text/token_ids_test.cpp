#include "tril/text/token_ids.h"

#include "support/property.h"
#include "tril/base/error.h"

namespace tril::token_ids_test {
namespace {

using Ids = std::vector<int32_t>;

TEST(TokenIds, ReadsNumbersWithBlanksBetween) {
  EXPECT_EQ(parse_token_ids("12 7 3"), Ids({12, 7, 3}));
  EXPECT_EQ(parse_token_ids("  12   7 "), Ids({12, 7}));
  EXPECT_EQ(parse_token_ids("007"), Ids({7}));
  EXPECT_EQ(parse_token_ids("-1"), Ids({-1})) << "whether it is a token is for the model to say";
  EXPECT_EQ(parse_token_ids("2147483647 -2147483648"), Ids({2147483647, -2147483647 - 1}));
  EXPECT_EQ(parse_token_ids(""), Ids());
  EXPECT_EQ(parse_token_ids("   "), Ids());
}

TEST(TokenIds, RefusesEverythingElse) {
  for (const char* line : {"x", "1,2", "1\t2", "1 2\r", "+1", "1.0", "0x1", "- 1", "--1", "1-2",
                           "2147483648", "-2147483649", "99999999999999999999", "١"}) {
    EXPECT_EQ(parse_token_ids(line), std::nullopt) << line;
  }
  EXPECT_EQ(parse_token_ids(std::string_view("1\0 2", 4)), std::nullopt);
}

RC_GTEST_PROP(TokenIds, ReadsWhatIsWritten, (const Ids& ids)) {
  std::string line;
  for (const int32_t id : ids) line += concat(line.empty() ? "" : " ", id);
  RC_ASSERT(parse_token_ids(line) == ids);
}

}  // namespace
}  // namespace tril::token_ids_test
