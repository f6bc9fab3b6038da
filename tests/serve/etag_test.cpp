// Entity tags: equal requests have equal tags and bytes, whatever else differs tells them apart,
// and who has an answer costs no work.
#include <gtest/gtest.h>

#include <set>

#include "service_support.h"

namespace tril::etag_test {
namespace {

using namespace serve;
using namespace serve_test;

Service& served() {
  static Service service(small_models(1, true), {});
  return service;
}

constexpr const char* kQuery = "/v1/translate?text=how+are+you&target=hi&beam=2&max_tokens=5";

TEST(ETag, EqualRequestsHaveEqualBytesAndTags) {
  const std::string body = R"({"text":"how are you","target":"hi","beam":2,"max_tokens":5})";
  const auto first = post(served(), "/v1/translate", body);
  Service other(small_models(2), [] {
    ServiceOptions options;
    options.cache_bytes = 0;
    options.limits.slots = 7;
    return options;
  }());
  const auto second = post(other, "/v1/translate", body);
  const auto third = get(served(), kQuery);
  const auto fourth = post(served(), "/v1/translate",
                           "{ \"max_tokens\" : 5,\n\"beam\":2, \"target\":\"hi\",\"text\":[\"how "
                           "are you\"],\"timeout\":9 }");
  ASSERT_EQ(first.status, 200);
  for (const auto* response : {&second, &third, &fourth}) {
    EXPECT_EQ(first.body, response->body);
    EXPECT_EQ(header(first, "ETag"), header(*response, "ETag"));
  }
  const std::string tag = header(first, "ETag");
  EXPECT_TRUE(tag.size() == 34 && tag.starts_with('"') && tag.ends_with('"')) << tag;
}

TEST(ETag, WhoHasTheAnswerCostsNoWork) {
  Service service(small_models(), [] {
    ServiceOptions options;
    options.cache_bytes = 0;
    return options;
  }());
  const auto first = get(service, kQuery);
  ASSERT_EQ(first.status, 200);
  EXPECT_EQ(header(first, "Cache-Control"), "no-cache");
  const std::string tag = header(first, "ETag");
  const int64_t misses = metric(service, "tril_cache_misses_total");
  const int64_t tokens = metric(service, "tril_source_tokens_total");
  for (const std::string& names : {tag, "W/" + tag, "\"x\", " + tag, std::string("*")}) {
    const auto same = get(service, kQuery, {{"If-None-Match", names}});
    EXPECT_EQ(same.status, 304);
    EXPECT_EQ(same.body, "");
    EXPECT_EQ(header(same, "ETag"), tag);
  }
  EXPECT_EQ(metric(service, "tril_cache_misses_total"), misses);
  EXPECT_EQ(metric(service, "tril_source_tokens_total"), tokens);
  EXPECT_EQ(get(service, kQuery, {{"If-None-Match", "\"other\""}}).status, 200);
  // A body is always answered.
  EXPECT_EQ(post(service, "/v1/translate",
                 R"({"text":"how are you","target":"hi","beam":2,"max_tokens":5})",
                 {{"If-None-Match", tag}})
                .status,
            200);
}

TEST(ETag, EveryOptionChangesIt) {
  const std::vector<std::string> options = {"",
                                            R"(,"text":"how are yot")",
                                            R"(,"text":["how are you","how are you"])",
                                            R"(,"text":"how are you\n")",
                                            R"(,"source":"auto")",
                                            R"(,"prefix":"मैं")",
                                            R"(,"split":"always")",
                                            R"(,"split":"never")",
                                            R"(,"beam":1)",
                                            R"(,"beam":2)",
                                            R"(,"n_best":2)",
                                            R"(,"length_penalty":0.6)",
                                            R"(,"length_penalty":0.6000000000000001)",
                                            R"(,"early_stopping":"yes")",
                                            R"(,"early_stopping":"never")",
                                            R"(,"cut":"last")",
                                            R"(,"cut":"ranked")",
                                            R"(,"max_tokens":7)",
                                            R"(,"min_tokens":1)",
                                            R"(,"max_ratio":2)",
                                            R"(,"no_repeat_ngram":2)",
                                            R"(,"repetition_penalty":1.5)",
                                            R"(,"renormalize":true)",
                                            R"(,"renormalize":false)",
                                            R"(,"sample":true)",
                                            R"(,"sample":true,"seed":1)",
                                            R"(,"sample":true,"seed":2)",
                                            R"(,"sample":true,"temperature":2)",
                                            R"(,"sample":true,"top_k":2)",
                                            R"(,"sample":true,"top_p":0.5)",
                                            R"(,"forbid":[[17]])",
                                            R"(,"forbid":[[17],[18]])",
                                            R"(,"forbid":[[17,18]])",
                                            R"(,"force_end":true)",
                                            R"(,"force_end":false)",
                                            R"(,"details":true)",
                                            R"(,"alignments":true)",
                                            R"(,"receipt":true)"};
  std::set<std::string> tags;
  for (const std::string& more : options) {
    std::string body = R"({"target":"hi")" + more;
    if (more.find("\"text\"") == std::string::npos) body += R"(,"text":"how are you")";
    if (more.find("max_tokens") == std::string::npos) body += R"(,"max_tokens":4)";
    const auto response = post(served(), "/v1/translate", body + "}");
    ASSERT_EQ(response.status, 200) << body << response.body;
    EXPECT_TRUE(tags.insert(header(response, "ETag")).second) << more;
  }
}

// One that changes the answer alone is not answered from the cache of another.
TEST(ETag, TheCacheTellsOptionsApart) {
  Service cached(small_models(), {});
  ServiceOptions none;
  none.cache_bytes = 0;
  Service plain(small_models(), none);
  for (const char* more :
       {"", R"(,"beam":1)", R"(,"n_best":3,"beam":3)", R"(,"max_tokens":3)", R"(,"min_tokens":9)",
        R"(,"no_repeat_ngram":1)", R"(,"repetition_penalty":3)", R"(,"length_penalty":0)",
        R"(,"sample":true,"seed":1)", R"(,"sample":true,"seed":2)",
        R"(,"sample":true,"seed":2,"temperature":0.5)", R"(,"sample":true,"seed":2,"top_k":2)",
        R"(,"prefix":"मैं")", R"(,"prefix":"ठीक")", R"(,"alignments":true)",
        R"(,"force_end":true,"max_tokens":3)", R"(,"forbid":[[300]])"}) {
    std::string body = concat(R"({"text":"how are you","target":"hi","details":true)", more);
    if (body.find("max_tokens") == std::string::npos) body += R"(,"max_tokens":10)";
    body += "}";
    const std::string expected = post(plain, "/v1/translate", body).body;
    EXPECT_EQ(post(cached, "/v1/translate", body).body, expected) << more;
    EXPECT_EQ(post(cached, "/v1/translate", body).body, expected) << more;
  }
  // Samples of the same sentence at different places differ, so they are not one entry.
  const std::string twice =
      R"({"text":"how\nhow\nhow","sample":true,"seed":4,"max_tokens":6,"temperature":2})";
  EXPECT_EQ(post(cached, "/v1/translate", twice).body, post(plain, "/v1/translate", twice).body);
}

TEST(ETag, OfEveryApiIsItsOwn) {
  std::set<std::string> tags;
  const auto add = [&](const HttpResponse& response) {
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_TRUE(tags.insert(header(response, "ETag")).second) << response.body;
  };
  add(post(served(), "/v1/translate", R"({"text":"how","source":"en","target":"hi"})"));
  add(post(served(), "/translate", R"({"q":"how","source":"en","target":"hi"})"));
  add(post(served(), "/translate", R"({"q":["how"],"source":"en","target":"hi"})"));
  add(post(served(), "/translate", R"({"q":"how","source":"en","target":"hi","alternatives":1})"));
  add(post(served(), "/translate", R"({"q":"how","source":"auto","target":"hi"})"));
  add(post(served(), "/v2/translate", R"({"text":["how"],"source_lang":"EN","target_lang":"HI"})"));
  add(post(served(), "/v1/completions", R"({"model":"en-hi","prompt":"how"})"));
  add(post(served(), "/v1/completions", R"({"model":"story","prompt":"how"})"));
  add(post(served(), "/v1/generate", R"({"model":"story","text":"how","max_tokens":16})"));
}

// How confident the detection is depends on the languages that the other models read.
TEST(ETag, TellsConfidencesApart) {
  ModelSet more = small_models();
  more.add(served_model({.name = "de-hi", .folder = "no-folder"}, small_translator()));
  Service alone(small_models(), {});
  Service with_german(std::move(more), {});
  const std::string body =
      R"({"text":"where are they going today","source":"auto","target":"hi","max_tokens":4})";
  const auto first = post(alone, "/v1/translate", body);
  const auto second = post(with_german, "/v1/translate", body);
  ASSERT_EQ(first.status, 200);
  ASSERT_EQ(text_at(second, "model"), "en-hi");
  EXPECT_EQ(text_at(first, "fingerprint"), text_at(second, "fingerprint"));
  ASSERT_NE(first.body, second.body);
  EXPECT_NE(header(first, "ETag"), header(second, "ETag"));
}

TEST(ETag, OfThePagesFiles) {
  const auto page = get(served(), "/");
  ASSERT_EQ(page.status, 200);
  const auto same = get(served(), "/", {{"If-None-Match", header(page, "ETag")}});
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.body, "");
}

}  // namespace
}  // namespace tril::etag_test
