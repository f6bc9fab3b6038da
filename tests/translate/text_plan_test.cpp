// Whole texts: what is cut and what is not, what stands between, and that no line is gained or
// lost.
#include "tril/translate/text_plan.h"

#include <algorithm>
#include <string>

#include "support/property.h"
#include "translate/examples.h"
#include "tril/text/sentences.h"
#include "tril/text/unicode.h"

namespace tril::text_plan_test {
namespace {

using testing::Family;
using testing::model_for;
using testing::quick_options;
using testing::raised_by;
using testing::tokenizer;
using testing::translator_for;

const Translator& translator() {
  static const Translator one = translator_for(Family::encoder_decoder);
  return one;
}

// A model that translates into this language.
Translator into(const std::string& language, const std::string& from = "en") {
  GenerationSettings settings;
  settings.from_language = from;
  settings.to_language = language;
  return {model_for(Family::encoder_decoder), tokenizer(), 1, settings};
}

std::vector<std::string> sources(const TextPlan& plan) {
  std::vector<std::string> list;
  for (const TextPart& part : plan.parts) list.push_back(part.source);
  return list;
}

// As if the model copied.
std::string copied(const TextPlan& plan) { return plan.join(sources(plan)); }

using Strings = std::vector<std::string>;

int64_t tokens(std::string_view text) {
  return static_cast<int64_t>(tokenizer().encode_source(text).size());
}
int64_t most() { return translator().model().config().max_length; }

std::string repeated(const std::string& unit, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += unit;
  return text;
}

TEST(TextPlan, LinesAreUnitsAndEmptyOnesAreCopied) {
  const std::string text = "\nhow are you? I am fine.\r\n\r\nthank you\n\nx";
  for (const Split split : {Split::never, Split::too_long}) {
    const TextPlan plan = plan_text(translator(), text, {}, split);
    EXPECT_EQ(sources(plan), (Strings{"how are you? I am fine.", "thank you", "x"}));
    EXPECT_EQ(copied(plan), text);
    EXPECT_EQ(plan.join(Strings{"A", "B", "C"}), "\nA\r\n\r\nB\n\nC");
    EXPECT_EQ(plan.parts[0].line, 1);
    EXPECT_EQ(plan.parts[2].line, 5);
  }
  EXPECT_TRUE(plan_text(translator(), "").parts.empty());
  EXPECT_EQ(copied(plan_text(translator(), "\n\r\n")), "\n\r\n");
}

// However a line is cut, the white space around it is not the model's business.
TEST(TextPlan, WhiteSpaceAroundLinesIsCopied) {
  const std::string text = "  - how are you\n\t\u3000thank you \u00A0\n   \n \u0301x \n ";
  const Strings inner = {"- how are you", "thank you", " \u0301x"};
  for (const Split split : {Split::too_long, Split::always}) {
    const TextPlan plan = plan_text(translator(), text, {}, split);
    EXPECT_EQ(sources(plan), inner);
    EXPECT_EQ(copied(plan), text);
    EXPECT_EQ(plan.join(Strings{"A", "B", "C"}), "  A\n\t\u3000B \u00A0\n   \nC \n ");
    EXPECT_EQ(plan.parts[2].line, 3);
  }
  EXPECT_EQ(sources(plan_text(translator(), text, {}, Split::never)),
            (Strings{"  - how are you", "\t\u3000thank you \u00A0", "   ", " \u0301x ", " "}));
  // Blanks do not make a line too long.
  const std::string blanks(300, ' ');
  EXPECT_EQ(sources(plan_text(translator(), blanks + "how are you" + blanks)),
            Strings{"how are you"});
}

TEST(TextPlan, ACarriageReturnEndsALine) {
  const std::string text = "how\rare\r\r\nyou\n\r";
  for (const Split split : {Split::never, Split::too_long, Split::always}) {
    const TextPlan plan = plan_text(translator(), text, {}, split);
    EXPECT_EQ(sources(plan), (Strings{"how", "are", "you"}));
    EXPECT_EQ(copied(plan), text);
    EXPECT_EQ(plan.parts[2].line, 3);
  }
}

TEST(TextPlan, AlwaysCutsEveryLineOfSeveralSentences) {
  const std::string text = " How are you?  I am fine.\n\n  Thank you. \n";
  const TextPlan plan = plan_text(translator(), text, {}, Split::always);
  EXPECT_EQ(sources(plan), (Strings{"How are you?", "I am fine.", "Thank you."}));
  EXPECT_EQ(copied(plan), text);
  EXPECT_EQ(plan.join(Strings{"A", "B", "C"}), " A  B\n\n  C \n");
}

TEST(TextPlan, OnlyALineThatDoesNotFitIsCut) {
  std::string fits = "how are you?";
  while (tokens(fits + " How") <= most()) fits += " How";
  const std::string longer = fits + ". " + "Thank you. How are you?";
  ASSERT_GT(tokens(longer), most());
  const TextPlan plan = plan_text(translator(), fits + "\n" + longer + "\n");
  EXPECT_EQ(sources(plan), (Strings{fits, fits.substr(0, 12), fits.substr(13) + ".", "Thank you.",
                                    "How are you?"}));
  EXPECT_EQ(copied(plan), fits + "\n" + longer + "\n");
}

// A unit that fits to the token is not cut, one more token is.
TEST(TextPlan, CountsAsTheTranslatorCounts) {
  std::string line = "how";
  while (tokens(line) < most()) line += tokens(line + " how") <= most() ? " how" : "q";
  ASSERT_EQ(tokens(line), most());
  EXPECT_EQ(plan_text(translator(), line).parts.size(), 1u);
  EXPECT_FALSE(translator().translate(Strings{line}, quick_options()).front().text().empty());
  while (tokens(line) <= most()) line += " how";
  EXPECT_EQ(plan_text(translator(), line).parts.size(), 2u);
  EXPECT_EQ(raised_by([&] { translator().translate(line); }).code, ErrorCode::invalid_argument);
}

TEST(TextPlan, CutsALongSentenceAtClausesThenBlanksThenCharacters) {
  const auto all_fit = [](const TextPlan& plan) {
    return std::all_of(plan.parts.begin(), plan.parts.end(),
                       [](const TextPart& part) { return tokens(part.source) <= most(); });
  };
  const std::string clauses = repeated("how are you, they are going, ", 12) + "today";
  TextPlan plan = plan_text(translator(), clauses);
  EXPECT_GT(plan.parts.size(), 3u);
  for (size_t i = 0; i + 1 < plan.parts.size(); ++i) EXPECT_EQ(plan.parts[i].source.back(), ',');
  EXPECT_TRUE(all_fit(plan));
  EXPECT_EQ(copied(plan), clauses);

  const std::string words = repeated("how are you ", 30) + "today";
  plan = plan_text(translator(), words);
  EXPECT_TRUE(all_fit(plan));
  EXPECT_EQ(copied(plan), words);
  for (const TextPart& part : plan.parts) EXPECT_NE(part.source.back(), ' ');

  // A comma at the very beginning is not worth a unit.
  plan = plan_text(translator(), "how, " + words);
  EXPECT_GT(plan.parts.front().source.size(), 20u);

  const std::string nothing = repeated("qz", 300);
  plan = plan_text(translator(), nothing);
  EXPECT_GT(plan.parts.size(), 3u);
  EXPECT_TRUE(all_fit(plan));
  EXPECT_EQ(copied(plan), nothing);
}

// One character of more tokens than the model takes is handed on whole, to be refused.
TEST(TextPlan, NeverCutsACharacter) {
  const std::string tower = "e" + repeated("\u0301", 60);
  const TextPlan plan = plan_text(translator(), "how " + tower + " you");
  EXPECT_EQ(sources(plan), (Strings{"how", tower, "you"}));
  EXPECT_EQ(copied(plan), "how " + tower + " you");
}

TEST(TextPlan, LinesThatAreNoTextArePassedOn) {
  const std::string bad = "how \xFF are. You are.";
  const TextPlan plan = plan_text(translator(), bad + "\nHow", {}, Split::always);
  EXPECT_EQ(sources(plan), (Strings{bad, "How"}));
}

TEST(TextPlan, BlanksFollowTheTargetLanguage) {
  const std::string english = "How are you?  Fine. \t Good.";
  const auto joined = [](const Translator& model, const std::string& text) {
    return copied(plan_text(model, text, {}, Split::always));
  };
  EXPECT_EQ(joined(into("de"), english), english);
  EXPECT_EQ(joined(into("zh_CN"), english), "How are you?Fine. \t Good.");
  EXPECT_EQ(joined(into("th"), english), english) << "Thai has blanks between sentences";
  EXPECT_EQ(joined(into("en", "ja"), "これ。それ。　あれ。\n"), "これ。 それ。 あれ。\n");
  EXPECT_EQ(joined(into("zh", "ja"), "これ。それ。　あれ。"), "これ。それ。あれ。");
  // Where nobody knows the language, what was written before decides.
  const TextPlan plan = plan_text(translator(), "これ。それ。", {}, Split::always);
  EXPECT_EQ(plan.join(Strings{"This.", "That."}), "This. That.");
  EXPECT_EQ(plan.join(Strings{"这。", "那。"}), "这。那。");
  // No blank is put into a word.
  const std::string word = repeated("qz", 100);
  EXPECT_EQ(joined(into("de"), word), word);
  EXPECT_EQ(joined(into("zh"), word), word);
}

TEST(TextPlan, TranslationsKeepNoLineBreaks) {
  const TextPlan plan = plan_text(translator(), "a\nb\r\n");
  EXPECT_EQ(plan.join(Strings{"x\ny", "\rz\r\n"}), "x y\n z  \r\n");
  EXPECT_EQ(raised_by([&] {
              (void)plan.join(Strings{"1", "2", "3"});
            }).code,
            ErrorCode::invalid_argument);
}

// Of a text with more units than are wanted little is looked at: one more than that, and no
// sentence of a line that has too many.
TEST(TextPlan, StopsAtTooManyUnits) {
  const std::string sentences = repeated("How are you? I am fine. ", 1000);
  const std::string words = repeated("how are you ", 3000);
  const std::string lines = repeated("how are you\n", 1000);
  for (const std::string& text : {sentences, words, lines}) {
    for (const Split split : {Split::never, Split::too_long, Split::always}) {
      if (split == Split::never && text != lines) continue;
      int64_t pieces = 0;
      const PlanBounds bounds{.max_parts = 10, .check = [&] { ++pieces; }};
      const TextPlan plan = plan_text(translator(), text, {}, split, bounds);
      EXPECT_EQ(plan.parts.size(), 11u);
      EXPECT_LT(pieces, text == words ? 200 : 15);
      // Those it has are those of the whole text.
      const TextPlan whole = plan_text(translator(), text, {}, split);
      if (text == sentences) continue;
      for (size_t i = 0; i < plan.parts.size(); ++i) {
        EXPECT_EQ(plan.parts[i].source, whole.parts[i].source);
      }
    }
  }
  // As many as are allowed are not too many.
  const std::string three = "How are you? I am fine. Thank you.";
  const TextPlan plan =
      plan_text(translator(), three, {}, Split::always, {.max_parts = 3, .check = {}});
  EXPECT_EQ(plan.parts.size(), 3u);
  EXPECT_EQ(copied(plan), three);
}

TEST(TextPlan, CanBeGivenUp) {
  int64_t left = 5;
  const PlanBounds bounds{
      .check = [&] { require(--left > 0, ErrorCode::cancelled, "nobody wants it"); }};
  const std::string words = repeated("how are you ", 3000);
  EXPECT_EQ(raised_by([&] { plan_text(translator(), words, {}, Split::too_long, bounds); }).code,
            ErrorCode::cancelled);
  EXPECT_EQ(left, 0);
}

TEST(TextPlan, ContinuedTextIsNotCut) {
  const Translator writer = translator_for(Family::decoder_only);
  EXPECT_EQ(raised_by([&] { plan_text(writer, "how"); }).code, ErrorCode::unsupported);
  EXPECT_EQ(sources(plan_text(writer, "how\nyou", {}, Split::never)), (Strings{"how", "you"}));
}

TEST(TextPlan, UnknownLanguagesAreErrors) {
  EXPECT_EQ(raised_by([&] { plan_text(translator(), "how", {.from = "xx", .to = {}}); }).code,
            ErrorCode::invalid_argument);
}

TEST(TranslateText, IsTheTranslationsOfItsUnits) {
  const std::string text = "How are you? I am fine.\r\n\nthank you, they are going\n";
  const TranslateOptions options = quick_options();
  for (const Split split : {Split::never, Split::too_long, Split::always}) {
    const TextPlan plan = plan_text(translator(), text, {}, split);
    Strings translations;
    for (const Translation& one : translator().translate(sources(plan), options)) {
      translations.push_back(one.text());
    }
    EXPECT_EQ(translate_text(translator(), text, options, split), plan.join(translations));
  }
  EXPECT_EQ(translate_text(translator(), "how are you", options),
            translator().translate(Strings{"how are you"}, options).front().text());
  EXPECT_EQ(translate_text(translator(), "\n\n", options), "\n\n");
}

TEST(TranslateText, NamesTheLineThatCannotBeUsed) {
  const auto error = raised_by([&] {
    (void)translate_text(translator(), "How. Are.\n\nyou\xFF", quick_options(), Split::always);
  });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_NE(error.text.find("line 3: "), std::string::npos) << error.text;
  TranslateOptions skip = quick_options();
  skip.bad_lines = BadLine::skip;
  EXPECT_EQ(translate_text(translator(), "\xFF\n", skip), "\n");
}

std::string random_text() {
  static const std::u32string letters = U"aehowyu.,?! \n\r\t。、क।é\u0301\u3000";
  const auto picks =
      *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, letters.size()));
  std::u32string text;
  for (const size_t pick : picks) text.push_back(letters[pick]);
  return encode_utf8(text);
}

