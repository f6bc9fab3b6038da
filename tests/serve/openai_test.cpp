// OpenAI's completions, field by field as its clients send and read them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "service_support.h"

namespace tril::openai_test {
namespace {

using namespace serve;
using namespace serve_test;

Service& served() {
  static Service service(small_models(1, true), {});
  return service;
}

const Translator& writer() {
  static const Translator translator = small_translator(true);
  return translator;
}

HttpResponse complete(const std::string& fields) {
  return post(served(), "/v1/completions", "{" + fields + "}");
}

std::string text_of(const std::string& fields, int64_t choice = 0) {
  const auto response = complete(fields);
  EXPECT_EQ(response.status, 200) << response.body;
  return text_at(response, concat("choices/", choice, "/text"));
}

// The library's continuation by greedy search, without the prompt.
std::string continued(const std::string& prompt, int64_t max_tokens) {
  TranslateOptions options;
  options.search.beam = 1;
  options.search.max_tokens = max_tokens;
  const std::vector<std::string> lines = {prompt};
  const std::string whole = writer().translate(lines, options).front().text();
  EXPECT_TRUE(whole.starts_with(prompt));
  return whole.substr(prompt.size());
}

constexpr const char* kGreedy = R"("model":"story","temperature":0)";

TEST(OpenAi, AnAnswerHasWhatClientsRead) {
  const auto response = complete(concat(kGreedy, R"(,"prompt":"how are","max_tokens":8)"));
  ASSERT_EQ(response.status, 200) << response.body;
  const JsonValue answer = json(response);
  EXPECT_TRUE(at(answer, "id").text.starts_with("cmpl-"));
  EXPECT_EQ(at(answer, "object").text, "text_completion");
  EXPECT_EQ(at(answer, "created").kind, JsonValue::Kind::integer);
  EXPECT_EQ(at(answer, "model").text, "story");
  EXPECT_EQ(at(answer, "system_fingerprint").text, header(response, "X-Tril-Fingerprint"));
  ASSERT_EQ(at(answer, "choices").items.size(), 1u);
  EXPECT_EQ(at(answer, "choices/0/text").text, continued("how are", 8));
  EXPECT_EQ(at(answer, "choices/0/index").integer, 0);
  EXPECT_EQ(at(answer, "choices/0/finish_reason").text, "length");
  EXPECT_EQ(at(answer, "choices/0/logprobs").kind, JsonValue::Kind::null);
  const int64_t prompt = std::ssize(writer().tokenizer().encode("how are"));
  EXPECT_EQ(at(answer, "usage/prompt_tokens").integer, prompt);
  EXPECT_EQ(at(answer, "usage/completion_tokens").integer, 8);
  EXPECT_EQ(at(answer, "usage/total_tokens").integer, prompt + 8);
}

// Whatever the prompt is like, the text that follows is what the library writes.
TEST(OpenAi, PromptsOfEveryKindAreContinued) {
  for (const std::string prompt :
       {"", " ", "  how  are ", "a\nb", "how\r\nare\n", "मैं ठी", "\t.", "é x"}) {
    const std::string fields = concat(kGreedy, R"(,"max_tokens":6,"prompt":)", json_quoted(prompt));
    EXPECT_EQ(text_of(fields), continued(prompt, 6)) << json_quoted(prompt);
    EXPECT_EQ(text_of(fields + R"(,"echo":true)"), prompt + continued(prompt, 6));
  }
}

TEST(OpenAi, ChoicesOfSeveralPromptsAreNumbered) {
  const JsonValue answer = json(complete(
      R"("model":"story","prompt":["how","are"],"n":3,"seed":5,"max_tokens":5,"temperature":0.9)"));
  ASSERT_EQ(at(answer, "choices").items.size(), 6u);
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(at(answer, concat("choices/", i, "/index")).integer, i);
  const int64_t prompts = std::ssize(writer().tokenizer().encode("how")) +
                          std::ssize(writer().tokenizer().encode("are"));
  EXPECT_EQ(at(answer, "usage/prompt_tokens").integer, prompts);
  EXPECT_LE(at(answer, "usage/completion_tokens").integer, 6 * 5);
  EXPECT_GE(at(answer, "usage/completion_tokens").integer, 6);
}

TEST(OpenAi, DrawsAsTheLibraryDoes) {
  TranslateOptions options;
  options.search.sample = true;
  options.search.temperature = 1.5;
  options.search.top_p = 0.9;
  options.search.seed = 11;
  options.search.n_best = 2;
  options.search.max_tokens = 6;
  const std::vector<std::string> lines = {"how"};
  const auto expected = writer().translate(lines, options).front();
  const std::string fields =
      R"("model":"story","prompt":"how","temperature":1.5,"top_p":0.9,"seed":11,"n":2,"max_tokens":6)";
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ("how" + text_of(fields, static_cast<int64_t>(i)), expected.hypotheses[i].text);
  }
  EXPECT_EQ(complete(fields).body, complete(fields).body);
  EXPECT_NE(text_of(fields), text_of(fields + R"(,"echo":true)"));
  // top_p 0 leaves the likeliest token alone.
  EXPECT_EQ(
      text_of(
          R"("model":"story","prompt":"how","temperature":1,"top_p":0,"seed":3,"max_tokens":6)"),
      continued("how", 6));
}

TEST(OpenAi, EndsBeforeAStop) {
  const std::string whole = continued("how are", 12);
  ASSERT_GT(whole.size(), 6u);
  size_t middle = whole.size() / 2;
  while ((whole[middle] & 0xC0) == 0x80) ++middle;
  const std::string stop = whole.substr(middle);
  const std::string fields = concat(kGreedy, R"(,"prompt":"how are","max_tokens":12,"stop":)");
  const auto response = complete(fields + json_quoted(stop));
  EXPECT_EQ(text_at(response, "choices/0/text"), whole.substr(0, whole.find(stop)));
  EXPECT_EQ(text_at(response, "choices/0/finish_reason"), "stop");
  EXPECT_EQ(text_of(fields + R"(["never there",)" + json_quoted(stop) + "]"),
            whole.substr(0, whole.find(stop)));
  EXPECT_EQ(text_of(fields + R"("never there")"), whole);
  EXPECT_EQ(text_of(fields + "null"), whole);
  EXPECT_EQ(text_of(fields + R"("")"), whole);
}

// Of each choice of its own, also of a model that translates.
TEST(OpenAi, EveryChoiceSaysHowItEnded) {
  int different = 0;
  std::string prompt = "how are";
  for (int i = 0; i < 5; ++i) prompt += " " + prompt;
  constexpr size_t kMost = 60;
  for (int seed = 0; seed < 20; ++seed) {
    const std::string fields =
        concat(R"("model":"en-hi","prompt":)", json_quoted(prompt), R"(,"max_tokens":)", kMost,
               R"(,"n":4,"temperature":2,"seed":)", seed);
    const JsonValue four = json(complete(fields + R"(,"logprobs":1)"));
    const std::string& first = at(four, "choices/0/finish_reason").text;
    for (int i = 0; i < 4; ++i) {
      const auto& tokens = at(four, concat("choices/", i, "/logprobs/tokens")).items;
      const std::string& finish = at(four, concat("choices/", i, "/finish_reason")).text;
      EXPECT_EQ(finish, tokens.size() < kMost ? "stop" : "length") << seed << " " << i;
      different += finish == first ? 0 : 1;
    }
  }
  EXPECT_GT(different, 0);
}

// What the answers of two requests depend on makes their ids different.
TEST(OpenAi, IdsTellRequestsApart) {
  std::set<std::string> ids;
  const std::string fields = concat(kGreedy, R"(,"prompt":"how","max_tokens":3)");
  const std::vector<std::string> more = {"",
                                         R"(,"stop":["a\nb"])",
                                         R"(,"stop":["a","b"])",
                                         R"(,"stop":["b","a"])",
                                         R"(,"stop":"ab")",
                                         R"(,"echo":true)",
                                         R"(,"logprobs":0)",
                                         R"(,"n":2)"};
  for (const std::string& each : more) {
    const auto response = complete(fields + each);
    EXPECT_EQ(header(response, "ETag"), "\"" + text_at(response, "id") + "\"");
    ids.insert(text_at(response, "id"));
  }
  EXPECT_EQ(ids.size(), more.size());
}

TEST(OpenAi, LogprobsBelongToTheTokensOfTheText) {
  const auto response =
      complete(concat(kGreedy, R"(,"prompt":"how are","max_tokens":7,"logprobs":1)"));
  const JsonValue answer = json(response);
  const JsonValue& logprobs = at(answer, "choices/0/logprobs");
  const auto& tokens = at(logprobs, "tokens").items;
  ASSERT_EQ(tokens.size(), 7u);
  ASSERT_EQ(at(logprobs, "token_logprobs").items.size(), 7u);
  ASSERT_EQ(at(logprobs, "text_offset").items.size(), 7u);
  TranslateOptions options;
  options.search.beam = 1;
  options.search.max_tokens = 7;
  const std::vector<std::string> lines = {"how are"};
  const auto expected = writer().translate(lines, options).front().hypotheses.front();
  const size_t first = expected.tokens.size() - 7;
  const std::string text = at(answer, "choices/0/text").text;
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(static_cast<float>(at(logprobs, concat("token_logprobs/", i)).number),
              expected.log_probs[first + i]);
    const auto offset = static_cast<size_t>(at(logprobs, concat("text_offset/", i)).integer);
    EXPECT_LE(offset, text.size());
  }
}

