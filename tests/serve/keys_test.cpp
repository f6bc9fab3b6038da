// Keys: their file, who gets in with which, and that time tells nothing.
#include "tril/serve/keys.h"

#include <gtest/gtest.h>

#include "service_support.h"
#include "support/temp_folder.h"
#include "tril/io/atomic_file.h"

namespace tril::keys_test {
namespace {

using namespace serve;
using namespace serve_test;

std::string error_of(std::string_view text) {
  try {
    parse_keys(text, "keys");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_format);
    return error.what();
  }
  return "none";
}

TEST(Keys, AreReadFromAFile) {
  const testing::TempFolder folder;
  write_file_atomically(folder / "keys",
                        "# key name limit\n\n  s3cr3t-of-the-shop \tshop  200000 # all of it\r\n"
                        "another tests\n#gone nobody\n\xE0\xA4\x95 name");
  const std::vector<Key> keys = read_keys(folder / "keys");
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[0].secret, "s3cr3t-of-the-shop");
  EXPECT_EQ(keys[0].name, "shop");
  EXPECT_EQ(keys[0].tokens_per_minute, 200000);
  EXPECT_EQ(keys[1].secret, "another");
  EXPECT_EQ(keys[1].name, "tests");
  EXPECT_EQ(keys[1].tokens_per_minute, 0);
  EXPECT_EQ(keys[2].secret, "\xE0\xA4\x95");
  try {
    read_keys(folder / "missing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find("missing"), std::string::npos);
  }
}

TEST(Keys, FaultsOfAFileAreNamedWithTheirLine) {
  EXPECT_EQ(error_of("# a\nk\n"), "keys: line 2: a key needs a name after it");
  EXPECT_EQ(error_of("a b 5 6"),
            "keys: line 1: expected a key, a name and tokens per minute, got more");
  EXPECT_EQ(error_of("a b\n\na c"), "keys: line 3: this key is there twice");
  EXPECT_EQ(error_of("a b\nc b"), "keys: line 2: the name b is there twice");
  EXPECT_EQ(error_of(std::string(257, 'k') + " a"),
            "keys: line 1: a key may have 256 bytes at most");
  EXPECT_EQ(error_of(std::string(256, 'k') + " a"), "none");
  for (const char* limit : {"0", "-1", "x", "5x", "1.5", "99999999999999999999", "1099511627777"}) {
    EXPECT_EQ(
        error_of(concat("a b ", limit)),
        concat("keys: line 1: tokens per minute: expected a whole number above 0, got ", limit));
  }
  EXPECT_EQ(error_of("a b 1099511627776"), "none");
  for (const char* empty : {"", "\n\n", "# a b\n"}) {
    EXPECT_EQ(error_of(empty), "keys: holds no key: nobody could use the server");
  }
}

TEST(Keys, OnlyTheWholeKeyIsFound) {
  const std::string longest(kMaxKeyBytes, 'z');
  const std::vector<Key> keys = {{"secret", "a"}, {"secre", "b"}, {"secrets", "c"}, {longest, "d"}};
  for (const Key& key : keys) EXPECT_EQ(find_key(keys, key.secret), &key);
  using namespace std::string_literals;
  for (const std::string& wrong :
       {""s, "s"s, "secr"s, "Secret"s, "secret "s, "secretss"s, "secret\0"s, "\0"s, "xecret"s,
        longest + "z", longest.substr(1), longest + "\0"s}) {
    EXPECT_EQ(find_key(keys, wrong), nullptr) << wrong;
  }
}

// What pads a key in a comparison may be in one, too.
TEST(Keys, WithZerosAreKeysOfTheirOwn) {
  const std::string zero = std::string("a") + '\0';
  const std::vector<Key> keys = {{"a", "short", 0}, {zero, "long", 0}};
  EXPECT_EQ(find_key(keys, "a"), &keys[0]);
  EXPECT_EQ(find_key(keys, zero), &keys[1]);
  EXPECT_EQ(find_key(keys, zero + '\0'), nullptr);
}

// ---- time ---------------------------------------------------------------------------------------

int64_t bytes_read = 0;

// Counts what is read.
class Counted {
 public:
  explicit Counted(const unsigned char* at) : at_(at) {}
  unsigned char operator*() const {
    ++bytes_read;
    return *at_;
  }
  Counted& operator++() {
    ++at_;
    return *this;
  }

