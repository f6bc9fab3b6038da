// tril's own API: what it answers is what the library computes, and what it refuses is named.
#include <gtest/gtest.h>

#include "service_support.h"
#include "support/models.h"
#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/io/atomic_file.h"
#include "tril/models/folder.h"
#include "tril/text/languages.h"
#include "tril/translate/text_plan.h"

namespace tril::own_api_test {
namespace {

using namespace serve;
using namespace serve_test;

// With a model that translates and one that continues text.
Service& both() {
  static Service service(small_models(1, true), {});
  return service;
}

TranslateOptions few_tokens(int64_t beam = 2, int64_t max_tokens = 12) {
  TranslateOptions options;
  options.search.beam = beam;
  options.search.max_tokens = max_tokens;
  return options;
}

TEST(OwnApi, TextsKeepTheirLines) {
  const Translator translator = small_translator();
  const TranslateOptions options = few_tokens();
  for (const std::string text : {"how are you", "how are you\n",
                                 "\r\n\n how are you \r\nI am fine, thank you\n\n", "", "\n"}) {
    for (const auto& [word, split] :
         {std::pair("long", Split::too_long), {"always", Split::always}, {"never", Split::never}}) {
      const auto response = post(both(), "/v1/translate",
                                 concat(R"({"target":"hi","beam":2,"max_tokens":12,"split":")",
                                        word, R"(","text":)", json_quoted(text), "}"));
      ASSERT_EQ(response.status, 200) << response.body;
      EXPECT_EQ(text_at(response, "translations/0/text"),
                translate_text(translator, text, options, split))
          << text;
    }
  }
}

TEST(OwnApi, AnAnswerSaysWhatItIs) {
  const auto response = post(
      both(), "/v1/translate",
      R"({"text":["how are you","banana"],"target":"hi","beam":3,"n_best":2,"max_tokens":8,"details":true})");
  const JsonValue answer = json(response);
  EXPECT_EQ(answer.names, (std::vector<std::string>{"model", "fingerprint", "source", "target",
                                                    "translations", "usage"}));
  EXPECT_EQ(at(answer, "model").text, "en-hi");
  EXPECT_EQ(at(answer, "fingerprint").text, both().models().find("en-hi")->fingerprint);
  EXPECT_EQ(header(response, "X-Tril-Fingerprint"), at(answer, "fingerprint").text);
  EXPECT_EQ(at(answer, "source").text, "en");
  EXPECT_EQ(at(answer, "target").text, "hi");
  ASSERT_EQ(at(answer, "translations").items.size(), 2u);
  int64_t written = 0;
  for (const JsonValue& one : at(answer, "translations").items) {
    const auto& hypotheses = at(one, "sentences/0/hypotheses").items;
    ASSERT_EQ(hypotheses.size(), 2u);
    EXPECT_EQ(at(one, "text").text, at(hypotheses[0], "text").text);
    ASSERT_EQ(at(one, "alternatives").items.size(), 1u);
    EXPECT_EQ(at(one, "alternatives/0").text, at(hypotheses[1], "text").text);
    EXPECT_EQ(at(one, "ended").boolean, at(hypotheses[0], "ended").boolean);
    for (const JsonValue& h : hypotheses) {
      EXPECT_EQ(at(h, "ids").items.size(), at(h, "pieces").items.size());
      EXPECT_EQ(at(h, "ids").items.size(), at(h, "log_probs").items.size());
      EXPECT_EQ(h.find("alignment"), nullptr);
      written += std::ssize(at(h, "ids").items);
    }
  }
  EXPECT_EQ(at(answer, "usage/target_tokens").integer, written);
  const Tokenizer& tokenizer = both().models().find("en-hi")->translator.tokenizer();
  EXPECT_EQ(at(answer, "usage/source_tokens").integer,
            std::ssize(tokenizer.encode_source("how are you")) +
                std::ssize(tokenizer.encode_source("banana")));
}

TEST(OwnApi, AlignmentsJoinWords) {
  TranslateOptions options = few_tokens();
  options.alignments = true;
  const Translator translator = small_translator();
  const std::vector<std::string> lines = {"I am fine, thank you"};
  const auto expected = translator.translate(lines, options);
  const auto answer = json(post(both(), "/v1/translate",
                                R"({"text":"I am fine, thank you","target":"hi","beam":2,)"
                                R"("max_tokens":12,"alignments":true})"));
  const auto& links = at(answer, "translations/0/sentences/0/hypotheses/0/alignment").items;
  const auto& wanted = expected.front().hypotheses.front().links;
  ASSERT_EQ(links.size(), wanted.size());
  ASSERT_FALSE(links.empty());
  for (size_t i = 0; i < links.size(); ++i) {
    EXPECT_EQ(at(links[i], "0").integer, wanted[i].source);
    EXPECT_EQ(at(links[i], "1").integer, wanted[i].target);
  }
}

TEST(OwnApi, APrefixBeginsTheTranslation) {
  const auto response = post(both(), "/v1/translate",
                             R"({"text":["how are you","banana"],"prefix":["मैं","ठीक"],)"
                             R"("target":"hi","beam":2,"max_tokens":8})");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(text_at(response, "translations/0/text").starts_with("मैं"));
  EXPECT_TRUE(text_at(response, "translations/1/text").starts_with("ठीक"));
}

TEST(OwnApi, DetectsTheLanguage) {
  const auto answer = json(post(
      both(), "/v1/translate",
      R"({"text":"where are they going today?","source":"auto","target":"hi","max_tokens":2})"));
  EXPECT_EQ(at(answer, "source").text, "en");
  EXPECT_EQ(at(answer, "translations/0/detected/language").text, "en");
  const double confidence = at(answer, "translations/0/detected/confidence").number;
  EXPECT_GT(confidence, 0.0);
  EXPECT_LE(confidence, 1.0);
  const std::vector<std::string> candidates = {"en"};
  EXPECT_EQ(confidence, detect_language("where are they going today?", candidates)[0].confidence);
  // Named is not detected.
  const auto named = json(post(both(), "/v1/translate",
                               R"({"text":"how","source":"en","target":"hi","max_tokens":2})"));
  EXPECT_EQ(at(named, "translations/0/detected").kind, JsonValue::Kind::null);
  for (const auto& response : {post(both(), "/v1/detect", R"({"text":"where are they going"})"),
                               get(both(), "/v1/detect?text=where+are+they+going")}) {
    EXPECT_EQ(text_at(response, "detected/0/language"), "en");
  }
  EXPECT_EQ(get(both(), "/v1/detect?text=123").body, "{\"detected\":[]}\n");
}

// By the codes that the models list, as everywhere in this API.
TEST(OwnApi, DetectsByTheModelsCodes) {
  ModelSet models;
  models.add(served_model({.name = "any", .folder = "none", .languages = {"eng_Latn", "hin_Deva"}},
                          small_translator()));
  Service service(std::move(models), {});
  EXPECT_EQ(text_at(post(service, "/v1/detect", R"({"text":"where are they going"})"),
                    "detected/0/language"),
            "eng_Latn");
  EXPECT_EQ(text_at(post(service, "/v1/translate",
                         R"({"text":"where are they going","source":"auto","max_tokens":2})"),
                    "translations/0/detected/language"),
            "eng_Latn");
  EXPECT_EQ(text_at(get(service, "/v1/models"), "data/0/source_languages/0"), "eng_Latn");
}

TEST(OwnApi, WarnsOfTextInAnotherScript) {
  const auto response =
      post(both(), "/v1/translate",
           R"({"text":["Москва — столица России","how are you"],"target":"hi","max_tokens":2})");
  const JsonValue answer = json(response);
  EXPECT_EQ(at(answer, "translations/0/warnings").items.size(), 1u) << response.body;
  EXPECT_EQ(at(answer, "translations/1").find("warnings"), nullptr);
}

// One line among others is enough, and it is named.
TEST(OwnApi, WarnsOfTheFirstDoubtfulLine) {
  const auto warnings = [](const std::string& text) {
    const auto answer =
        json(post(both(), "/v1/translate",
                  concat(R"({"target":"hi","max_tokens":2,"text":)", json_quoted(text), "}")));
    const auto& list = at(answer, "translations/0/warnings").items;
    return list.empty() ? "" : list.size() == 1 ? list.front().text : concat(list.size());
  };
  const std::string why = "most of its letters are Cyrillic, the model reads English";
  EXPECT_EQ(warnings("Москва — столица России"), why);
  EXPECT_EQ(warnings("How are you?\nМосква — столица России"), "line 2: " + why);
  EXPECT_EQ(warnings("\n\n Москва — столица России\nКак у тебя дела?\n"), "line 3: " + why);
  EXPECT_EQ(warnings("How are you?\nI am fine\n"), "");
}

// A direction that only the model's name tells counts as one that its files do.
TEST(OwnApi, DoesNotWarnOfBorrowedWords) {
  ModelSet models;
  for (const char* name : {"hi-en", "en-hi"}) {
    models.add(served_model({.name = name, .folder = "none"}, small_translator()));
  }
  Service service(std::move(models), {});
  const auto warnings = [&](const std::string& target, const std::string& text) {
    const auto answer = json(post(
        service, "/v1/translate",
        concat(R"({"max_tokens":2,"target":")", target, R"(","text":)", json_quoted(text), "}")));
    return at(answer, "translations/0/warnings").items.size();
  };
  for (const char* text : {"WhatsApp", "iPhone 13 Pro Max"}) {
    EXPECT_EQ(warnings("en", text), 0u) << text;
  }
  EXPECT_EQ(warnings("hi", "पानी"), 0u);
  EXPECT_EQ(warnings("en", "where are they going today"), 1u);
  EXPECT_EQ(warnings("hi", "मैं ठीक हूँ और आप"), 1u);
}

TEST(OwnApi, ContinuesText) {
  const Translator writer = small_translator(true);
  TranslateOptions options = few_tokens(2, 10);
  options.search.n_best = 2;
  const std::vector<std::string> lines = {"how are", "I am fine. \nhow\n are"};
  const auto expected = writer.translate(lines, options);
  const auto response =
      post(both(), "/v1/generate",
           concat(R"({"model":"story","beam":2,"n_best":2,"max_tokens":10,"text":[)",
                  json_quoted(lines[0]), ",", json_quoted(lines[1]), "]}"));
  ASSERT_EQ(response.status, 200) << response.body;
  const JsonValue answer = json(response);
  EXPECT_EQ(answer.find("source"), nullptr);
  for (size_t i = 0; i < lines.size(); ++i) {
    const JsonValue& one = at(answer, concat("translations/", i));
    EXPECT_EQ(at(one, "text").text, expected[i].hypotheses[0].text);
    EXPECT_EQ(at(one, "alternatives/0").text, expected[i].hypotheses[1].text);
  }
  int64_t read = 0, written = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const int64_t prompt = std::ssize(writer.tokenizer().encode(lines[i]));
    read += prompt;
    for (const TextHypothesis& h : expected[i].hypotheses) written += std::ssize(h.tokens) - prompt;
  }
  EXPECT_EQ(at(answer, "usage/source_tokens").integer, read);
  EXPECT_EQ(at(answer, "usage/target_tokens").integer, written);
}

