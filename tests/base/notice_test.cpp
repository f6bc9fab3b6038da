// Who hears what.
#include "tril/base/notice.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tril {
namespace {

TEST(Notice, IsHeardByTheYoungestListenerOfItsThread) {
  notice("to nobody");
  std::vector<std::string> outer, inner;
  const NoticeListener listener([&](const std::string& text) { outer.push_back(text); });
  notice("one ", 1);
  {
    const NoticeListener other([&](const std::string& text) { inner.push_back(text); });
    notice("two");
  }
  notice("three");
  std::thread([] { notice("elsewhere"); }).join();
  EXPECT_EQ(outer, (std::vector<std::string>{"one 1", "three"}));
  EXPECT_EQ(inner, std::vector<std::string>{"two"});
}

}  // namespace
}  // namespace tril
