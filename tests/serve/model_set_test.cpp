// Which model a request means, and in which languages.
#include "tril/serve/model_set.h"

#include <gtest/gtest.h>

#include "service_support.h"
#include "tril/serve/api_error.h"

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
    const Chosen chosen = models.choose(wanted, text);
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
  for (const char* other : {"model", "en", "en_hi", "en-", "-hi", "en-xx", "xx-hi"}) {
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
      ": several models could do this: name source and target, or one of the models en-hi, hi-en, "
      "en-de";
  EXPECT_EQ(choice(models, {}), "target" + several);
  EXPECT_EQ(choice(models, {.source = "en"}), "target" + several);
  // The source is detected; into what is still open.
  EXPECT_EQ(choice(models, {.source = "auto"}), "target" + several);
  const ModelSet into_one = models_named({"en-hi", "de-hi"});
  EXPECT_TRUE(choice(into_one, {.target = "hi"}).starts_with("source: several models"));
  EXPECT_EQ(choice(into_one, {.source = "auto", .target = "hi"}, "where are they going today"),
            "en-hi en hi?");
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
}

}  // namespace
}  // namespace tril::model_set_test