TEST(OwnApi, TheOnlyModelThatCanIsMeant) {
  EXPECT_EQ(text_at(post(both(), "/v1/generate", R"({"text":"how","max_tokens":2})"), "model"),
            "story");
  EXPECT_EQ(text_at(post(both(), "/v1/translate", R"({"text":"how","max_tokens":2})"), "model"),
            "en-hi");
  EXPECT_EQ(text_at(post(both(), "/v1/score", R"({"source":"how","target":"x"})"), "model"),
            "en-hi");
  EXPECT_EQ(text_at(post(both(), "/v1/score", R"({"target":"how are"})"), "model"), "story");
}

TEST(OwnApi, ScoresAreThoseOfTheLibrary) {
  const Translator translator = small_translator();
  const std::vector<std::string> sources = {"how are you", "banana"}, targets = {"मैं ठीक", "x"};
  std::vector<TextScore> expected;
  size_t next = 0;
  translator.score(
      [&]() -> std::optional<ScoreTextRequest> {
        if (next == 2) return std::nullopt;
        ScoreTextRequest request;
        request.source = sources[next];
        request.target = targets[next++];
        return request;
      },
      [&](TextScore&& score) {
        expected.push_back(std::move(score));
        return true;
      });
  const auto response =
      post(both(), "/v1/score",
           R"({"source":["how are you","banana"],"target":["मैं ठीक","x"],"model":"en-hi"})");
  ASSERT_EQ(response.status, 200) << response.body;
  const JsonValue answer = json(response);
  ASSERT_EQ(at(answer, "scores").items.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const JsonValue& one = at(answer, concat("scores/", i));
    EXPECT_EQ(at(one, "score").number, expected[i].score);
    ASSERT_EQ(at(one, "ids").items.size(), expected[i].tokens.size());
    for (size_t k = 0; k < expected[i].tokens.size(); ++k) {
      EXPECT_EQ(at(one, concat("ids/", k)).integer, expected[i].tokens[k]);
      EXPECT_EQ(at(one, concat("pieces/", k)).text, expected[i].pieces[k]);
      EXPECT_EQ(static_cast<float>(at(one, concat("log_probs/", k)).number),
                expected[i].log_probs[k]);
    }
  }
}

