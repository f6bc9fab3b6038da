#include "tril/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace tril::crc32c_test {
namespace {

// The examples of RFC 3720, B.4, and the usual one.
TEST(Crc32c, IsThatOfTheStandard) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(up), 0x46DD794Eu);
  EXPECT_EQ(crc32c(down), 0x113FDB5Cu);
}

}  // namespace
}  // namespace tril::crc32c_test
