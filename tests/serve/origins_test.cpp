// Scripts of other origins: which answers a browser lets them read, and bodies in codings.
#include <gtest/gtest.h>

#include "service_support.h"

namespace tril::origins_test {
namespace {

using namespace serve;
using namespace serve_test;

constexpr const char* kBody = R"({"text":"how are you","max_tokens":3})";

HttpResponse preflight(Service& service, const std::string& path, const std::string& origin,
                       const std::string& headers = {}) {
  auto asked =
      request("OPTIONS", path, {}, {{"Origin", origin}, {"Access-Control-Request-Method", "POST"}});
  if (!headers.empty()) asked.headers.push_back({"Access-Control-Request-Headers", headers});
  return ask(service, asked);
}

TEST(Origins, NoneIsAllowedUnlessNamed) {
  Service service(small_models(), {});
  const auto answer = post(service, "/v1/translate", kBody, {{"Origin", "https://a.example"}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(header(answer, "Access-Control-Allow-Origin"), "");
  EXPECT_EQ(preflight(service, "/v1/translate", "https://a.example").status, 405);
}

TEST(Origins, ThoseNamedAreAllowed) {
  ServiceOptions options;
  options.allowed_origins = {"https://a.example", "https://b.example"};
  options.keys = {{"right", "a", 0}};
  Service service(small_models(), options);
  const auto asked = preflight(service, "/v1/translate", "https://b.example");
  EXPECT_EQ(asked.status, 204);
  EXPECT_EQ(asked.body, "");
  EXPECT_EQ(header(asked, "Access-Control-Allow-Origin"), "https://b.example");
  EXPECT_EQ(header(asked, "Access-Control-Allow-Methods"), "POST, GET");
  EXPECT_NE(header(asked, "Access-Control-Allow-Headers").find("Authorization"), std::string::npos);
  EXPECT_EQ(header(asked, "Vary"), "Origin");
  // Errors may be read, too: a script has to see why.
  const auto refused = post(service, "/v1/translate", kBody, {{"Origin", "https://a.example"}});
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(header(refused, "Access-Control-Allow-Origin"), "https://a.example");
  const auto other = preflight(service, "/v1/translate", "https://c.example");
  EXPECT_EQ(header(other, "Access-Control-Allow-Origin"), "");
  EXPECT_EQ(header(other, "Vary"), "Origin");
  EXPECT_EQ(preflight(service, "/nothing", "https://a.example").status, 404);
}

// Clients add headers that the server has never heard of, as OpenAI's for JavaScript do.
TEST(Origins, ScriptsMaySendTheHeadersOfTheirClients) {
  ServiceOptions options;
  options.allowed_origins = {"https://a.example"};
  Service service(small_models(), options);
  const std::string of_openai = "authorization,content-type,x-stainless-arch, x-stainless-os";
  const auto allowed = [&](const std::string& origin, const std::string& headers) {
    const auto answer = preflight(service, "/v1/completions", origin, headers);
    EXPECT_EQ(answer.status, 204);
    return header(answer, "Access-Control-Allow-Headers");
  };
  EXPECT_EQ(allowed("https://a.example", of_openai), of_openai);
  const std::string usual = allowed("https://a.example", "");
  EXPECT_NE(usual.find("Content-Type"), std::string::npos);
  EXPECT_EQ(allowed("https://c.example", of_openai), usual);
  EXPECT_EQ(allowed("https://a.example", "a: b"), usual);  // no names of headers
}

TEST(Origins, OrAll) {
  ServiceOptions options;
  options.allowed_origins = {"*"};
  Service service(small_models(), options);
  const auto answer = post(service, "/translate", R"({"q":"how","source":"en","target":"hi"})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(header(answer, "Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(header(answer, "Vary"), "");
}

TEST(Origins, BodiesInACodingAreNotGuessedAt) {
  Service service(small_models(), {});
  const auto zipped =
      post(service, "/v1/translate", "\x1f\x8b\x08", {{"Content-Encoding", "gzip"}});
  EXPECT_EQ(zipped.status, 415);
  EXPECT_NE(text_at(zipped, "error/message").find("gzip"), std::string::npos);
  EXPECT_EQ(post(service, "/v1/translate", kBody, {{"Content-Encoding", "Identity"}}).status, 200);
}

}  // namespace
}  // namespace tril::origins_test