// They are made in steps; nobody sees where one ends.
TEST(OwnApi, ManyScoresAreThoseOfEach) {
  std::string sources, targets;
  std::vector<std::string> each;
  for (int i = 0; i < 40; ++i) {
    const std::string source = concat("\"where are they going today? ", i, "\"");
    const std::string target = concat("\"", std::string(static_cast<size_t>(i), 'q'), " ठीक\"");
    sources += (i > 0 ? "," : "") + source;
    targets += (i > 0 ? "," : "") + target;
    const auto alone =
        post(both(), "/v1/score", concat(R"({"source":)", source, R"(,"target":)", target, "}"));
    each.push_back(alone.body.substr(alone.body.find("\"scores\":[") + 10));
    ASSERT_EQ(alone.status, 200) << alone.body;
  }
  std::string expected;
  for (const std::string& one : each) {
    expected += (expected.empty() ? "" : ",") + one.substr(0, one.rfind("]}"));
  }
  const auto all = post(both(), "/v1/score",
                        concat(R"({"source":[)", sources, R"(],"target":[)", targets, "]}"));
  EXPECT_EQ(all.body.substr(all.body.find("\"scores\":[") + 10), expected + "]}\n");
  // A text that cannot be scored is named by its number among all.
  const auto bad = post(both(), "/v1/score",
                        concat(R"({"source":[)", sources, R"(,"how"],"target":[)", targets, ",\"",
                               std::string(2000, 'q'), "\"]}"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_TRUE(text_at(bad, "error/message").starts_with("score: line 41: ")) << bad.body;
}

TEST(OwnApi, TokensAreThoseOfTheTokenizer) {
  const Translator translator = small_translator();
  const auto ids_of = [&](const std::string& fields) {
    const auto answer = json(post(both(), "/v1/tokenize", "{" + fields + "}"));
    std::vector<int32_t> ids;
    for (const JsonValue& id : at(answer, "texts/0/ids").items) {
      ids.push_back(static_cast<int32_t>(id.integer));
    }
    EXPECT_EQ(at(answer, "texts/0/pieces").items.size(), ids.size());
    return ids;
  };
  const std::string text = R"("text":"how are you","model":)";
  EXPECT_EQ(ids_of(text + R"("en-hi")"), translator.tokenizer().encode_source("how are you"));
  EXPECT_EQ(ids_of(text + R"("en-hi","side":"target")"),
            translator.tokenizer().encode_target("how are you"));
  EXPECT_EQ(ids_of(text + R"("story")"), translator.tokenizer().encode("how are you"));
}

TEST(OwnApi, ListsItsModels) {
  const auto list = json(get(both(), "/v1/models"));
  ASSERT_EQ(at(list, "data").items.size(), 2u);
  EXPECT_EQ(at(list, "object").text, "list");
  const JsonValue& model = at(list, "data/0");
  EXPECT_EQ(at(model, "id").text, "en-hi");
  EXPECT_EQ(at(model, "object").text, "model");
  EXPECT_EQ(at(model, "kind").text, "encoder-decoder");
  EXPECT_EQ(at(model, "source_languages/0").text, "en");
  EXPECT_EQ(at(model, "target_languages/0").text, "hi");
  EXPECT_EQ(at(model, "default_target").text, "hi");
  EXPECT_EQ(at(model, "fingerprint").text.size(), 32u);
  EXPECT_EQ(at(model, "max_length").integer, 200);
  EXPECT_EQ(at(list, "data/1/kind").text, "decoder-only");
  EXPECT_TRUE(at(list, "data/1/source_languages").items.empty());
  EXPECT_EQ(text_at(get(both(), "/v1/models/en%2Dhi"), "id"), "en-hi");
  const auto missing = get(both(), "/v1/models/none");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(text_at(missing, "error/code"), "unknown_model");
}

TEST(OwnApi, ANameMayHoldAPlus) {
  ModelSet models;
  models.add(served_model({.name = "en+hi", .folder = "none"}, small_translator()));
  Service service(std::move(models), {});
  for (const char* path : {"/v1/models/en+hi", "/v1/models/en%2Bhi"}) {
    EXPECT_EQ(text_at(get(service, path), "id"), "en+hi") << path;
  }
  EXPECT_EQ(get(service, "/v1/models/en%20hi").status, 404);
}

// An explanation loads the files again: it is of the model that is served, or there is none.
TEST(OwnApi, ExplainsTheModelThatIsServed) {
  const auto save = [](const std::string& folder, uint64_t seed, bool seals) {
    const Translator made = small_translator();
    const Transformer model(made.model().config(), seed, testing::placement());
    model.save(folder, {.beside = {{std::string(kTokenizerFile), made.tokenizer().bytes()}}});
    if (seals) return;
    // As another program writes it, which knows nothing of seals.
    const std::string path = path_in(folder, kWeightsFile);
    std::string bytes = read_file(path, 1 << 26);
    for (const std::string key : {"\"tril_checksums\"", "\"tril_seal\""}) {
      const size_t at = bytes.find(key);
      ASSERT_NE(at, std::string::npos);
      bytes[at + 1] = 'x';
    }
    write_file_atomically(path, bytes);
  };
  for (const bool seals : {true, false}) {
    const testing::TempFolder folder;
    save(folder.path(), 7, seals);
    ModelSet models;
    models.add(
        served_model({.name = "en-hi", .folder = folder.path()},
                     Translator::load(folder.path(), testing::loading(Purpose::inference), 1)));
    EXPECT_EQ(models.models()[0].translator.model().seal().sealed(), seals);
    Service service(std::move(models), {});
    EXPECT_EQ(get(service, "/explain?text=how").status, 200);
    save(folder.path(), 8, seals);
    const auto changed = get(service, "/explain?text=how");
    EXPECT_EQ(changed.status, 400) << seals;
    EXPECT_EQ(text_at(changed, "error/message"),
              "en-hi: its files have changed since the server loaded them");
  }
}

// "status code field: message"
std::string refusal(const HttpResponse& response) {
  return concat(response.status, " ", text_at(response, "error/code"), " ",
                text_at(response, "error/field"), ": ", text_at(response, "error/message"));
}

TEST(OwnApi, RefusalsNameWhatIsToBlame) {
  const auto translate = [](const std::string& fields) {
    return refusal(post(both(), "/v1/translate", "{" + fields + "}"));
  };
  EXPECT_EQ(translate(R"("target":"hi")"),
            "400 invalid_request text: text is missing: what to translate");
  EXPECT_EQ(
      translate(R"("text":[])"),
      "400 invalid_request text: text: expected a text or a list of texts, got an empty list");
  EXPECT_EQ(translate(R"("text":"a","target":"hi","beem":3)"),
            "400 invalid_request beem: there is no field beem: see /openapi.json");
  EXPECT_EQ(translate(R"("text":"a","model":"x")"),
            "404 unknown_model model: no model x: there is en-hi, story");
  EXPECT_EQ(translate(R"("text":"a","model":"story")"),
            "400 invalid_request model: story continues text: use /v1/generate or /v1/completions");
  EXPECT_EQ(translate(R"("text":"a","target":"de")"),
            "400 unknown_language target: nothing is translated into de: there is hi");
  EXPECT_EQ(translate(R"("text":"a","source":"de","target":"hi")"),
            "400 unknown_language source: nothing is translated from de into hi: there is en");
  EXPECT_EQ(
      translate(R"("text":"a","target":"hi","format":"html")"),
      "400 invalid_request format: format: html cannot be translated, only text: markup would "
      "be mangled");
  EXPECT_EQ(translate(R"("text":["a","b"],"target":"hi","prefix":"x")"),
            "400 invalid_request prefix: prefix: 1 for 2 texts");
  EXPECT_EQ(
      translate(R"("text":"a\nb","target":"hi","prefix":"x")"),
      "400 invalid_request prefix: prefix: a text of several lines or sentences cannot have one");
  EXPECT_EQ(
      translate(R"("text":"a","target":"hi","prefix":"x","split":"always")"),
      "400 invalid_request prefix: prefix: a text that is cut into sentences cannot have one");
  EXPECT_EQ(translate(R"("text":"a","target":"hi","shortlist":true)"),
            "400 invalid_request shortlist: en-hi has no shortlist: 'tril shortlist' makes one");
  EXPECT_EQ(
      translate(R"("text":"a","target":"hi","timeout":0)"),
      "400 invalid_request timeout: timeout: expected a number above 0, at most 86400, got 0");
  EXPECT_TRUE(translate(R"("text":"a","target":"hi","beam":2,"n_best":3)")
                  .starts_with("400 invalid_request beam: "));
  EXPECT_EQ(translate(R"("text":"a","target":"hi","forbid":[[7],[5,320]])"),
            "400 invalid_request forbid: forbid: token 320 is not in the vocabulary of 320");
  const std::string long_line =
      concat(R"("split":"never","target":"hi","text":")", std::string(900, 'x'), "\"");
  EXPECT_TRUE(translate(long_line).starts_with("400 invalid_request text: "))
      << translate(long_line);
  const auto generate = [](const std::string& fields) {
    return refusal(post(both(), "/v1/generate", "{" + fields + "}"));
  };
  EXPECT_EQ(generate(R"("text":"a","model":"en-hi")"),
            "400 invalid_request model: en-hi translates: use /v1/translate");
  for (const char* field :
       {"source", "target", "split", "format", "alignments", "prefix", "max_ratio", "shortlist"}) {
    EXPECT_EQ(generate(concat(R"("model":"story","text":"a",")", field, "\":null")),
              concat("400 invalid_request ", field, ": there is no field ", field,
                     ": see /openapi.json"));
  }
  const auto score = [](const std::string& fields) {
    return refusal(post(both(), "/v1/score", "{" + fields + "}"));
  };
  EXPECT_EQ(score(R"("source":"a")"),
            "400 invalid_request target: target is missing: the texts to be scored");
  EXPECT_EQ(score(R"("source":["a","b"],"target":"a")"),
            "400 invalid_request source: source: 2 for 1 targets");
  EXPECT_EQ(score(R"("target":"a","model":"en-hi")"),
            "400 invalid_request source: source is missing: en-hi translates, so a score needs it");
  EXPECT_EQ(score(R"("source":"a","target":"a","model":"story")"),
            "400 invalid_request source: story continues text, so a score takes no source");
  EXPECT_EQ(refusal(get(both(), "/explain?text=a&model=none")),
            "404 unknown_model model: no model none: there is en-hi, story");
}