int64_t characters_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

// The part of a text between two places that are counted in characters.
std::string part_of(std::string_view text, int64_t begin, int64_t end) {
  std::string part;
  int64_t place = -1;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80) ++place;
    if (place >= begin && place < end) part += c;
  }
  return part;
}

// Each token begins where the one before it ended, and has what stands there as its text: also
// where a character has several tokens, whose last one has all of it.
void expect_tokens_of_text(const JsonValue& choice, bool is_cut = false) {
  const std::string text = at(choice, "text").text;
  const JsonValue& logprobs = at(choice, "logprobs");
  const auto& tokens = at(logprobs, "tokens").items;
  const auto& offsets = at(logprobs, "text_offset").items;
  ASSERT_EQ(tokens.size(), offsets.size());
  ASSERT_EQ(tokens.size(), at(logprobs, "token_logprobs").items.size());
  EXPECT_EQ(at(logprobs, "top_logprobs").kind, JsonValue::Kind::null);
  int64_t place = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_last = i + 1 == tokens.size();
    EXPECT_EQ(offsets[i].integer, place) << text;
    const int64_t end = is_last ? characters_of(text) : offsets[i + 1].integer;
    const std::string part = part_of(text, place, end);
    if (part.empty()) {
      EXPECT_TRUE(tokens[i].text.starts_with("<")) << tokens[i].text;  // "<0xE0>", "</s>"
    } else if (is_last && is_cut) {
      EXPECT_TRUE(tokens[i].text.starts_with(part)) << tokens[i].text;  // the stop may begin in it
    } else {
      EXPECT_EQ(tokens[i].text, part) << text;
    }
    place = end;
  }
}

