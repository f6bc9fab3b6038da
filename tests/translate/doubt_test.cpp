// Doubts: text in another script or of letters the tokenizer never saw, and none about what people
// write every day.
#include "tril/translate/doubt.h"

#include "support/models.h"
#include "translate/examples.h"

namespace tril::doubt_test {
namespace {

using testing::Family;
using testing::model_for;

// Of sentences with every letter of the English alphabet.
const Tokenizer& english() {
  static const Tokenizer learnt = [] {
    const std::vector<std::string> all = {"the quick brown fox jumps over the lazy dog",
                                          "where do they walk today",
                                          "pack my box with five dozen liquor jugs",
                                          "six big boxers and a zebra in the jungle",
                                          "jazz quizzes vex the judge with pizza",
                                          "very much like the other people of the world"};
    size_t next = 0;
    return Tokenizer::train(
        [&](std::string& line) {
          if (next == 20 * all.size()) return false;
          line = all[next++ % all.size()];
          return true;
        },
        {.vocab = 420});
  }();
  return learnt;
}

Translator reading(const std::string& language) {
  GenerationSettings settings;
  settings.from_language = language;
  return {model_for(Family::encoder_decoder, 0.0f, english()), english(), 1, settings};
}

TEST(Doubt, AnotherScriptThanTheLanguages) {
  const Translator model = reading("en");
  EXPECT_EQ(doubt_about(model, "तुमने मेरी चाबियाँ कहाँ रखी हैं?"),
            "most of its letters are Devanagari, the model reads English");
  for (const char* text :
       {"Где ты положил мои ключи?", "私は学生です。東京に住んでいます。", "我们现在开车回家吃饭",
        "어디에 내 열쇠를 두었니?", "أين وضعت مفاتيحي يا صديقي؟", "เด็กๆ กำลังรอรถเมล์",
        "Tom said: तुमने मेरी चाबियाँ कहाँ रखी हैं"}) {
    EXPECT_NE(doubt_about(model, text), "") << text;
  }
  EXPECT_EQ(doubt_about(reading("hi"), "where did you put my keys"),
            "most of its letters are Latin, the model reads Hindi");
}

TEST(Doubt, LettersThatTheTokenizerNeverLearnt) {
  const Translator model = reading("");
  EXPECT_EQ(doubt_about(model, "तुमने मेरी चाबियाँ कहाँ रखी हैं?"),
            "most of its words consist of letters that the model's tokenizer never learnt");
  EXPECT_EQ(doubt_about(model, "Where did you put my keys?"), "");
}

TEST(Doubt, NoneAboutOrdinaryText) {
  const Translator plain = reading(""), model = reading("en");
  for (const char* text : {"",
                           "   ",
                           "Hello",
                           "HELLO WORLD",
                           "नमस्ते",
                           "Москва",
                           "東京",
                           "3.14 = π",
                           "😀😀😀 👍🏽",
                           "α β γ δ ε",
                           "Tom met Łukasz Żółć and Nguyễn Văn Đức in Kraków.",
                           "12 345 678 €",
                           "https://пример.рф/путь/к/файлу",
                           "for (int i = 0; i < n; ++i) { x[i] = f(y_1); }",
                           "The word नमस्ते means hello.",
                           "naïve café déjà vu",
                           "a b c d",
                           "Lev Tolstoy (Лев Толстой)",
                           "— … „“ ½ ™",
                           "\xFF\xFE",
                           "x\ty\tz"}) {
    EXPECT_EQ(doubt_about(model, text), "") << text;
    EXPECT_EQ(doubt_about(plain, text), "") << text;
  }
}

// Names and terms in Latin letters are at home in every language.
TEST(Doubt, NoneAboutBorrowedWords) {
  const Translator model = reading("hi");
  for (const char* text :
       {"WhatsApp", "iPhone 13 Pro Max", "OK Google", "https://example.org/a/b",
        "Google Chrome, Mozilla Firefox, Microsoft Edge, Apple Safari", "living room lights",
        "living room में lights dim करें", "नया status post करो कि the work is done"}) {
    const std::string doubt = doubt_about(model, text);
    EXPECT_EQ(doubt.find("Latin"), doubt.npos) << text << ": " << doubt;
  }
}

// Languages that are written in several scripts, or whose script is not known.
TEST(Doubt, NoneAboutAScriptOfTheLanguage) {
  for (const char* language : {"sr", "uz", "az", "xyz"}) {
    EXPECT_EQ(doubt_about(reading(language), "the quick brown fox jumps over the dog"), "")
        << language;
  }
}

TEST(Doubt, TheNamedLanguageCounts) {
  EXPECT_NE(doubt_about(reading("en"), "where did you put my keys", {.from = "ru", .to = {}}), "");
}

}  // namespace
}  // namespace tril::doubt_test