// What would be ignored is refused, as the program does.
TEST(OwnApi, SettingsOfSamplingNeedIt) {
  for (const std::string path : {"/v1/translate", "/v1/generate"}) {
    const auto asked = [&](const std::string& more) {
      return post(both(), path, R"({"text":"how","max_tokens":2,)" + more + "}");
    };
    for (const auto& [field, value] :
         {std::pair("top_p", "0.5"), {"top_k", "3"}, {"temperature", "0.7"}, {"seed", "7"}}) {
      const std::string named = concat("\"", field, "\":", value);
      EXPECT_EQ(refusal(asked(named)), concat("400 invalid_request ", field, ": ", field,
                                              ": nothing is drawn by chance without sampling"));
      EXPECT_EQ(asked(named + R"(,"sample":true)").status, 200) << named;
    }
    // Values that change nothing in any case.
    EXPECT_EQ(asked(R"("top_p":1,"top_k":0,"temperature":1)").body, asked(R"("top_p":1)").body);
    EXPECT_EQ(refusal(asked(R"("sample":true,"beam":2)")),
              "400 invalid_request sample: search: sampling needs a beam of 1, got 2");
  }
}

TEST(OwnApi, WrongPathsAndMethods) {
  const auto nothing = get(both(), "/v1/nothing");
  EXPECT_EQ(refusal(nothing),
            "404 not_found null: there is nothing at /v1/nothing: see /openapi.json");
  const auto wrong = ask(both(), request("DELETE", "/v1/translate"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(header(wrong, "Allow"), "POST, GET");
  EXPECT_EQ(header(get(both(), "/v1/score"), "Allow"), "POST");
  EXPECT_EQ(ask(both(), request("HEAD", "/v1/models")).status, 200);
  for (const char* method : {"POST", "DELETE"}) {
    EXPECT_EQ(ask(both(), request(method, "/livez")).status, 405) << method;
  }
}

TEST(OwnApi, EveryAnswerHasItsHeaders) {
  const auto response =
      post(both(), "/v1/translate", R"({"text":"a","target":"hi","max_tokens":1})",
           {{"X-Request-Id", "id-7/ab"}});
  EXPECT_EQ(header(response, "X-Request-Id"), "id-7/ab");
  EXPECT_EQ(header(response, "X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(header(response, "Cache-Control"), "no-store");
  // Nothing a client sends gets into a header that could end it.
  for (const std::string& id :
       {std::string("a b"), std::string("a\tb"), std::string("a\x80"), std::string(129, 'a')}) {
    EXPECT_EQ(header(get(both(), "/v1/models", {{"X-Request-Id", id}}), "X-Request-Id"), "");
  }
  EXPECT_EQ(header(get(both(), "/v1/nothing", {{"X-Request-Id", "5"}}), "X-Request-Id"), "5");
}

// A request that does not say how its lines are split gets what the server was started with.
TEST(OwnApi, SplitsAsTheServerWasToldTo) {
  const std::string two = "How are you? I am fine, thank you.";
  const auto text_of = [&](Split split, const std::string& path, const std::string& fields) {
    ServiceOptions options;
    options.limits.split = split;
    Service service(small_models(), options);
    const auto response = post(service, path, concat("{", fields, ",\"max_tokens\":20}"));
    EXPECT_EQ(response.status, 200) << response.body;
    return text_at(response, path == "/v1/translate" ? "translations/0/text" : "choices/0/text");
  };
  const std::string own = R"("text":)" + json_quoted(two);
  const std::string whole = text_of(Split::too_long, "/v1/translate", own);
  const std::string cut = text_of(Split::always, "/v1/translate", own);
  EXPECT_NE(whole, cut);
  EXPECT_EQ(text_of(Split::too_long, "/v1/translate", own + R"(,"split":"always")"), cut);
  EXPECT_EQ(text_of(Split::always, "/v1/translate", own + R"(,"split":"never")"), whole);
  const std::string prompt = R"("model":"en-hi","prompt":)" + json_quoted(two);
  EXPECT_EQ(text_of(Split::always, "/v1/completions", prompt), cut);
  EXPECT_EQ(text_of(Split::too_long, "/v1/completions", prompt), whole);
}

// A body above 8 KiB goes another way.
TEST(OwnApi, LargeBodiesAreAnsweredAlike) {
  const std::string small = R"({"text":"how are you","target":"hi","max_tokens":5})";
  const std::string large = small + std::string(20'000, ' ');
  EXPECT_EQ(post(both(), "/v1/translate", small).body, post(both(), "/v1/translate", large).body);
  const auto bad = post(both(), "/v1/translate", large + "}");
  EXPECT_EQ(bad.status, 400);
}

TEST(OwnApi, AQueryIsAsGoodAsABody) {
  const auto posted = post(
      both(), "/v1/translate",
      R"({"text":"how are you","target":"hi","beam":3,"n_best":2,"max_tokens":6,"details":true})");
  const auto got =
      get(both(),
          "/v1/translate?text=how+are%20you&target=hi&beam=3&n_best=2&max_tokens=6&details=true");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(posted.body, got.body);
}

}  // namespace
}  // namespace tril::own_api_test
