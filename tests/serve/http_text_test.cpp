#include "tril/serve/http_text.h"

#include <gtest/gtest.h>

#include "tril/serve/http.h"

namespace tril::http_text_test {
namespace {

using namespace serve;

TEST(HttpText, PercentsAreDecoded) {
  EXPECT_EQ(percent_decoded("%41+b%2B"), "A b+");
  EXPECT_EQ(percent_decoded("%e0%a4%95%E0%A4%95"), "कक");
  EXPECT_EQ(percent_decoded("%00"), std::string(1, '\0'));
  EXPECT_EQ(percent_decoded(""), "");
  for (const char* bad : {"%", "%4", "a%", "%4g", "%g4", "%-1", "% 1", "%%41"}) {
    EXPECT_EQ(percent_decoded(bad), std::nullopt) << bad;
  }
}

TEST(HttpText, EncodingIsUndoneForEveryByte) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(percent_decoded(percent_encoded(all)), all);
  EXPECT_EQ(percent_encoded("aZ09-._~ +/क"), "aZ09-._~%20%2B%2F%E0%A4%95");
}

TEST(HttpText, FormsAreFields) {
  EXPECT_EQ(parse_form("a=1&b=x+y&a=%26"), (Fields{{"a", "1"}, {"b", "x y"}, {"a", "&"}}));
  EXPECT_EQ(parse_form(""), Fields{});
  EXPECT_EQ(parse_form("&&a&=b&c=&"), (Fields{{"a", ""}, {"", "b"}, {"c", ""}}));
  EXPECT_EQ(parse_form("a=b=c"), (Fields{{"a", "b=c"}}));
  EXPECT_EQ(parse_form("a=%4"), std::nullopt);
  EXPECT_EQ(parse_form("%4=a"), std::nullopt);
  EXPECT_EQ(parse_form("a=1&b=2", 2), (Fields{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(parse_form("a=1&b=2&c=3", 2), std::nullopt);
  for (const char* text : {"", "&&", "a", "a=1&b=2", "&&a&=b&c=&", "a=1&a=1&a=1"}) {
    EXPECT_EQ(count_fields(text), parse_form(text)->size()) << text;
  }
  EXPECT_EQ(count_fields("a=%4&&%"), 2u);
}

TEST(HttpText, CharactersAreNotBytes) {
  EXPECT_EQ(count_characters(""), 0);
  EXPECT_EQ(count_characters("aé😀क"), 4);
}

TEST(HttpText, CaseOfAsciiLettersAlone) {
  EXPECT_TRUE(equal_ignoring_case("Content-TYPE", "content-type"));
  EXPECT_TRUE(equal_ignoring_case("", ""));
  EXPECT_FALSE(equal_ignoring_case("a", ""));
  EXPECT_FALSE(equal_ignoring_case("ab", "a"));
  EXPECT_FALSE(equal_ignoring_case("@[", "`{"));  // as far apart as letters of two cases
  EXPECT_FALSE(equal_ignoring_case("É", "é"));
}

TEST(HttpText, MediaTypes) {
  EXPECT_EQ(media_type("Text/HTML; charset=utf-8"), "text/html");
  EXPECT_EQ(media_type(" application/json\t;x"), "application/json");
  EXPECT_EQ(media_type(""), "");
  EXPECT_EQ(media_type(";"), "");
  EXPECT_EQ(trimmed(" \ta b\t "), "a b");
  EXPECT_EQ(trimmed(" \t "), "");
}

TEST(HttpText, TagsInAList) {
  const std::string tag = "\"abc\"";
  for (const char* names : {"\"abc\"", "W/\"abc\"", "\"x\", \"abc\"", "*", " * ", "\"abc\" ,",
                            "\"x\",W/\"abc\",\"y\""}) {
    EXPECT_TRUE(names_tag(names, tag)) << names;
  }
  for (const char* other :
       {"", "abc", "\"abcd\"", "\"ab\"", "\"ABC\"", "w/\"abc\"", "\"a bc\"", ",,"}) {
    EXPECT_FALSE(names_tag(other, tag)) << other;
  }
}

TEST(HttpText, PartsOfARequest) {
  HttpRequest request;
  request.target = "/v1/translate?text=a?b&c";
  request.headers = {{"X-A", "1"}, {"x-a", "2"}, {"B", ""}};
  EXPECT_EQ(request.path(), "/v1/translate");
  EXPECT_EQ(request.query(), "text=a?b&c");
  EXPECT_EQ(request.header("x-A"), "1");
  EXPECT_EQ(request.header("b"), "");
  EXPECT_EQ(request.header("c"), "");
  request.target = "/path";
  EXPECT_EQ(request.path(), "/path");
  EXPECT_EQ(request.query(), "");
}

}  // namespace
}  // namespace tril::http_text_test