 private:
  const unsigned char* at_;
};

int64_t bytes_read_for(const std::vector<Key>& keys, const std::string& secret,
                       const Key* expected) {
  bytes_read = 0;
  EXPECT_EQ(find_key_through<Counted>(keys, secret), expected) << secret;
  EXPECT_EQ(find_key(keys, secret), expected) << secret;
  return bytes_read;
}

// The same bytes are read wherever a guess first differs, and whichever key it is.
TEST(Keys, TimeTellsNothingOfAGuess) {
  std::vector<Key> keys = {{std::string(kMaxKeyBytes, 'k'), "long"}};
  for (int i = 0; i < 7; ++i) keys.push_back({concat("key number ", i), concat("n", i)});
  const auto all = static_cast<int64_t>(2 * kMaxKeyBytes * keys.size());
  for (size_t agreeing = 0; agreeing < kMaxKeyBytes; ++agreeing) {
    const std::string guess =
        std::string(agreeing, 'k') + std::string(kMaxKeyBytes - agreeing, 'x');
    EXPECT_EQ(bytes_read_for(keys, guess, nullptr), all) << agreeing;
    EXPECT_EQ(bytes_read_for(keys, guess.substr(0, agreeing), nullptr), all) << agreeing;
  }
  for (const Key& key : keys) EXPECT_EQ(bytes_read_for(keys, key.secret, &key), all) << key.name;
}

// ---- at the server ------------------------------------------------------------------------------

struct KeyedService : Service {
  KeyedService() : Service(small_models(), options()) {}
  static ServiceOptions options() {
    ServiceOptions options;
    options.keys = {{"right", "a", 0}, {"other", "b", 0}};
    return options;
  }
};

constexpr const char* kBody = R"({"text":"how are you","beam":1,"max_tokens":3})";

std::vector<Header> authorized(const std::string& value) { return {{"Authorization", value}}; }

TEST(Keys, OpenTheServer) {
  KeyedService service;
  for (const char* value : {"Bearer right", "bearer right", "Bearer  right ",
                            "DeepL-Auth-Key other", "deepl-auth-key right"}) {
    EXPECT_EQ(post(service, "/v1/translate", kBody, authorized(value)).status, 200) << value;
  }
  for (const char* value : {"Bearer righ", "Bearer rightt", "Bearer Right", "Bearer wrong",
                            "Bearer right other", "Basic right", "Bearer", "Bearer "}) {
    const auto refused = post(service, "/v1/translate", kBody, authorized(value));
    EXPECT_EQ(refused.status, 401) << value;
    EXPECT_EQ(text_at(refused, "error/code"), "bad_key") << value;
    EXPECT_EQ(text_at(refused, "error/type"), "authentication_error");
  }
  const auto none = post(service, "/v1/translate", kBody);
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(text_at(none, "error/code"), "no_key");
  EXPECT_EQ(text_at(none, "error/message"),
            "this server needs a key: send it in the header Authorization: Bearer KEY");
  EXPECT_EQ(header(none, "WWW-Authenticate"), "Bearer");
}

TEST(Keys, AreAskedForInTheShapeOfEachApi) {
  KeyedService service;
  // LibreTranslate: in the body.
  const std::string libre = R"({"q":"how are you","source":"en","target":"hi")";
  EXPECT_EQ(post(service, "/translate", libre + R"(,"api_key":"right"})").status, 200);
  EXPECT_EQ(post(service, "/translate", libre + "}", authorized("Bearer right")).status, 200);
  EXPECT_EQ(ask(service, request("POST", "/translate", "q=how&source=en&target=hi&api_key=right",
                                 {{"Content-Type", "application/x-www-form-urlencoded"}}))
                .status,
            200);
  auto refused = post(service, "/translate", libre + "}");
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(
      refused.body,
      "{\"error\":\"this server needs a key: send it in the header Authorization: Bearer KEY\"}\n");
  refused = post(service, "/translate", libre + R"(,"api_key":"wrong"})");
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.body, "{\"error\":\"this key is not known here\"}\n");
  EXPECT_EQ(post(service, "/detect", R"({"q":"how"})").status, 403);
  // DeepL: one answer for both.
  const std::string deepl = R"({"text":["how are you"],"target_lang":"HI"})";
  EXPECT_EQ(post(service, "/v2/translate", deepl, authorized("DeepL-Auth-Key right")).status, 200);
  for (const char* value : {"", "DeepL-Auth-Key wrong"}) {
    refused = post(service, "/v2/translate", deepl, authorized(value));
    EXPECT_EQ(refused.status, 403);
    EXPECT_FALSE(text_at(refused, "message").empty());
  }
  EXPECT_EQ(get(service, "/v2/usage").status, 403);
  EXPECT_EQ(get(service, "/v2/languages").status, 403);
  // OpenAI: what its clients read.
  refused = post(service, "/v1/completions", R"({"prompt":"how","model":"en-hi"})");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(text_at(refused, "error/type"), "authentication_error");
  EXPECT_EQ(text_at(refused, "error/param"), "null");
  EXPECT_EQ(
      post(service, "/v1/completions", R"({"prompt":"how"})", authorized("Bearer wrong")).status,
      401);
  // A key in the body is LibreTranslate's alone.
  EXPECT_EQ(post(service, "/v1/translate", R"({"text":"how","api_key":"right"})").status, 401);
}

TEST(Keys, AreNotAskedForWhereNothingIsToBeHad) {
  KeyedService service;
  for (const char* path : {"/livez", "/readyz", "/", "/assets/main.js", "/openapi.json",
                           "/languages", "/frontend/settings", "/health"}) {
    EXPECT_EQ(get(service, path).status, 200) << path;
  }
  for (const char* path : {"/metrics", "/v1/models", "/v1/models/en-hi", "/v1/detect?text=a",
                           "/v1/translate?text=a", "/explain?text=a"}) {
    EXPECT_EQ(get(service, path).status, 401) << path;
    EXPECT_NE(get(service, path, authorized("Bearer right")).status, 401) << path;
  }
}

// No header of a request without keys matters where the server has none.
TEST(Keys, AreIgnoredByAServerWithoutAny) {
  Service service(small_models(), {});
  EXPECT_EQ(post(service, "/v1/translate", kBody, authorized("Bearer whatever")).status, 200);
  EXPECT_EQ(
      post(service, "/translate", R"({"q":"how","source":"en","target":"hi","api_key":"whatever"})")
          .status,
      200);
}

}  // namespace
}  // namespace tril::keys_test
