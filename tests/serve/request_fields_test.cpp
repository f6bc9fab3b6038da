// Fields of requests, as JSON, forms and queries; every refusal names the field and what came.
#include "tril/serve/request_fields.h"

#include <gtest/gtest.h>

#include "tril/decode/generation.h"
#include "tril/translate/text_plan.h"

namespace tril::request_fields_test {
namespace {

using namespace serve;

HttpRequest body_of(std::string body, std::string type = {}) {
  HttpRequest request;
  request.method = "POST";
  request.body = std::move(body);
  if (!type.empty()) request.headers = {{"Content-Type", std::move(type)}};
  return request;
}

RequestFields of_json(std::string body) { return RequestFields::of_body(body_of(std::move(body))); }

RequestFields of_query(const std::string& query) {
  HttpRequest request;
  request.target = "/?" + query;
  return RequestFields::of_query(request);
}

// "status field: message"
template <class F>
std::string refusal(const F& f) {
  try {
    f();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.message.find('\n'), std::string::npos);
    EXPECT_TRUE(is_utf8(error.message) && is_utf8(error.field));
    return concat(error.status, " ", error.field, ": ", error.message);
  }
  return "none";
}

TEST(RequestFields, ReadJsonByAnyOfItsTypes) {
  for (const char* type : {"", "application/json", "Application/JSON; charset=utf-8", "text/json",
                           "application/ld+json", "application/x-www-form-urlencoded"}) {
    RequestFields fields = RequestFields::of_body(body_of(" {\"a\":\"x\"}", type));
    EXPECT_EQ(fields.text("a"), "x") << type;
    EXPECT_NO_THROW(fields.finish());
  }
  EXPECT_EQ(refusal([] { RequestFields::of_body(body_of("{}", "text/plain; a=b")); }),
            "415 : the body is text/plain: send application/json, or a form as "
            "application/x-www-form-urlencoded");
}

TEST(RequestFields, RefuseWhatIsNoObject) {
  EXPECT_EQ(refusal([] { of_json("[1]"); }), "400 : the body: expected an object, got an array");
  for (const char* bad : {"", "{", "{\"a\":1}x", "{\"a\":1,\"a\":2}", "{\"a\":\"\xff\"}", "nul",
                          "{\"a\":[[[[[[[[[1]]]]]]]]]}"}) {
    EXPECT_TRUE(refusal([&] { of_json(bad); }).starts_with("400 : the body")) << bad;
  }
}

TEST(RequestFields, ReadFormsAndQueriesAlike) {
  const std::string text = "t=a&t=b%20c&n=7&x=1.5e1&yes=True&no=0&w=never&s=18446744073709551615";
  for (RequestFields fields :
       {RequestFields::of_body(body_of(text, "application/x-www-form-urlencoded")),
        of_query(text)}) {
    EXPECT_EQ(fields.texts("t", 2), (std::vector<std::string>{"a", "b c"}));
    EXPECT_TRUE(fields.is_list("t"));
    EXPECT_EQ(fields.whole("n", 1, 7), 7);
    EXPECT_EQ(fields.number("x", 0, 15), 15);
    EXPECT_EQ(fields.truth("yes"), true);
    EXPECT_EQ(fields.truth("no"), false);
    EXPECT_EQ(fields.word<Split>("w"), Split::never);
    EXPECT_EQ(fields.seed("s"), 18446744073709551615u);
    EXPECT_EQ(fields.text("missing"), std::nullopt);
    EXPECT_NO_THROW(fields.finish());
  }
  EXPECT_EQ(refusal([] { of_query("a=%4"); }),
            "400 : the query is not encoded as a form is: a=1&b=two%20words");
  EXPECT_TRUE(refusal([] {
                RequestFields::of_body(body_of("a=%4", "application/x-www-form-urlencoded"));
              }).starts_with("400 : the body is not encoded"));
  EXPECT_EQ(refusal([] { of_query("a=%ff"); }), "400 a: the text is not UTF-8");
  EXPECT_TRUE(refusal([] { of_query("%ff=a"); }).ends_with("the text is not UTF-8"));
}

// The largest request that --max-texts allows, with its options, as a form and as JSON; more is
// refused, and says why.
TEST(RequestFields, ManyTexts) {
  constexpr int64_t kTexts = 65'536;
  std::string form = "target=hi", list;
  for (int64_t i = 0; i < kTexts; ++i) {
    form += "&t=a";
    list += i == 0 ? "\"a\"" : ",\"a\"";
  }
  const std::string type = "application/x-www-form-urlencoded";
  for (const HttpRequest& request :
       {body_of(form, type), body_of("{\"target\":\"hi\",\"t\":[" + list + "]}")}) {
    RequestFields fields = RequestFields::of_body(request);
    EXPECT_EQ(std::ssize(*fields.texts("t", kTexts)), kTexts);
    EXPECT_EQ(fields.text("target"), "hi");
    EXPECT_EQ(refusal([&] { (void)fields.texts("t", kTexts - 1); }),
              "413 t: t: 65536 texts, a request may have at most 65535");
  }
  EXPECT_EQ(refusal([&] { RequestFields::of_body(body_of(form + form + form, type)); }),
            concat("400 : the body has more than ", kMostFields, " fields"));
}

// Names are found without comparing each with all the others.
TEST(RequestFields, ManyNames) {
  std::string form;
  for (size_t i = 0; i < kMostFields; ++i) form += concat(i == 0 ? "" : "&", "n", i, "=", i);
  RequestFields fields = of_query(form);
  EXPECT_EQ(fields.text("n131071"), "131071");
}

TEST(RequestFields, TextIsNotReadAsNumbersInJson) {
  RequestFields fields = of_json(R"({"n":"7","t":"true","x":1,"seed":"3"})");
  EXPECT_EQ(refusal([&] { (void)fields.whole("n", 1, 9); }),
            "400 n: n: expected a whole number from 1 to 9, got \"7\"");
  EXPECT_EQ(refusal([&] { (void)fields.truth("t"); }),
            "400 t: t: expected true or false, got \"true\"");
  EXPECT_EQ(refusal([&] { (void)fields.text("x"); }), "400 x: x: expected a text, got 1");
  EXPECT_NE(refusal([&] { (void)fields.seed("seed"); }), "none");
}

TEST(RequestFields, EndsOfRangesAreIn) {
  RequestFields fields = of_json(R"({"a":1,"b":16,"c":17,"d":0,"e":1.0,"f":0.5,"g":9e18,"h":-1})");
  EXPECT_EQ(fields.whole("a", 1, 16), 1);
  EXPECT_EQ(fields.whole("b", 1, 16), 16);
  EXPECT_EQ(refusal([&] { (void)fields.whole("c", 1, 16); }),
            "400 c: c: expected a whole number from 1 to 16, got 17");
  EXPECT_NE(refusal([&] { (void)fields.whole("e", 1, 16); }), "none");
  EXPECT_NE(refusal([&] { (void)fields.whole("g", 1, 16); }), "none");
  EXPECT_EQ(fields.number("d", 0, 1), 0.0);
  EXPECT_EQ(fields.number("e", 0, 1, true), 1.0);
  EXPECT_EQ(refusal([&] { (void)fields.number("d", 0, 1, true); }),
            "400 d: d: expected a number above 0, at most 1, got 0");
  EXPECT_EQ(refusal([&] { (void)fields.number("h", 0, 1); }),
            "400 h: h: expected a number from 0 to 1, got -1");
  EXPECT_NE(refusal([&] { (void)fields.seed("h"); }), "none");
  EXPECT_NE(refusal([&] { (void)fields.seed("f"); }), "none");
  RequestFields texts = of_query("x=nan&y=inf&z=1e999&w=+1&v=0x10&u=1%20");
  for (const char* name : {"x", "y", "z", "w", "v", "u"}) {
    EXPECT_NE(refusal([&] { (void)texts.number(name, -1e300, 1e300); }), "none") << name;
  }
}

TEST(RequestFields, ListsOfTexts) {
  RequestFields fields =
      of_json(R"({"one":"a","many":["a",""],"none":[],"mixed":["a",1],"number":7})");
  EXPECT_EQ(fields.texts("one", 1), std::vector<std::string>{"a"});
  EXPECT_FALSE(fields.is_list("one"));
  EXPECT_EQ(fields.texts("many", 2), (std::vector<std::string>{"a", ""}));
  EXPECT_TRUE(refusal([&] { (void)fields.texts("many", 1); }).starts_with("413 many: "));
  for (const char* name : {"none", "mixed", "number"}) {
    EXPECT_TRUE(refusal([&] { (void)fields.texts(name, 9); }).starts_with("400 ")) << name;
  }
}

TEST(RequestFields, WordsAreNamed) {
  RequestFields fields = of_json(R"({"a":"long","b":"Long","c":3,"d":"ranked"})");
  EXPECT_EQ(fields.word<Split>("a"), Split::too_long);
  EXPECT_EQ(refusal([&] { (void)fields.word<Split>("b"); }),
            "400 b: b: expected never, long or always, got \"Long\"");
  EXPECT_NE(refusal([&] { (void)fields.word<Split>("c"); }), "none");
  EXPECT_EQ(fields.word<CutHypotheses>("d"), CutHypotheses::ranked);
}

TEST(RequestFields, ListsOfTokens) {
  RequestFields fields = of_json(
      R"({"a":[[17],[4,5]],"b":[],"c":[17],"d":[[]],"e":[[-1]],"f":[[2147483648]],"g":[[1.0]]})");
  EXPECT_EQ(fields.token_lists("a"), (std::vector<std::vector<int32_t>>{{17}, {4, 5}}));
  EXPECT_TRUE(fields.token_lists("b").empty());
  EXPECT_TRUE(fields.token_lists("missing").empty());
  for (const char* name : {"c", "d", "e", "f", "g"}) {
    EXPECT_NE(refusal([&] { (void)fields.token_lists(name); }).find("lists of token ids"),
              std::string::npos)
        << name;
  }
}

TEST(RequestFields, NullIsNothing) {
  RequestFields fields = of_json(R"({"a":null})");
  EXPECT_FALSE(fields.has("a"));
  EXPECT_EQ(fields.text("a"), std::nullopt);
  EXPECT_EQ(fields.value("a"), nullptr);
  EXPECT_NO_THROW(fields.finish());
}

TEST(RequestFields, WhatNobodyAskedForIsRefused) {
  RequestFields fields = of_json(R"({"a":1,"beem":null})");
  EXPECT_EQ(fields.whole("a", 0, 1), 1);
  EXPECT_EQ(refusal([&] { fields.finish(); }),
            "400 beem: there is no field beem: see /openapi.json");
}

}  // namespace
}  // namespace tril::request_fields_test