RC_GTEST_PROP(TextPlan, LosesNothingAndGainsNoLine, ()) {
  const std::string text = random_text();
  const auto split = *rc::gen::element(Split::never, Split::too_long, Split::always);
  static const Translator german = into("de", "hi"), japanese = into("ja", "hi");
  TextPlan plan = plan_text(german, text, {}, split);
  // But for the blanks that are added where the source has none.
  const auto without_blanks = [](std::string s) {
    std::erase(s, ' ');
    for (size_t at = s.find("\u3000"); at != s.npos; at = s.find("\u3000")) s.erase(at, 3);
    return s;
  };
  RC_ASSERT(without_blanks(copied(plan)) == without_blanks(text));
  for (const TextPlan& one : {plan, plan_text(japanese, text, {}, split)}) {
    const auto translations = *rc::gen::container<Strings>(
        one.parts.size(), rc::gen::element<std::string>("", "x", "x y", "\n", "\r\n", "。", "\r"));
    const std::string joined = one.join(translations);
    for (const char end : {'\n', '\r'}) {
      RC_ASSERT(std::count(joined.begin(), joined.end(), end) ==
                std::count(text.begin(), text.end(), end));
    }
    // Fewer translations are the beginning.
    std::string last;
    for (size_t i = 0; i <= translations.size(); ++i) {
      const std::string some = one.join(std::span(translations).first(i));
      RC_ASSERT(some.starts_with(last));
      last = some;
    }
    RC_ASSERT(last == joined);
    int64_t line = 0;
    for (const TextPart& part : one.parts) {
      RC_ASSERT(part.line >= line);
      line = part.line;
      RC_ASSERT(part.source.find_first_of("\r\n") == std::string::npos);
      RC_ASSERT(split == Split::never || without_outer_blanks(part.source) == part.source);
    }
  }
}

}  // namespace
}  // namespace tril::text_plan_test
