#include "tril/io/toml.h"

#include <gtest/gtest.h>

#include "io_support.h"
#include "support/property.h"
#include "support/testing.h"
#include "tril/io/json.h"

namespace tril::toml_test {
namespace {

using Values = std::vector<std::string>;

TEST(Toml, ReadsWhatOptionsAreWrittenIn) {
  const auto options = parse_toml(
      "# a run\n"
      "source = [\"a.en\", \"b #2.en\"]  # two files\r\n"
      "\n"
      "  vocab=8000\n"
      "rate = 5e-3\n"
      "tied = true\n"
      "none = []\n"
      "name = \"a \\\"b\\\" \\\\ \\u0915\"",
      "file");
  ASSERT_EQ(options.size(), 6u);
  EXPECT_EQ(options[0].name, "source");
  EXPECT_EQ(options[0].values, (Values{"a.en", "b #2.en"}));
  EXPECT_EQ(options[1].values, Values{"8000"});
  EXPECT_EQ(options[2].values, Values{"5e-3"});
  EXPECT_EQ(options[3].values, Values{"true"});
  EXPECT_EQ(options[4].values, Values{});
  EXPECT_EQ(options[5].values, Values{"a \"b\" \\ \u0915"});
}

TEST(Toml, NamesFileAndLineOfWhatItIsNot) {
  for (const std::string bad :
       {"x", "= 3", "a b = 3", "x = ", "x = [1]", "x = {}", "x = null", "x = \"a", "x = 1 2",
        "[section]", "x = 'single'", "y = 1\nx = 1\nx = 2"}) {
    const auto raised = testing::raised_by([&] { parse_toml("\n" + bad, "run.toml"); });
    EXPECT_EQ(raised.code, ErrorCode::bad_format) << bad;
    const std::string line = bad.starts_with("y") ? "run.toml:4" : "run.toml:2";
    EXPECT_EQ(raised.text.find(line), 0u) << raised.text;
  }
}

RC_GTEST_PROP(Toml, ReadsBackAnyText, (const std::string& bytes)) {
  std::string text;
  for (const char c : bytes) text += static_cast<char>(c & 0x7F);  // ASCII is UTF-8
  const auto options = parse_toml("x = " + json_quoted(text) + " # end\n", "file");
  RC_ASSERT(options.size() == 1u);
  RC_ASSERT(options[0].values == Values{text});
}

}  // namespace
}  // namespace tril::toml_test
