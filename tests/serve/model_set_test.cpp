// Which model a request means, and in which languages.
#include "tril/serve/model_set.h"

#include <gtest/gtest.h>

#include <chrono>

#include "service_support.h"
#include "tril/serve/api_error.h"
#include "tril/text/language_lists.h"

namespace tril::model_set_test {
namespace {

using namespace serve;
using serve_test::small_translator;

// One translator for all: only names and languages matter here.
ModelSet models_named(const std::vector<std::string>& names) {
  static const Translator translates = small_translator();
  static const Translator continues = small_translator(true);
  ModelSet models;
  for (const std::string& name : names) {
    models.add(served_model({.name = name, .folder = "none"},
                            name.starts_with("story") ? continues : translates));
  }
  return models;
}

// "name from to", with "?" where it was detected; an error as "field: text".
std::string choice(const ModelSet& models, const Wanted& wanted,
                   std::string_view text = "how are you") {
  try {
    const Chosen chosen = models.choose(wanted, std::string(text));
    return concat(chosen.model->name, " ", chosen.languages.from, " ", chosen.languages.to,
                  chosen.detected ? "?" : "");
  } catch (const serve::ApiError& error) {
    EXPECT_TRUE(error.status == 400 || error.status == 404);
    return concat(error.field, ": ", error.what());
  }
}

TEST(ModelSet, NamesGiveDirections) {
  const auto direction = [](const std::string& name) {
    const ModelSet models = models_named({name});
    const ServedModel& model = models.models().front();
    EXPECT_FALSE(model.chooses);
    EXPECT_EQ(model.sources.empty(), model.usual.from.empty());
    EXPECT_EQ(model.targets.empty(), model.usual.to.empty());
    return model.usual.from + ">" + model.usual.to;
  };
  EXPECT_EQ(direction("en-hi"), "en>hi");
  EXPECT_EQ(direction("eng-hin"), "eng>hin");
  EXPECT_EQ(direction("pt_BR-en"), "pt_BR>en");
  for (const char* other : {"model", "en", "en_hi", "en-", "-hi", "en-xx", "xx-hi", "en-to-hi",
                            "hi-en-demo", "pt-BR-en"}) {
    EXPECT_EQ(direction(other), ">") << other;
  }
  const ServedModel told = served_model(
      {.name = "demo", .folder = "none", .languages = {"en", "hi"}}, small_translator());
  EXPECT_EQ(told.usual.from + ">" + told.usual.to, "en>hi");
}

TEST(ModelSet, AnswersWithTheOnlyOne) {
  const ModelSet models = models_named({"en-hi"});
  EXPECT_EQ(choice(models, {}), "en-hi en hi");
  EXPECT_EQ(choice(models, {.model = "en-hi"}), "en-hi en hi");
  EXPECT_EQ(choice(models, {.source = "en", .target = "hi"}), "en-hi en hi");
  EXPECT_EQ(choice(models, {.source = "EN-us", .target = "hin_Deva"}), "en-hi en hi");
  EXPECT_EQ(choice(models, {.source = "auto"}), "en-hi en hi?");
  EXPECT_EQ(choice(models, {.source = "auto"}, "123"), "en-hi en hi?");
  EXPECT_EQ(choice(models, {.target = "de"}), "target: nothing is translated into de: there is hi");
  EXPECT_EQ(choice(models, {.source = "hi", .target = "hi"}),
            "source: nothing is translated from hi into hi: there is en");
  EXPECT_EQ(choice(models, {.source = "de"}), "source: nothing is translated from de: there is en");
  EXPECT_EQ(choice(models, {.model = "EN-HI"}), "model: no model EN-HI: there is en-hi");
}

TEST(ModelSet, AModelOfUnknownLanguagesTranslatesWhatIsNotNamed) {
  const ModelSet models = models_named({"model"});
  EXPECT_EQ(choice(models, {}), "model  ");
  EXPECT_EQ(choice(models, {.source = "auto"}), "model  ");
  const std::string why =
      ": the languages of this model are not known; name it as in en-hi=FOLDER when starting the "
      "server";
  EXPECT_EQ(choice(models, {.target = "hi"}), "target: nothing is translated into hi" + why);
  EXPECT_EQ(choice(models, {.source = "en"}), "source: nothing is translated from en" + why);
}

TEST(ModelSet, ChoosesByLanguages) {
  const ModelSet models = models_named({"en-hi", "hi-en", "en-de"});
  EXPECT_EQ(choice(models, {.source = "en", .target = "de"}), "en-de en de");
  EXPECT_EQ(choice(models, {.source = "hi"}), "hi-en hi en");
  EXPECT_EQ(choice(models, {.target = "en"}), "hi-en hi en");
  EXPECT_EQ(choice(models, {.target = "hi"}), "en-hi en hi");
  EXPECT_EQ(choice(models, {.source = "auto", .target = "en"}, "मैं ठीक हूँ"), "hi-en hi en?");
  EXPECT_EQ(choice(models, {.source = "auto", .target = "de"}), "en-de en de?");
  EXPECT_EQ(choice(models, {.source = "auto"}, "मैं ठीक हूँ"), "hi-en hi en?");
  EXPECT_EQ(choice(models, {.model = "en-de"}), "en-de en de");
  EXPECT_EQ(choice(models, {.model = "en-de", .target = "hi"}),
            "target: nothing is translated into hi: there is de");
  EXPECT_EQ(choice(models, {.source = "de", .target = "en"}),
            "source: nothing is translated from de into en: there is hi");
}

TEST(ModelSet, AsksWhereThereIsAChoice) {
  const ModelSet models = models_named({"en-hi", "hi-en", "en-de"});
  const std::string several =
      ": several models could do this: name source and target, or one of the models en-hi, ";
  EXPECT_EQ(choice(models, {}), "target" + several + "hi-en, en-de");
  // Only those that can do it, by the names that the request has for languages.
  EXPECT_EQ(choice(models, {.source = "en"}), "target" + several + "en-de");
  EXPECT_EQ(choice(models, {.source = "en", .target_field = "target_language"}),
            "target_language: several models could do this: name source and target_language, or "
            "one of the models en-hi, en-de");
  // The source is detected; into what is still open.
  EXPECT_TRUE(choice(models, {.source = "auto"}).starts_with("target" + several));
  const ModelSet into_one = models_named({"en-hi", "de-hi"});
  EXPECT_TRUE(choice(into_one, {.target = "hi"}).starts_with("source: several models"));
  EXPECT_EQ(choice(into_one, {.source = "auto", .target = "hi"}, "where are they going today"),
            "en-hi en hi?");
}

// OpenAI's API has no fields for languages.
TEST(ModelSet, AsksForTheModelWhereLanguagesCannotBeNamed) {
  const ModelSet models = models_named({"en-hi", "story", "en-de", "story-2"});
  const auto asked = [&](std::optional<bool> continues) {
    return choice(models, {.continues = continues, .names_languages = false});
  };
  EXPECT_EQ(asked(true), "model: name the model: there is story, story-2");
  EXPECT_EQ(asked(false), "model: name the model: there is en-hi, en-de");
  EXPECT_EQ(choice(models, {.model = "story-2", .names_languages = false}), "story-2  ");
}

// Models of one direction stand in for each other; the first is the usual one.
TEST(ModelSet, TheFirstOfADirectionIsMeant) {
  const ModelSet models = models_named({"en-hi", "eng-hin"});
  EXPECT_EQ(choice(models, {}), "en-hi en hi");
  EXPECT_EQ(choice(models, {.source = "en", .target = "hi"}), "en-hi en hi");
  EXPECT_EQ(choice(models, {.model = "eng-hin"}), "eng-hin eng hin");
}

TEST(ModelSet, ListsLanguagesOnce) {
  const ModelSet models = models_named({"en-hi", "hi-en", "en-de", "eng-hin", "story", "other"});
  EXPECT_EQ(models.sources(), (std::vector<std::string>{"en", "hi"}));
  EXPECT_EQ(models.targets(""), (std::vector<std::string>{"hi", "en", "de"}));
  EXPECT_EQ(models.targets("en"), (std::vector<std::string>{"hi", "de"}));
  EXPECT_EQ(models.targets("hi"), std::vector<std::string>{"en"});
  EXPECT_TRUE(models.targets("de").empty());
}

// A model with the languages of NLLB, whatever it makes of them.
ServedModel many_languages() {
  ServedModel model = served_model({.name = "many", .folder = "none"}, small_translator());
  model.chooses = true;
  model.sources = model.targets = nllb_languages();
  model.usual = {"eng_Latn", "fra_Latn"};
  return model;
}

TEST(ModelSet, ListsTheTargetsOfEachSource) {
  ModelSet models = models_named({"en-zh", "zh-en"});
  models.add(many_languages());
  const std::vector<std::string> all = nllb_languages();
  EXPECT_EQ(models.sources().size(), all.size());
  EXPECT_EQ(models.targets("").size(), all.size());
  // "zh" of the second model is what NLLB calls zho_Hans; zho_Hant is written otherwise.
  const auto chinese = models.targets("zh");
  EXPECT_EQ(chinese.front(), "en");
  EXPECT_EQ(std::count(chinese.begin(), chinese.end(), "zho_Hans"), 0);
  EXPECT_EQ(std::count(chinese.begin(), chinese.end(), "zho_Hant"), 1);
  EXPECT_EQ(chinese.size(), all.size() - 1);
  const auto english = models.targets("en");
  EXPECT_EQ(english.front(), "zh");
  EXPECT_EQ(std::count(english.begin(), english.end(), "eng_Latn"), 0);
  EXPECT_EQ(english.size(), all.size() - 1);
}

// The source is left out first: what it stands for as a target is then listed by itself.
TEST(ModelSet, WhatTheSourceStoodForIsATarget) {
  ModelSet models;
  for (const auto& [name, targets] :
       {std::pair("first", std::vector<std::string>{"zho_Hant", "en"}),
        std::pair("second", std::vector<std::string>{"zh", "de"})}) {
    ServedModel model = served_model({.name = name, .folder = "none"}, small_translator());
    model.chooses = true;
    model.sources = {"zho_Hant", "fr"};
    model.targets = targets;
    models.add(std::move(model));
  }
  EXPECT_EQ(models.targets("fr"), (std::vector<std::string>{"zho_Hant", "en", "de"}));
  EXPECT_EQ(models.targets("zho_Hant"), (std::vector<std::string>{"en", "zh", "de"}));
}

// Choosing and listing are done by the threads that answer everybody, so they must be fast. The
// bounds are generous: for sanitizers and busy machines.
TEST(ModelSet, ChoosesQuicklyAmongManyLanguages) {
  ModelSet models;
  models.add(many_languages());
  const std::vector<std::string> all = nllb_languages();
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int repeat = 0; repeat < 10; ++repeat) {
    for (const std::string& code : all) {
      const Chosen chosen =
          models.choose({.source = code, .target = "de"}, std::string("how are you"));
      ASSERT_EQ(chosen.languages.from, code);
      ASSERT_EQ(chosen.languages.to, "deu_Latn");
    }
  }
  EXPECT_EQ(choice(models, {.source = "zh-TW", .target = "pt-BR"}), "many zho_Hant por_Latn");
  EXPECT_TRUE(choice(models, {.source = "en", .target = "tlh"})
                  .starts_with("target: nothing is translated into tlh: there is ace_Arab, "));
  std::vector<std::string> texts(256, "where are they going today");
  texts[7] = "मैं ठीक हूँ और आप कैसे हैं";
  const auto chosen = models.choose({.source = "auto", .target = "de"}, texts);
  ASSERT_EQ(chosen.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(chosen[i].languages.from, i == 7 ? "hin_Deva" : "eng_Latn");
    ASSERT_TRUE(chosen[i].detected.has_value());
    EXPECT_EQ(chosen[i].detected->code, chosen[i].languages.from);
  }
  for (int repeat = 0; repeat < 10; ++repeat) {
    for (const std::string& source : models.sources()) {
      const auto targets = models.targets(source);
      ASSERT_EQ(targets.size(), all.size() - 1);
      ASSERT_EQ(std::count(targets.begin(), targets.end(), source), 0);
    }
  }
  EXPECT_LT(seconds(), 4.0);
}

// One text of a call is chosen for as if it were alone.
TEST(ModelSet, ChoosesForEachTextOfACall) {
  const ModelSet models = models_named({"en-hi", "hi-en", "en-de"});
  const std::vector<std::string> texts = {"मैं ठीक हूँ", "where are they going today", "123"};
  for (const Wanted& wanted : {Wanted{.source = "auto", .target = "en"},
                               Wanted{.source = "en", .target = "de"}, Wanted{.model = "en-de"}}) {
    const auto chosen = models.choose(wanted, texts);
    ASSERT_EQ(chosen.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const Chosen alone = models.choose(wanted, texts[i]);
      EXPECT_EQ(chosen[i].model, alone.model);
      EXPECT_EQ(chosen[i].languages, alone.languages);
      ASSERT_EQ(chosen[i].detected.has_value(), alone.detected.has_value());
      if (!alone.detected) continue;
      EXPECT_EQ(chosen[i].detected->confidence, alone.detected->confidence);
    }
  }
}

// A short text is easily misread: it goes along with the first that is not.
TEST(ModelSet, UncertainTextsFollowAPlainOne) {
  const ModelSet models = models_named({"fr-en", "de-en", "hi-en", "en-de"});
  const auto chosen = [&](const std::vector<std::string>& texts, const Wanted& wanted) {
    std::string list;
    for (const Chosen& one : models.choose(wanted, texts)) {
      const Detected& detected = one.detected.value();
      list += concat(list.empty() ? "" : ", ", one.model->name);
      EXPECT_EQ(detected.code, one.languages.from);
      list += detected.confidence >= 0.5 ? "" : "?";
    }
    return list;
  };
  const std::string german = "Das ist ein sehr gutes Buch.";
  const std::string french = "Nous sommes dans la maison avec les enfants.";
  const Wanted into_english{.source = "auto", .target = "en"};
  EXPECT_EQ(chosen({german, "Taxi"}, into_english), "de-en, de-en?");
  EXPECT_EQ(chosen({"Taxi", "123", french, ""}, into_english), "fr-en?, fr-en?, fr-en, fr-en?");
  EXPECT_EQ(chosen({german, "Taxi", "मैं ठीक हूँ"}, into_english), "de-en, de-en?, hi-en");
  // Where all are uncertain, the first decides.
  const std::string alone = models.choose(into_english, std::string("Taxi")).model->name;
  EXPECT_EQ(chosen({"Taxi", "123"}, into_english), concat(alone, "?, ", alone, "?"));
  // It need not be said into what: the plain one says so.
  EXPECT_EQ(chosen({"123", german}, {.source = "auto"}), "de-en?, de-en");
}

// Where one model reads several languages, each text has its own.
TEST(ModelSet, UncertainTextsKeepTheirLanguageInOneModel) {
  ModelSet models;
  models.add(many_languages());
  const std::vector<std::string> texts = {"Das ist ein sehr gutes Buch.", "Taxi", "hola"};
  const auto chosen = models.choose({.source = "auto", .target = "en"}, texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Chosen alone = models.choose({.source = "auto", .target = "en"}, texts[i]);
    EXPECT_EQ(chosen[i].languages, alone.languages) << texts[i];
  }
}

TEST(ModelSet, NamesAreDifferent) {
  try {
    (void)models_named({"en-hi", "en-hi"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(error.what(),
                 "serve: two models are named en-hi: give them names, as in NAME=FOLDER");
  }
}

TEST(ModelSet, SpecsAreNamesAndFolders) {
  const auto spec = [](std::string_view text) {
    const ModelSpec read = parse_spec(text);
    return read.name + " at " + read.folder;
  };
  EXPECT_EQ(spec("models/demo"), "demo at models/demo");
  EXPECT_EQ(spec("models/demo//"), "demo at models/demo//");
  EXPECT_EQ(spec("demo"), "demo at demo");
  EXPECT_EQ(spec("en-hi=models/demo"), "en-hi at models/demo");
  EXPECT_EQ(spec("en-hi=a=b"), "en-hi at a=b");
  EXPECT_EQ(spec("models/a=b"), "a=b at models/a=b");
  for (const std::string bad : {"", "=a", "a=", "a b=c", "models/a b", "a\"=b", "a\\=b", "a\n=b",
                                "\xff=b", "models/\x7f"}) {
    try {
      (void)parse_spec(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_TRUE(
          std::string(error.what()).ends_with("is no model: give a folder, or NAME=FOLDER"));
    }
  }
}

// A server of several: every API finds the model by the languages.
TEST(ModelSet, EveryApiChooses) {
  using namespace serve_test;
  Service service(models_named({"en-hi", "hi-en", "story"}), {});
  EXPECT_EQ(
      text_at(post(service, "/v1/translate", R"({"text":"how","source":"hi","max_tokens":2})"),
              "model"),
      "hi-en");
  EXPECT_EQ(text_at(post(service, "/v1/translate",
                         R"({"text":"मैं ठीक हूँ","source":"auto","max_tokens":2})"),
                    "model"),
            "hi-en");
  const auto open = post(service, "/v1/translate", R"({"text":"how"})");
  EXPECT_EQ(open.status, 400);
  EXPECT_EQ(text_at(open, "error/field"), "target");
  EXPECT_EQ(text_at(post(service, "/v2/translate", R"({"text":["मैं ठीक हूँ"],"target_lang":"EN"})"),
                    "translations/0/detected_source_language"),
            "HI");
  EXPECT_EQ(text_at(post(service, "/translate", R"({"q":"मैं ठीक हूँ","source":"auto","target":"en"})"),
                    "detectedLanguage/language"),
            "hi");
  // Texts of one request that need different models.
  const auto mixed =
      post(service, "/v1/translate", R"({"text":["मैं ठीक हूँ","how are you"],"source":"auto"})");
  EXPECT_EQ(mixed.status, 400);
  EXPECT_EQ(text_at(mixed, "error/message"),
            "the texts are in languages of several models (hi-en, en-hi): send them in requests of "
            "their own");
  EXPECT_EQ(
      post(service, "/v1/translate", R"({"text":["मैं ठीक हूँ","123"],"source":"auto","max_tokens":2})")
          .status,
      200);
}

// LibreTranslate's clients ask for this list without a key.
TEST(ModelSet, ListsManyLanguagesQuickly) {
  using namespace serve_test;
  ModelSet models;
  models.add(many_languages());
  Service service(std::move(models), {});
  const auto start = std::chrono::steady_clock::now();
  const auto listed = json(get(service, "/languages"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  ASSERT_EQ(listed.items.size(), nllb_languages().size());
  for (const JsonValue& one : listed.items) {
    ASSERT_EQ(at(one, "targets").items.size(), nllb_languages().size() - 1);
    for (const JsonValue& target : at(one, "targets").items) {
      ASSERT_NE(target.text, at(one, "code").text);
    }
  }
}

}  // namespace
}  // namespace tril::model_set_test
