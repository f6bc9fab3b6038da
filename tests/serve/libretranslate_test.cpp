// LibreTranslate's API, field by field as its clients send and read them.
#include <gtest/gtest.h>

#include "service_support.h"

namespace tril::libretranslate_test {
namespace {

using namespace serve;
using namespace serve_test;

Service& served() {
  static Service service(small_models(1, true), {});
  return service;
}

HttpResponse form(const std::string& target, const std::string& body) {
  return ask(served(), request("POST", target, body,
                               {{"Content-Type", "application/x-www-form-urlencoded"}}));
}

// What the own API says, which is what the library computes (own_api_test.cpp).
std::string own(const std::string& text, const std::string& path = "translations/0/text",
                const std::string& more = {}) {
  return text_at(post(served(), "/v1/translate",
                      concat(R"({"target":"hi","text":)", json_quoted(text), more, "}")),
                 path);
}

TEST(LibreTranslate, TranslatesOneText) {
  const auto response = post(served(), "/translate",
                             R"({"q":"how are you","source":"en","target":"hi","format":"text"})");
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(json(response).names, std::vector<std::string>{"translatedText"});
  EXPECT_EQ(text_at(response, "translatedText"), own("how are you"));
  EXPECT_NE(header(response, "ETag"), "");
  EXPECT_EQ(header(response, "X-Tril-Fingerprint").size(), 32u);
  EXPECT_EQ(form("/translate", "q=how+are+you&source=en&target=hi").body, response.body);
  EXPECT_EQ(ask(served(), request("POST", "/translate?q=how%20are%20you&source=en&target=hi")).body,
            response.body);
}

TEST(LibreTranslate, TranslatesLists) {
  const auto response =
      post(served(), "/translate",
           R"({"q":["how are you","banana\n"],"source":"auto","target":"hi","alternatives":1})");
  const JsonValue answer = json(response);
  EXPECT_EQ(answer.names,
            (std::vector<std::string>{"translatedText", "detectedLanguage", "alternatives"}));
  ASSERT_EQ(at(answer, "translatedText").items.size(), 2u);
  EXPECT_EQ(at(answer, "translatedText/0").text, own("how are you"));
  EXPECT_EQ(at(answer, "translatedText/1").text, own("banana\n"));
  ASSERT_EQ(at(answer, "detectedLanguage").items.size(), 2u);
  EXPECT_EQ(at(answer, "detectedLanguage/0/language").text, "en");
  ASSERT_EQ(at(answer, "alternatives").items.size(), 2u);
  EXPECT_EQ(at(answer, "alternatives/0/0").text,
            own("how are you", "translations/0/alternatives/0", R"(,"n_best":2)"));
  // A list of one stays a list.
  const auto one =
      json(post(served(), "/translate", R"({"q":["how"],"source":"en","target":"hi"})"));
  EXPECT_EQ(at(one, "translatedText").items.size(), 1u);
}

TEST(LibreTranslate, GivesAlternatives) {
  for (const int64_t wanted : {0, 1, 4, 7, 15}) {
    const auto answer = json(post(
        served(), "/translate",
        concat(R"({"q":"how are you","source":"en","target":"hi","alternatives":)", wanted, "}")));
    if (wanted == 0) {
      EXPECT_EQ(answer.find("alternatives"), nullptr);
    } else {
      EXPECT_EQ(std::ssize(at(answer, "alternatives").items), wanted);
    }
  }
  // With the best one, 16 is the most that a request may ask for.
  const auto more = post(served(), "/translate",
                         R"({"q":"how are you","source":"en","target":"hi","alternatives":16})");
  EXPECT_EQ(more.status, 400);
  EXPECT_EQ(text_at(more, "error"), "alternatives: expected a whole number from 0 to 15, got 16");
}

TEST(LibreTranslate, DetectsInPercent) {
  const auto answer = json(post(served(), "/detect", R"({"q":"where are they going today?"})"));
  EXPECT_EQ(at(answer, "0/language").text, "en");
  EXPECT_GT(at(answer, "0/confidence").number, 1.0);
  EXPECT_LE(at(answer, "0/confidence").number, 100.0);
  const auto translated =
      json(post(served(), "/translate",
                R"({"q":"where are they going today?","source":"auto","target":"hi"})"));
  EXPECT_EQ(at(translated, "detectedLanguage/language").text, "en");
  EXPECT_EQ(at(translated, "detectedLanguage/confidence").number,
            at(answer, "0/confidence").number);
  EXPECT_EQ(form("/detect", "q=where+are+they+going+today%3F").status, 200);
}

// LibreTranslate always names a language, and clients rely on it.
TEST(LibreTranslate, DetectsSomethingInAnyCase) {
  for (const char* text : {"123", "", "मैं ठीक हूँ"}) {
    EXPECT_EQ(post(served(), "/detect", concat(R"({"q":)", json_quoted(text), "}")).body,
              "[{\"confidence\":0.0,\"language\":\"en\"}]\n");
  }
}

// Codes that only LibreTranslate has.
TEST(LibreTranslate, KnowsItsOwnCodes) {
  ModelSet models;
  for (const auto& [name, target] : {std::pair("chinese", "zh-Hant"), {"portuguese", "pt_BR"}}) {
    models.add(served_model({.name = name, .folder = "none", .languages = {"en", target}},
                            small_translator()));
  }
  Service service(std::move(models), {});
  for (const char* target : {"zt", "pb"}) {
    EXPECT_EQ(
        post(service, "/translate", concat(R"({"q":"how","source":"en","target":")", target, "\"}"))
            .status,
        200)
        << target;
  }
}

TEST(LibreTranslate, TellsWhatThereIs) {
  EXPECT_EQ(get(served(), "/languages").body,
            "[{\"code\":\"en\",\"name\":\"English\",\"targets\":[\"hi\"]}]\n");
  EXPECT_EQ(get(served(), "/health").body, "{\"status\":\"ok\"}\n");
  const auto settings = json(get(served(), "/frontend/settings"));
  EXPECT_EQ(at(settings, "keyRequired").boolean, false);
  EXPECT_EQ(at(settings, "language/source/code").text, "auto");
  EXPECT_EQ(at(settings, "language/target/code").text, "hi");
  EXPECT_EQ(at(settings, "charLimit").integer, -1);
}

TEST(LibreTranslate, ErrorsAreOneText) {
  const auto error = [](const std::string& body) {
    const auto response = post(served(), "/translate", body);
    EXPECT_EQ(json(response).names, std::vector<std::string>{"error"});
    return concat(response.status, " ", text_at(response, "error"));
  };
  EXPECT_EQ(error(R"({"source":"en","target":"hi"})"), "400 Invalid request: missing q parameter");
  EXPECT_EQ(error(R"({"q":"how","source":"en"})"), "400 Invalid request: missing target parameter");
  EXPECT_EQ(error(R"({"q":"how","source":"en","target":"de"})"),
            "400 nothing is translated into de: there is hi");
  EXPECT_EQ(error(R"({"q":"<b>how</b>","source":"en","target":"hi","format":"html"})"),
            "400 html cannot be translated, only text: markup would be mangled");
  EXPECT_EQ(error(R"({"q":"how","source":"en","target":"hi","alternative":2})"),
            "400 there is no field alternative: see /openapi.json");
  EXPECT_EQ(text_at(post(served(), "/detect", R"({"q":"how","format":"text"})"), "error"),
            "there is no field format: see /openapi.json");
  EXPECT_EQ(
      post(served(), "/translate", R"({"q":"how","source":"en","target":"hi","format":""})").status,
      200);
  for (const char* path : {"/translate_file", "/suggest"}) {
    const auto missing = post(served(), path, "{}");
    EXPECT_EQ(missing.status, 404);
    EXPECT_EQ(json(missing).names, std::vector<std::string>{"error"}) << path;
  }
  // LibreTranslate's own page sends a secret of its own servers.
  EXPECT_EQ(post(served(), "/translate",
                 R"({"q":"how","source":"en","target":"hi","api_key":"","secret":"x"})")
                .status,
            200);
  EXPECT_EQ(error("{"), concat("400 ", text_at(post(served(), "/translate", "{"), "error")));
  const auto wrong = get(served(), "/translate");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(json(wrong).names, std::vector<std::string>{"error"});
}

}  // namespace
}  // namespace tril::libretranslate_test