TEST(OpenAi, OffsetsOfTokensAreCharacters) {
  bool in_pieces = false, beyond_ascii = false;
  for (int seed = 1; seed <= 8; ++seed) {
    for (const std::string prompt : {"how are", "मैं ठी", "é ", ""}) {
      const auto response = complete(
          concat(R"("model":"story","temperature":1.6,"max_tokens":60,"logprobs":1,"n":2,"seed":)",
                 seed, R"(,"prompt":)", json_quoted(prompt)));
      ASSERT_EQ(response.status, 200) << response.body;
      const JsonValue answer = json(response);
      for (const JsonValue& choice : at(answer, "choices").items) expect_tokens_of_text(choice);
      in_pieces = in_pieces || response.body.find("\"<0x") != std::string::npos;
      const std::string text = at(answer, "choices/0/text").text;
      beyond_ascii = beyond_ascii || characters_of(text) < std::ssize(text);
    }
  }
  EXPECT_TRUE(in_pieces && beyond_ascii) << "nothing was tested";
}

// A translation's are those of its lines, in order; what is copied from the source lies between.
TEST(OpenAi, LogprobsOfSeveralLines) {
  const Translator translator = small_translator();
  TranslateOptions options;
  options.search.n_best = options.search.beam = 5;
  options.search.max_tokens = 9;
  const std::vector<std::string> lines = {"how are you", "I am fine, thank you"};
  const auto expected = translator.translate(lines, options);
  const auto answer = json(complete(
      R"("model":"en-hi","logprobs":1,"n":5,"max_tokens":9,"prompt":"\n  how are you \r\n\nI am fine, thank you\n")"));
  ASSERT_EQ(at(answer, "choices").items.size(), 5u);
  for (size_t choice = 0; choice < 5; ++choice) {
    const std::string text = at(answer, concat("choices/", choice, "/text")).text;
    const JsonValue& logprobs = at(answer, concat("choices/", choice, "/logprobs"));
    const TextHypothesis &first = expected[0].hypotheses[choice],
                         &second = expected[1].hypotheses[choice];
    ASSERT_EQ(text, "\n  " + first.text + " \r\n\n" + second.text + "\n");
    const auto& numbers = at(logprobs, "token_logprobs").items;
    ASSERT_EQ(numbers.size(), first.tokens.size() + second.tokens.size());
    ASSERT_EQ(at(logprobs, "tokens").items.size(), numbers.size());
    ASSERT_EQ(at(logprobs, "text_offset").items.size(), numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t begin = first.tokens.size();
      EXPECT_EQ(static_cast<float>(numbers[i].number),
                i < begin ? first.log_probs[i] : second.log_probs[i - begin]);
    }
    EXPECT_EQ(at(logprobs, "text_offset/0").integer, 3);
    EXPECT_EQ(at(logprobs, concat("text_offset/", first.tokens.size())).integer,
              characters_of("\n  " + first.text + " \r\n\n"));
  }
  // Of nothing there are none.
  const auto nothing = json(complete(R"("model":"en-hi","logprobs":0,"prompt":" \n")"));
  EXPECT_EQ(at(nothing, "choices/0/text").text, " \n");
  EXPECT_EQ(at(nothing, "choices/0/logprobs/tokens").kind, JsonValue::Kind::array);
  EXPECT_TRUE(at(nothing, "choices/0/logprobs/tokens").items.empty());
}

