// DeepL's API, field by field as its clients send and read them.
#include <gtest/gtest.h>

#include "service_support.h"

namespace tril::deepl_test {
namespace {

using namespace serve;
using namespace serve_test;

Service& served() {
  static Service service(small_models(1, true), {});
  return service;
}

std::string own(const std::string& text, const std::string& more = {}) {
  return text_at(post(served(), "/v1/translate",
                      concat(R"({"target":"hi","text":)", json_quoted(text), more, "}")),
                 "translations/0/text");
}

TEST(DeepL, TranslatesLists) {
  const auto response =
      post(served(), "/v2/translate",
           R"({"text":["how are you","मैं\nbanana"],"target_lang":"HI","source_lang":"EN"})");
  ASSERT_EQ(response.status, 200) << response.body;
  const JsonValue answer = json(response);
  ASSERT_EQ(at(answer, "translations").items.size(), 2u);
  EXPECT_EQ(at(answer, "translations/0/text").text, own("how are you"));
  EXPECT_EQ(at(answer, "translations/1/text").text, own("मैं\nbanana"));
  EXPECT_EQ(at(answer, "translations/0/detected_source_language").text, "EN");
  EXPECT_EQ(at(answer, "translations/0/billed_characters").integer, 11);
  EXPECT_EQ(at(answer, "translations/1/billed_characters").integer, 10);
  EXPECT_NE(header(response, "ETag"), "");
  EXPECT_EQ(header(response, "X-Tril-Fingerprint").size(), 32u);
  const auto form = ask(served(), request("POST", "/v2/translate",
                                          "text=how+are+you&text=%E0%A4%AE%E0%A5%88%E0%A4%82%"
                                          "0Abanana&target_lang=hi&source_lang=en",
                                          {{"Content-Type", "application/x-www-form-urlencoded"}}));
  EXPECT_EQ(form.body, response.body);
}

TEST(DeepL, DetectsWhereNoSourceIsNamed) {
  for (const char* source : {"", R"(,"source_lang":null)", R"(,"source_lang":"")"}) {
    const auto response =
        post(served(), "/v2/translate",
             concat(R"({"text":["where are they going today?"],"target_lang":"HI")", source, "}"));
    EXPECT_EQ(text_at(response, "translations/0/detected_source_language"), "EN") << response.body;
  }
}

TEST(DeepL, SplitsAsAsked) {
  const std::string text = "How are you? I am fine, thank you.";
  const auto split = [&](const char* how) {
    return post(served(), "/v2/translate",
                concat(R"({"target_lang":"HI","text":[)", json_quoted(text),
                       R"(],"split_sentences":")", how, "\"}"));
  };
  EXPECT_EQ(text_at(split("0"), "translations/0/text"), own(text, R"(,"split":"never")"));
  EXPECT_EQ(text_at(split("1"), "translations/0/text"), own(text, R"(,"split":"always")"));
  EXPECT_EQ(split("nonewlines").status, 400);
  // A line that is too long is cut only then.
  const std::string longer(700, 'x');
  const std::string body = concat(R"({"target_lang":"HI","text":[")", longer, "\"]");
  EXPECT_EQ(post(served(), "/v2/translate", body + "}").status, 200);
  EXPECT_EQ(post(served(), "/v2/translate", body + R"(,"split_sentences":"0"})").status, 400);
}

TEST(DeepL, RefusesWhatWouldGiveOtherText) {
  const auto error = [](const std::string& more) {
    const auto response = post(served(), "/v2/translate",
                               concat(R"({"text":["how"],"target_lang":"HI",)", more, "}"));
    if (response.status == 200) return std::string("200");
    EXPECT_EQ(json(response).names, std::vector<std::string>{"message"});
    return concat(response.status, " ", text_at(response, "message"));
  };
  EXPECT_EQ(error(R"("glossary_id":"x")"), "400 glossary_id is not supported by this server");
  EXPECT_EQ(error(R"("tag_handling":"xml")"), "400 tag_handling is not supported by this server");
  EXPECT_EQ(error(R"("formality":"more")"), "400 formality is not supported by this server");
  EXPECT_EQ(error(R"("formality":"prefer_more")"), "200");
  EXPECT_EQ(error(R"("formality":"default","ignore_tags":[],"glossary_id":null)"), "200");
  EXPECT_EQ(error(R"("formality":"formal")"),
            "400 formality can be default, prefer_more or prefer_less on this server");
  EXPECT_EQ(error(R"("context":"x")"), "400 context is not supported by this server");
  EXPECT_EQ(error(R"("tag_handling_version":"v2")"),
            "400 tag_handling_version is not supported by this server");
  EXPECT_EQ(error(R"("splitsentences":"0")"),
            "400 there is no field splitsentences: see /openapi.json");
  // Fields that change nothing of the text.
  EXPECT_EQ(
      error(
          R"("preserve_formatting":true,"model_type":"quality_optimized","show_billed_characters":true)"),
      "200");
  EXPECT_EQ(error(R"("context":"","auth_key":"x","enable_beta_languages":false)"), "200");
}

