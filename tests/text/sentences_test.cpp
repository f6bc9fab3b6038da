// Sentences: every rule by examples; and whatever the text, nothing is lost and no character cut.
#include "tril/text/sentences.h"

#include <chrono>
#include <string>

#include "support/property.h"
#include "tril/text/pipeline/characters.h"
#include "tril/text/unicode.h"

namespace tril::sentences_test {
namespace {

std::string joined(const CutText& cut) {
  std::string text;
  for (const TextUnit& unit : cut.units) text.append(unit.before).append(unit.sentence);
  return text.append(cut.after);
}

// The text with a bar wherever it is cut.
std::string barred(std::string_view text, std::string_view language = {}) {
  std::string shown;
  for (const TextUnit& unit : cut_sentences(text, language).units) {
    if (!shown.empty()) shown += '|';
    shown += unit.sentence;
  }
  return shown;
}

// `expected` with its bars is how the text without them, but with blanks, is cut.
void expect_cut(const std::string& expected, std::string_view language = {},
                const std::string& between = " ") {
  std::string text = expected;
  for (size_t at = text.find('|'); at != text.npos; at = text.find('|')) {
    text.replace(at, 1, between);
  }
  EXPECT_EQ(barred(text, language), expected);
}

TEST(Sentences, EndWithMarksBeforeBlanks) {
  expect_cut("How are you?|I am fine!|Good.|Wait…|What?!|Yes...|No.");
  expect_cut("One sentence without an end");
  EXPECT_EQ(barred(""), "");
  EXPECT_EQ(barred(" \t "), "");
  expect_cut("Well... not yet.|Now.");
  expect_cut("Great.|😀 Thanks!|👨‍👩‍👧 Bye.");
}

TEST(Sentences, TakeClosingMarksAlong) {
  expect_cut("\"Yes.\"|She left.|(No way.)|Fine.|“Go!”|He went.");
  expect_cut("\"Really?\" he asked.|\"Stop!\" she cried.|Then it was quiet.");
  expect_cut("„Was?“ fragte er.|„Ja.“|»Gut.«|Dann ging er.", "de");
  expect_cut("« Bonjour ! » dit-il.|« Ça va ? »|Oui.", "fr");
  expect_cut("¿Qué?|¡Hola!|¿Cómo estás?", "es");
}

TEST(Sentences, AreNotEndedByAbbreviations) {
  expect_cut(
      "Dr. Smith met J. R. R. Tolkien at 3 p.m. on Jan. 5.|They spoke, e.g. of U.S. Policy.");
  expect_cut("Er kommt z. B. am Di. um 5 Uhr, d. h. bald, mit Hrn. Prof. Maier.|Nr. 5 lebt.", "de");
  expect_cut("Am 3. Oktober war es so.|Im Jahr 1990.|Das 21. Jahrhundert begann.", "de");
  expect_cut("Am 3. Oktober war es so.|Sie ist 12.|Er ist 14.");
  expect_cut("She is 12.|He is 14.|See No. 5.|No.|I will not.", "en");
  expect_cut("1. First things.|2. Second things.");
  expect_cut("Он живёт на ул. Ленина, д. 5.|А. С. Пушкин родился в 1799 г. в Москве.|Да!", "ru");
  expect_cut("डॉ. शर्मा आए हैं।|तुम कहाँ हो?", "hi");
}

TEST(Sentences, AreNotEndedWithinWords) {
  expect_cut("It is 3.14 or 1.000,5.|See tril.h and https://example.org/a.b?c=d.|It is good.");
  expect_cut("Yahoo! is a name.|Visit example.org.|Done");
}

TEST(Sentences, OfPeopleWhoWriteNoCapitals) {
  expect_cut("i went home.|then i slept.|what?|nothing, e.g. this one.");
  expect_cut("I went to the shop. and back.");
}

TEST(Sentences, OfOtherScripts) {
  expect_cut("मैं घर जा रहा हूँ।|अच्छा।|श्लोक है॥१॥|अगला।", "hi");
  expect_cut("अच्छा।|चलो।|हाँ॥|फिर।", "hi", "");
  expect_cut("これは本です。|「はい。」と言った。|「行く。」|「そうか。」", "ja", "");
  expect_cut("你好。|你去哪儿？|“我回家。”他说。|好！？|３．１４！", "zh", "");
  expect_cut("كيف حالك؟|أنا بخير.|شكرا!", "ar");
  expect_cut("یہ ایک کتاب ہے۔|آپ کیسے ہیں؟", "ur");
  expect_cut("Τι κάνεις;|Είμαι καλά.|Ναι!", "el");
  expect_cut("One; Two.");
  expect_cut("Τι κάνεις;|Καλά.");
  expect_cut("The mean μ; The spread σ; Both.", "en");
  expect_cut("Բարեւ։|Լավ։", "hy");
  expect_cut("ሰላም ነው።|እንዴት ነህ?", "am");
  expect_cut("សួស្តី។|បាទ។ល។", "km");
  expect_cut("မင်္ဂလာပါ။|နေကောင်းလား။", "my", "");
}

// Many people write a dot where a danda would be right, after words of one written character.
TEST(Sentences, OfIndicScriptsWithDots) {
  expect_cut("यह अच्छा है.|वह घर गया था.|मैं जा रहा हूँ.|तुम कहाँ हो?", "hi");
  expect_cut("यह अच्छा है.|वे आए थे.|ये बच्चे हैं.|हम थीं.|ठीक");
  expect_cut("तो तुम हो.|नहीं.|हाँ.|चलो.", "bho");
  expect_cut("તે સારું છે.|હું ઘરે જાઉં છું.|તમે ક્યાં છો?|હા.|ના.", "gu");
  expect_cut("ਉਹ ਘਰ ਹੈ.|ਉਹ ਗਿਆ ਸੀ.|ਚਲੋ.", "pa");
  expect_cut("म घर जान्छु.|यो राम्रो छ.|हो.|आऊ.", "ne");
  expect_cut("আমি যাব না.|সে কি?|চলো.", "bn");
  expect_cut("네.|알겠습니다.|나야 나.|그래.", "ko");
  // Initials are no such words, and not every word of one language is one of another.
  expect_cut("ए. पी. जे. अब्दुल कलाम आए.|जी. डी. बिड़ला नहीं.", "hi");
  expect_cut("ना. सी. फडके आले.|हो.|चला.", "mr");
  expect_cut("А. С. Пушкин.", "ru");
}

// Without capitals nothing shows whether a sentence goes on, so it is taken to.
TEST(Sentences, OfScriptsWithoutCapitalsGoOn) {
  expect_cut("मैं... नहीं जाऊँगा।|ठीक… है।", "hi");
  expect_cut("वह आया (सच में!) और चला गया।|\"क्या?\" उसने पूछा।|“मैं ठीक हूँ।” उसने कहा।", "hi");
  expect_cut("“मैं ठीक हूँ।”|“और तुम?”|(हाँ!)|(नहीं!) वह गया।", "hi");
  expect_cut("قال (حقا!) ثم ذهب.|لا... لا أعرف!|نعم.", "ar");
  expect_cut("אני... לא יודע.|\"כן!\" אמר.|טוב.", "he");
  expect_cut("네... 알겠습니다.|\"왜?\" 그가 물었다.", "ko");
  expect_cut("「はい。」 と言った。|「行く。」|「そうか。」", "ja");
  // What follows has capitals, or is no letter.
  expect_cut("मैं...|OK.|ठीक...|5 बजे।", "hi");
}

TEST(Sentences, EmptyLinesEndThem) {
  EXPECT_EQ(barred("A heading\n\nThe text goes on"), "A heading|The text goes on");
  EXPECT_EQ(barred("A heading\r\n \r\nThe text"), "A heading|The text");
  EXPECT_EQ(barred("wrapped\nat a margin"), "wrapped\nat a margin");
}

TEST(Sentences, KeepWhiteSpaceApart) {
  const CutText cut = cut_sentences("  One.\t\u3000Two.\n");
  ASSERT_EQ(cut.units.size(), 2u);
  EXPECT_EQ(cut.units[0].before, "  ");
  EXPECT_EQ(cut.units[1].before, "\t\u3000");
  EXPECT_EQ(cut.after, "\n");
}

TEST(Sentences, OuterBlanksAreThoseThatNoUnitHas) {
  EXPECT_EQ(without_outer_blanks(" \t\u3000a b\u00A0\r\n"), "a b");
  EXPECT_EQ(without_outer_blanks(" \r\n \u2029"), "");
  EXPECT_EQ(without_outer_blanks(""), "");
  EXPECT_EQ(without_outer_blanks("  \u0301a"), " \u0301a");
}

std::vector<CutPlaceKind> kinds(std::string_view text) {
  std::vector<CutPlaceKind> found;
  for (const CutPlace& place : cut_places(text)) found.push_back(place.kind);
  return found;
}

TEST(CutPlaces, KnowClausesAndBlanks) {
  using enum CutPlaceKind;
  EXPECT_EQ(kinds("a, b c"), (std::vector{cluster, clause, blank}));
  EXPECT_EQ(kinds("a,b"), (std::vector{cluster, cluster}));
  EXPECT_EQ(kinds(" a "), std::vector<CutPlaceKind>{});
  EXPECT_EQ(kinds("你，好吗。"), (std::vector{cluster, clause, bare, cluster}));
  EXPECT_EQ(kinds("a\u00A0b"), (std::vector{cluster})) << "not to be broken";
  const auto places = cut_places("one,  two");
  ASSERT_EQ(places.size(), 7u - 1);
  EXPECT_EQ(places[3].end, 4u);
  EXPECT_EQ(places[3].next, 6u);
}

// Random text of all that the rules look at.
const std::u32string kAlphabet =
    U"aB.. !?…,;:\"”“»()  "
    U"\n\r\u00A0\u3000\u2029éß1２٣।॥؟۔。！？「」」、中の한กहि\u0301\u200D👨👩🇩🇪\U0001F3FD"
    U"\u1100\u1161ΑγДж";

std::string random_text() {
  const auto picks =
      *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, kAlphabet.size()));
  std::u32string text;
  for (const size_t pick : picks) text.push_back(kAlphabet[pick]);
  return encode_utf8(text);
}