// At a stop in the first line, the others' tokens are left out.
TEST(OpenAi, LogprobsOfLinesEndAtAStop) {
  const std::string fields =
      R"("model":"en-hi","logprobs":1,"max_tokens":9,"prompt":"how are you\nbanana")";
  const auto all = json(complete(fields));
  const auto cut = json(complete(fields + R"(,"stop":"\n")"));
  const std::string text = at(all, "choices/0/text").text;
  EXPECT_EQ(at(cut, "choices/0/text").text, text.substr(0, text.find('\n')));
  const int64_t end = characters_of(text.substr(0, text.find('\n')));
  size_t before = 0;
  for (const JsonValue& offset : at(all, "choices/0/logprobs/text_offset").items) {
    before += offset.integer < end;
  }
  ASSERT_GT(before, 0u);
  EXPECT_EQ(at(cut, "choices/0/logprobs/tokens").items.size(), before);
}

TEST(OpenAi, TokensEndBeforeAStop) {
  // Drawn, since this model's likeliest continuation repeats one token.
  const std::string fields =
      R"("model":"story","temperature":1.6,"seed":3,"prompt":"how are","max_tokens":12,"logprobs":0)";
  const auto all = json(complete(fields));
  expect_tokens_of_text(at(all, "choices/0"));
  const std::string whole = at(all, "choices/0/text").text;
  size_t middle = whole.size() / 2;
  while ((whole[middle] & 0xC0) == 0x80) ++middle;
  ASSERT_GT(whole.find(whole.substr(middle)), 0u) << whole;
  const std::string stop = R"(,"stop":)" + json_quoted(whole.substr(middle));
  const auto cut = json(complete(concat(fields, stop)));
  expect_tokens_of_text(at(cut, "choices/0"), true);
  const auto& tokens = at(cut, "choices/0/logprobs/tokens").items;
  EXPECT_LT(tokens.size(), at(all, "choices/0/logprobs/tokens").items.size());
  EXPECT_GT(tokens.size(), 0u);
}