// Clients fail without any code, and "auto" is none.
TEST(DeepL, SaysThatALanguageIsNotKnown) {
  ModelSet models;
  models.add(served_model({.name = "any", .folder = "no-folder", .languages = {.to = "hi"}},
                          small_translator()));
  Service service(std::move(models), {});
  const auto response =
      post(service, "/v2/translate", R"({"text":["how are you"],"target_lang":"HI"})");
  EXPECT_EQ(text_at(response, "translations/0/detected_source_language"), "UND") << response.body;
}

// As many texts as the limit says, by JSON and by form; one more is too many.
TEST(DeepL, CountsTheTextsOfForms) {
  Service service(small_models(), {.limits = {.max_texts = 1000}});
  std::string form = "target_lang=hi";
  for (int i = 0; i < 1000; ++i) form += "&text=%20";
  const std::vector<Header> type = {{"Content-Type", "application/x-www-form-urlencoded"}};
  const auto whole = ask(service, request("POST", "/v2/translate", form, type));
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(at(json(whole), "translations").items.size(), 1000u);
  const auto more = ask(service, request("POST", "/v2/translate", form + "&text=a", type));
  EXPECT_EQ(more.status, 413);
  EXPECT_EQ(text_at(more, "message"), "text: 1001 texts, a request may have at most 1000");
}

TEST(DeepL, ErrorsAreOneMessage) {
  const auto error = [](const std::string& body) {
    const auto response = post(served(), "/v2/translate", body);
    EXPECT_EQ(json(response).names, std::vector<std::string>{"message"});
    return concat(response.status, " ", text_at(response, "message"));
  };
  EXPECT_EQ(error(R"({"target_lang":"HI"})"), "400 Parameter 'text' not specified.");
  EXPECT_EQ(error(R"({"text":["how"]})"), "400 Parameter 'target_lang' not specified.");
  EXPECT_EQ(error(R"({"text":["how"],"target_lang":"DE"})"),
            "400 nothing is translated into DE: there is hi");
  EXPECT_EQ(error(R"({"text":["how"],"target_lang":"HI","source_lang":"DE"})"),
            "400 nothing is translated from DE into HI: there is en");
  EXPECT_EQ(ask(served(), request("PUT", "/v2/translate")).status, 405);
}

TEST(DeepL, ListsLanguages) {
  for (const auto& response :
       {get(served(), "/v2/languages"), get(served(), "/v2/languages?type=source"),
        ask(served(), request("POST", "/v2/languages", "type=source",
                              {{"Content-Type", "application/x-www-form-urlencoded"}}))}) {
    EXPECT_EQ(response.body, "[{\"language\":\"EN\",\"name\":\"English\"}]\n");
  }
  EXPECT_EQ(get(served(), "/v2/languages?type=target").body,
            "[{\"language\":\"HI\",\"name\":\"Hindi\",\"supports_formality\":false}]\n");
  EXPECT_EQ(get(served(), "/v2/languages?type=x").status, 400);
  EXPECT_EQ(get(served(), "/v2/languages?typ=target").status, 400);
}

// The clients take no "EN" and no "PT" as a target.
TEST(DeepL, ListsTargetsAsItsClientsNameThem) {
  const auto targets = [](const std::string& code) {
    ModelSet models;
    models.add(served_model({.name = "any", .folder = "none", .languages = {"hi", code}},
                            small_translator()));
    Service service(std::move(models), {});
    std::string list;
    for (const JsonValue& one : json(get(service, "/v2/languages?type=target")).items) {
      const std::string named = at(one, "language").text;
      list += concat(list.empty() ? "" : ", ", named, " ", at(one, "name").text);
      const auto response = post(service, "/v2/translate",
                                 concat(R"({"text":["how"],"target_lang":")", named, "\"}"));
      EXPECT_EQ(response.status, 200) << response.body;
    }
    return list;
  };
  EXPECT_EQ(targets("en"), "EN-US English (American), EN-GB English (British)");
  EXPECT_EQ(targets("eng_Latn"), "EN-US English (American), EN-GB English (British)");
  EXPECT_EQ(targets("pt"), "PT-BR Portuguese (Brazil), PT-PT Portuguese (Portugal)");
  EXPECT_EQ(targets("pt_BR"), "PT-BR Portuguese (Brazil)");
  EXPECT_EQ(targets("zh-Hant"), "ZH-HANT Chinese (traditional)");
  EXPECT_EQ(targets("fra_Latn"), "FR French");
}

TEST(DeepL, UnknownPathsAnswerInItsShape) {
  for (const char* path : {"/v2/glossaries", "/v2/document", "/v2/none/x"}) {
    for (const char* method : {"GET", "POST"}) {
      const auto response = ask(served(), request(method, path));
      EXPECT_EQ(response.status, 404);
      EXPECT_EQ(json(response).names, std::vector<std::string>{"message"}) << path;
    }
  }
}

TEST(DeepL, CountsCharacters) {
  Service service(small_models(), {});
  const auto count = [&] { return at(json(get(service, "/v2/usage")), "character_count").integer; };
  EXPECT_EQ(count(), 0);
  (void)post(service, "/v2/translate", R"({"text":["how","मैं"],"target_lang":"HI"})");
  EXPECT_EQ(count(), 6);
  (void)post(service, "/v2/translate", R"({"text":["how"],"target_lang":"XX"})");
  EXPECT_EQ(count(), 6);
  EXPECT_GT(at(json(get(service, "/v2/usage")), "character_limit").integer, 1'000'000'000);
}

}  // namespace
}  // namespace tril::deepl_test
