#include "json_text.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace load {
namespace {

TEST(JsonText, FindsByPlace) {
  const std::string text =
      R"( {"a,}": [1, {"b": "x\"]"}], "usage" : {"target_tokens": 12 }, "last": null} )";
  EXPECT_EQ(json_at(text, "a,}.1.b"), R"("x\"]")");
  EXPECT_EQ(json_at(text, "usage.target_tokens"), "12");
  EXPECT_EQ(json_at(text, "last"), "null");
  EXPECT_EQ(json_at(text, "a,}.2"), "");
  EXPECT_EQ(json_at(text, "usage.target_tokens.0"), "");
  EXPECT_EQ(json_at("", "a"), "");
}

TEST(JsonText, NothingCutShortIsReadPastItsEnd) {
  const std::string text =
      R"({"translations": [{"text": "a\u00e9\\", "ended": true}], "n": {"m": 1}})";
  for (size_t size = 0; size < text.size(); ++size) {
    const std::string cut = text.substr(0, size);  // an allocation of its own, for the sanitizer
    try {
      json_at(cut, "translations.0.text");
      json_at(cut, "n.m");
      json_string(cut);
    } catch (const std::runtime_error&) {
    }
  }
}

TEST(JsonText, Lists) {
  const auto objects = json_elements(R"([{"beam": [1, 2]}, {} , {"a": "]"}])");
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(json_members(objects[0]), R"("beam": [1, 2])");
  EXPECT_EQ(json_members(objects[1]), "");
  EXPECT_TRUE(json_elements("[ ]").empty());
  EXPECT_THROW(json_elements("{}"), std::runtime_error);
  EXPECT_THROW(json_members("[]"), std::runtime_error);
}

TEST(JsonText, Strings) {
  EXPECT_EQ(json_string(R"("a\n\t\"\\\/\u00e9\u0928\ud83d\ude00")"), "a\n\t\"\\/é\u0928😀");
  EXPECT_EQ(json_quoted("a\n\"\\é"), R"("a\u000a\"\\é")");
  EXPECT_EQ(json_string(json_quoted("\x01\x1f tab\t \"q\" \\ नमस्ते")),
            "\x01\x1f tab\t \"q\" \\ नमस्ते");
  EXPECT_THROW(json_string(R"("\u12g4")"), std::runtime_error);
  EXPECT_THROW(json_string("1"), std::runtime_error);
}

}  // namespace
}  // namespace load