// A translator searches unless somebody names a temperature: then a top_p would be ignored.
TEST(OpenAi, TopPNeedsSampling) {
  const auto error = [](const std::string& more) {
    const auto response = complete(R"("prompt":"how","max_tokens":2,)" + more);
    return response.status == 200 ? "200" : text_at(response, "error/param");
  };
  EXPECT_EQ(error(R"("model":"en-hi","top_p":0.5)"), "top_p");
  EXPECT_EQ(error(R"("model":"en-hi","top_p":1)"), "200");
  EXPECT_EQ(error(R"("model":"en-hi","top_p":0.5,"temperature":0)"), "200");
  EXPECT_EQ(error(R"("model":"en-hi","top_p":0.5,"temperature":0.5)"), "200");
  EXPECT_EQ(error(R"("model":"story","top_p":0.5)"), "200");
  EXPECT_EQ(text_of(R"("model":"en-hi","prompt":"how","seed":1)"),
            text_of(R"("model":"en-hi","prompt":"how","seed":2)"));
}

// Of a model whose own settings ask for it, too.
TEST(OpenAi, AModelsOwnSettingsCount) {
  GenerationSettings settings;
  settings.search.sample = true;
  settings.search.temperature = 1.5;
  ModelSet models;
  models.add(
      served_model({.name = "en-hi", .folder = "none"}, small_translator(false, 1, settings)));
  Service service(std::move(models), {});
  const auto asked = [&](const std::string& more) {
    return text_at(post(service, "/v1/completions",
                        R"({"model":"en-hi","prompt":"how are you","max_tokens":20)" + more + "}"),
                   "choices/0/text");
  };
  const auto own = [&](const std::string& more) {
    return text_at(
        post(service, "/v1/translate", R"({"text":"how are you","max_tokens":20)" + more + "}"),
        "translations/0/text");
  };
  EXPECT_EQ(asked(""), own(""));
  EXPECT_NE(own(""), own(R"(,"sample":false)"));
  EXPECT_EQ(asked(R"(,"seed":9,"top_p":0.9)"), own(R"(,"seed":9,"top_p":0.9)"));
  EXPECT_NE(asked(R"(,"seed":9)"), asked(R"(,"seed":10)"));
  EXPECT_EQ(asked(R"(,"temperature":0)"), own(R"(,"sample":false)"));
}

// Where several models could serve, the request can only name one: it has no languages.
TEST(OpenAi, AsksForTheModelAlone) {
  const auto response = complete(R"("prompt":"how")");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(text_at(response, "error/param"), "model");
  const std::string message = text_at(response, "error/message");
  EXPECT_EQ(message.find("source"), std::string::npos) << message;
  EXPECT_NE(message.find("en-hi, story"), std::string::npos) << message;
}

TEST(OpenAi, TranslatesWithModelsThatDo) {
  const auto own = post(served(), "/v1/translate", R"({"text":"how are you","target":"hi"})");
  EXPECT_EQ(text_of(R"("model":"en-hi","prompt":"how are you")"),
            text_at(own, "translations/0/text"));
  const auto both = json(complete(R"("model":"en-hi","prompt":"how are you","n":2,"logprobs":0)"));
  EXPECT_EQ(at(both, "choices").items.size(), 2u);
  EXPECT_EQ(at(both, "choices/0/text").text, text_at(own, "translations/0/text"));
  // Fewer hypotheses than asked for: the best again.
  EXPECT_EQ(complete(R"("model":"en-hi","prompt":" ","n":3,"logprobs":0)").status, 200);
  EXPECT_EQ(complete(R"("model":"en-hi","prompt":"how","n":16,"max_tokens":1,"logprobs":0)").status,
            200);
  EXPECT_EQ(
      complete(
          R"("model":"story","prompt":"how","n":16,"max_tokens":1,"temperature":0,"logprobs":0)")
          .status,
      200);
}