// The first byte of each grapheme cluster.
std::vector<bool> beginnings(std::string_view text) {
  std::vector<bool> begins(text.size() + 1, false);
  for (size_t at = 0; at < text.size(); at += pipeline::cluster_bytes(text.substr(at))) {
    begins[at] = true;
  }
  begins[text.size()] = true;
  return begins;
}

RC_GTEST_PROP(Sentences, LoseNothingAndCutNoCharacter, ()) {
  const std::string text = random_text();
  const std::string language = *rc::gen::element<std::string>("", "en", "de", "zh", "el", "hi");
  const CutText cut = cut_sentences(text, language);
  RC_ASSERT(joined(cut) == text);
  const auto begins = beginnings(text);
  const auto at = [&](std::string_view view) {
    return static_cast<size_t>(view.data() - text.data());
  };
  for (const TextUnit& unit : cut.units) {
    RC_ASSERT(!unit.sentence.empty());
    RC_ASSERT(begins[at(unit.sentence)] && begins[at(unit.sentence) + unit.sentence.size()]);
    RC_ASSERT(strip(unit.before).empty());
  }
  RC_ASSERT(strip(cut.after).empty());
  const std::string_view inner = without_outer_blanks(text);
  RC_ASSERT(inner.empty() == cut.units.empty());
  if (inner.empty()) return;
  RC_ASSERT(inner.data() == cut.units.front().sentence.data());
  RC_ASSERT(inner.data() + inner.size() == text.data() + text.size() - cut.after.size());
}

RC_GTEST_PROP(CutPlaces, AreBetweenCharactersWithBlanksBetween, ()) {
  const std::string text = random_text();
  const auto begins = beginnings(text);
  size_t last = 0;
  for (const CutPlace& place : cut_places(text)) {
    RC_ASSERT(last < place.end && place.end <= place.next && place.next < text.size());
    RC_ASSERT(begins[place.end] && begins[place.next]);
    RC_ASSERT(strip(std::string_view(text).substr(place.end, place.next - place.end)).empty());
    last = place.end;
  }
}

// A text that makes every rule look around again and again takes no more time per byte.
TEST(Sentences, TakeLinearTime) {
  const auto seconds = [](const std::string& unit, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += unit;
    const auto begin = std::chrono::steady_clock::now();
    cut_sentences(text, "de");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (const std::string unit :
       {".", ". ", " ", ".)", "a.", "3. ", ".\"", "(", "🇩🇪", "👨\u200D", "। ", "。"}) {
    const double small = seconds(unit, 2'000);
    const double large = seconds(unit, 64'000);
    EXPECT_LT(large, 32 * 8 * small + 0.05) << unit;
  }
}

}  // namespace
}  // namespace tril::sentences_test