TEST(OpenAi, RefusesWhatItCannotDo) {
  const auto error = [](const std::string& more) {
    const auto response = complete(R"("model":"story","prompt":"how","max_tokens":1)" + more);
    if (response.status == 200) return std::string("200");
    EXPECT_EQ(text_at(response, "error/type"), "invalid_request_error");
    EXPECT_EQ(text_at(response, "error/param"), text_at(response, "error/field"));
    return concat(response.status, " ", text_at(response, "error/param"));
  };
  EXPECT_EQ(
      error(
          R"(,"presence_penalty":0,"frequency_penalty":0.0,"logit_bias":{},"suffix":"","best_of":1,"user":"x")"),
      "200");
  EXPECT_EQ(error(R"(,"presence_penalty":1)"), "400 presence_penalty");
  EXPECT_EQ(error(R"(,"frequency_penalty":-1)"), "400 frequency_penalty");
  EXPECT_EQ(error(R"(,"logit_bias":{"5":1})"), "400 logit_bias");
  EXPECT_EQ(error(R"(,"suffix":"x")"), "400 suffix");
  EXPECT_EQ(error(R"(,"best_of":2)"), "400 best_of");
  EXPECT_EQ(error(R"(,"n":2,"stream":true)"), "400 n");
  EXPECT_EQ(error(R"(,"logprobs":1,"stream":true)"), "400 logprobs");
  EXPECT_EQ(error(R"(,"logprobs":2)"), "400 logprobs");
  EXPECT_EQ(error(R"(,"logprobs":1)"), "200");
  EXPECT_EQ(error(R"(,"temperature":3)"), "400 temperature");
  EXPECT_EQ(error(R"(,"echo":true,"logprobs":1)"), "400 logprobs");
  EXPECT_EQ(error(R"(,"echo":true)"), "200");
  EXPECT_EQ(error(R"(,"stop":["a","b","c","d","e"])"), "400 stop");
  EXPECT_EQ(error(R"(,"stop":["a","b","c","d"])"), "200");
  EXPECT_EQ(error(R"(,"stop":5)"), "400 stop");
  EXPECT_EQ(error(R"(,"logit_bias":5)"), "400 logit_bias");
  EXPECT_EQ(error(R"(,"logit_bias":[])"), "400 logit_bias");
  EXPECT_EQ(error(R"(,"stream_options":"x")"), "400 stream_options");
  EXPECT_EQ(error(R"(,"stream_options":{"include_usage":"yes"})"), "400 include_usage");
  EXPECT_EQ(error(R"(,"stream_options":{"include_usage":true,"foo":1})"), "400 foo");
  EXPECT_EQ(error(R"(,"stream_options":{"include_usage":true,"include_obfuscation":false})"),
            "200");
  EXPECT_EQ(error(R"(,"wish":1)"), "400 wish");
  EXPECT_EQ(complete(R"("model":"story")").status, 400);
  EXPECT_EQ(text_at(complete(R"("model":"story","prompt":[1,2])"), "error/message"),
            "prompt: token ids are not taken, only text");
  const auto missing = complete(R"("model":"gpt","prompt":"how")");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(text_at(missing, "error/code"), "model_not_found");
  const auto chat = post(served(), "/v1/chat/completions", "{}");
  EXPECT_EQ(chat.status, 404);
  EXPECT_NE(text_at(chat, "error/message").find("/v1/completions"), std::string::npos);
}

}  // namespace
}  // namespace tril::openai_test
