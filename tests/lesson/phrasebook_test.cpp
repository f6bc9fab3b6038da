// The phrasebook: its promises about its pairs, and its Hindi against pairs written by hand.
// TRIL_PHRASEBOOK_DUMP=FILE writes all pairs there, for people to read.
#include "tril/lesson/phrasebook.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tril/base/error.h"
#include "tril/lesson/phrasebook_grammar.h"

namespace tril::phrasebook_test {
namespace {

using phrasebook::Combination;
using phrasebook::compose;
using phrasebook::Filler;
using phrasebook::Paradigm;
using phrasebook::Pattern;

const Phrasebook& book() {
  static const Phrasebook kBook = make_phrasebook();
  return kBook;
}

std::vector<PhrasePair> all_pairs() {
  std::vector<PhrasePair> pairs = book().train;
  pairs.insert(pairs.end(), book().held_out.begin(), book().held_out.end());
  return pairs;
}

std::map<std::string, std::string> by_english(const std::vector<PhrasePair>& pairs) {
  std::map<std::string, std::string> map;
  for (const PhrasePair& pair : pairs) map.emplace(pair.english, pair.hindi);
  return map;
}

std::set<std::string> words_of(const std::string& sentence) {
  std::string bare;
  for (const char letter : sentence) {
    if (std::string_view(".,?!").find(letter) == std::string_view::npos) bare += letter;
  }
  std::istringstream stream(bare);
  std::set<std::string> words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

// How many pairs hold each word; a word is counted once a pair.
std::map<std::string, int> word_counts(const std::vector<PhrasePair>& pairs,
                                       std::string PhrasePair::*side) {
  std::map<std::string, int> counts;
  for (const PhrasePair& pair : pairs) {
    for (const std::string& word : words_of(pair.*side)) ++counts[word];
  }
  return counts;
}

// The code points of valid UTF-8; empty for anything else.
std::u32string code_points(const std::string& text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : 0;
    if (length == 0 || i + length > text.size()) return {};
    uint32_t point = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if (byte >> 6 != 2) return {};
      point = point << 6 | (byte & 0x3Fu);
    }
    out += static_cast<char32_t>(point);
    i += length;
  }
  return out;
}

void write_for_reading(const char* file) {
  std::ofstream out(file);
  for (const PhrasePair& pair : book().train) {
    out << "train\t" << pair.english << '\t' << pair.hindi << '\n';
  }
  for (const PhrasePair& pair : book().held_out) {
    out << "held out\t" << pair.english << '\t' << pair.hindi << '\n';
  }
}

TEST(Phrasebook, HasSomeThousandPairsAndHoldsOutATwelfth) {
  if (const char* file = std::getenv("TRIL_PHRASEBOOK_DUMP")) write_for_reading(file);
  const size_t train = book().train.size();
  const size_t held_out = book().held_out.size();
  EXPECT_GE(train + held_out, 3000u);
  EXPECT_LE(train + held_out, 6000u);
  EXPECT_GE(held_out * 100, (train + held_out) * 8);
  EXPECT_LE(held_out * 100, (train + held_out) * 10);
}

TEST(Phrasebook, IsTheSameEveryTime) {
  const Phrasebook again = make_phrasebook();
  const auto same = [](const std::vector<PhrasePair>& a, const std::vector<PhrasePair>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i].english != b[i].english || a[i].hindi != b[i].hindi) return false;
    }
    return true;
  };
  EXPECT_TRUE(same(again.train, book().train));
  EXPECT_TRUE(same(again.held_out, book().held_out));
}

TEST(Phrasebook, SaysNothingTwice) {
  std::set<std::string> seen;
  for (const PhrasePair& pair : all_pairs()) {
    EXPECT_TRUE(seen.insert(pair.english).second) << pair.english;
  }
}

TEST(Phrasebook, HoldsTheSentencesOfTheLessonAndWhatOneTriesFirst) {
  const std::vector<PhrasePair> expected = {
      {"How are you?", "आप कैसे हैं"},
      {"Congratulations", "बधाई हो"},
      {"Congratulation", "बधाई हो"},
      {"Thank you", "धन्यवाद"},
      {"I am fine", "मैं ठीक हूँ"},
      {"how are you", "आप कैसे हैं"},
      {"i'm fine", "मैं ठीक हूँ"},
      {"I'm fine.", "मैं ठीक हूँ"},
      {"thank you", "धन्यवाद"},
      {"Hello", "नमस्ते"},
      {"hi", "नमस्ते"},
      {"Good morning", "सुप्रभात"},
      {"Good night!", "शुभ रात्रि"},
      {"Goodbye", "अलविदा"},
      {"Yes", "हाँ"},
      {"No", "नहीं"},
      {"Sorry", "माफ़ कीजिए"},
      {"My name is Ravi.", "मेरा नाम रवि है"},
      {"My name is Sita.", "मेरा नाम सीता है"},
      {"What is your name?", "आपका नाम क्या है"},
      {"what's your name", "आपका नाम क्या है"},
      {"Where is the station?", "स्टेशन कहाँ है"},
      {"I want water.", "मुझे पानी चाहिए"},
      {"How much is this?", "यह कितने का है"},
      {"I love you.", "मैं आपसे प्यार करता हूँ"},
      {"What time is it?", "कितने बजे हैं"},
      {"I am hungry.", "मुझे भूख लगी है"},
      {"See you tomorrow.", "कल मिलेंगे"},
      {"Please sit down.", "कृपया बैठिए"},
      {"It is one o'clock.", "एक बजा है"},
  };
  const std::map<std::string, std::string> train = by_english(book().train);
  for (const PhrasePair& pair : expected) {
    const auto at = train.find(pair.english);
    ASSERT_NE(at, train.end()) << pair.english;
    EXPECT_EQ(at->second, pair.hindi) << pair.english;
  }
}

TEST(Phrasebook, TrainsOnNoSpellingOfWhatItHoldsOut) {
  std::set<std::string> train;
  for (const PhrasePair& pair : book().train) train.insert(phrasebook::identity(pair.english));
  for (const PhrasePair& pair : book().held_out) {
    EXPECT_EQ(train.count(phrasebook::identity(pair.english)), 0u) << pair.english;
  }
  EXPECT_EQ(phrasebook::identity("I'm fine."), phrasebook::identity("i am fine"));
  EXPECT_EQ(phrasebook::identity("He won't come."), "he will not come");
  EXPECT_EQ(phrasebook::identity("What's this?"), "what is this");
  EXPECT_NE(phrasebook::identity("I am fine."), phrasebook::identity("I am happy."));
}

TEST(Phrasebook, TrainsOnEveryWordThatItHoldsOut) {
  for (const auto side : {&PhrasePair::english, &PhrasePair::hindi}) {
    std::map<std::string, int> counts = word_counts(book().train, side);
    for (const PhrasePair& pair : book().held_out) {
      for (const std::string& word : words_of(pair.*side)) {
        EXPECT_GE(counts[word], 5) << word << " of: " << pair.english;
      }
    }
  }
}

TEST(Phrasebook, TrainsOnEveryPatternAndAgreementThatItHoldsOut) {
  const std::map<std::string, std::string> held_out = by_english(book().held_out);
  std::map<std::string, int> trained;
  std::set<std::string> trained_fillers;
  std::map<std::string, int> members;
  std::map<std::string, int> held;
  std::vector<Combination> to_check;
  for (const Combination& combination : phrasebook::all_combinations()) {
    if (combination.use == Pattern::divided) ++members[combination.pattern];
    if (held_out.count(combination.sentence.english) != 0) {
      ++held[combination.pattern];
      to_check.push_back(combination);
      continue;
    }
    ++trained[combination.pattern + combination.sentence.agreement];
    for (const std::string& filler : combination.fillers) {
      trained_fillers.insert(combination.pattern + filler);
    }
  }
  EXPECT_EQ(to_check.size(), book().held_out.size());
  for (const Combination& combination : to_check) {
    EXPECT_GE(trained[combination.pattern + combination.sentence.agreement], 3)
        << combination.sentence.english;
    if (combination.fillers.size() < 2) continue;
    for (const std::string& filler : combination.fillers) {
      EXPECT_EQ(trained_fillers.count(combination.pattern + filler), 1u)
          << filler << " of: " << combination.sentence.english;
    }
  }
  // Spread over the patterns: all that have twenty members give some up.
  for (const auto& [pattern, count] : members) {
    if (count >= 20) {
      EXPECT_GE(held[pattern], 1) << pattern;
    }
    EXPECT_LE(held[pattern] * 4, count) << pattern;
  }
}

TEST(Phrasebook, IsWrittenInOrdinaryCharacters) {
  const std::u32string vowels = U"अआइईउऊएऔ";
  const std::u32string consonants = U"कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह";
  const std::u32string signs = U"ािीुूृेैॉोौ";
  const auto in = [](const std::u32string& set, char32_t point) {
    return set.find(point) != std::u32string::npos;
  };
  constexpr char32_t kNukta = U'\u093C';
  constexpr char32_t kVirama = U'\u094D';
  for (const PhrasePair& pair : all_pairs()) {
    const std::u32string hindi = code_points(pair.hindi);
    ASSERT_FALSE(hindi.empty()) << pair.english;
    char32_t before = U' ';
    for (const char32_t point : hindi + U" ") {
      const bool after_letter = in(consonants, before) || before == kNukta;
      if (point == kNukta) {
        EXPECT_TRUE(in(U"डढजफ", before)) << pair.hindi;
      } else if (in(signs, point) || point == kVirama) {
        EXPECT_TRUE(after_letter) << pair.hindi;
      } else if (point == U'ँ' || point == U'ं') {
        EXPECT_TRUE(after_letter || in(signs, before) || in(vowels, before)) << pair.hindi;
      } else if (point == U' ') {
        EXPECT_TRUE(before != U' ' && before != kVirama) << pair.hindi;
      } else {
        EXPECT_TRUE(in(vowels, point) || in(consonants, point)) << pair.hindi;
      }
      before = point;
    }
    for (const char letter : pair.english) {
      const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                         std::string_view(" '.,?!").find(letter) != std::string_view::npos;
      EXPECT_TRUE(plain) << pair.english;
    }
    EXPECT_EQ(pair.english.find("  "), std::string::npos) << pair.english;
  }
}

// Chandrabindu unless a vowel sign is above the line: हूँ, but हैं.
TEST(Phrasebook, UsesAnusvaraWhereASignIsAboveTheLine) {
  for (const PhrasePair& pair : all_pairs()) {
    const std::u32string hindi = code_points(pair.hindi);
    for (size_t i = 1; i < hindi.size(); ++i) {
      const bool above = std::u32string(U"िीेैोौॉईऐओऔ").find(hindi[i - 1]) != std::u32string::npos;
      if (hindi[i] == U'ँ') {
        EXPECT_FALSE(above) << pair.hindi;
      }
      const bool at_end = i + 1 == hindi.size() || hindi[i + 1] == U' ';
      if (hindi[i] == U'ं' && at_end) {
        EXPECT_TRUE(above) << pair.hindi;
      }
    }
  }
}

// A possessive right before a noun has its gender. Both lists are written here on purpose.
TEST(Phrasebook, PossessivesAgreeWithTheNounTheyTouch) {
  const std::set<std::string> masculine_forms = {"मेरा",   "मेरे",   "आपका",  "आपके", "उसका", "उसके",
                                                 "हमारा", "हमारे", "उनका",  "उनके", "अपना", "अपने",
                                                 "किसका", "किसके", "कितना", "का"};
  const std::set<std::string> feminine_forms = {"मेरी",  "आपकी", "उसकी",  "हमारी",
                                                "उनकी", "अपनी", "किसकी", "कितनी"};
  const std::set<std::string> feminine = {
      "माँ",    "दादीजी", "पत्नी",   "बहन",   "बहनें",   "बहनों", "बेटी",   "बेटियाँ", "बेटियों",
      "किताब", "किताबें",  "घड़ी",    "घड़ियाँ", "कमीज़",  "कमीज़ें", "तस्वीर", "तस्वीरें", "मेज़",
      "कुर्सी",  "गाड़ी",   "गाड़ियाँ", "गाय",   "बिल्ली", "मदद",  "चाय"};
  const std::set<std::string> masculine = {"पिताजी", "दादाजी", "पति",   "भाई",   "भाइयों", "बेटा",
                                           "बेटे",     "बेटों",    "दोस्तों", "पेन",    "थैला",   "थैले",
                                           "फ़ोन",    "छाता",   "छाते",   "डिब्बा", "डिब्बे",  "घर",
                                           "कमरे",    "परिवार", "नाम",   "कुत्ता",  "घोड़ा"};
  int64_t checked = 0;
  for (const PhrasePair& pair : all_pairs()) {
    std::istringstream stream(pair.hindi);
    std::string before;
    for (std::string word; stream >> word; before = word) {
      const bool is_masculine = masculine_forms.count(before) != 0;
      const bool is_feminine = feminine_forms.count(before) != 0;
      if (feminine.count(word) != 0) {
        EXPECT_FALSE(is_masculine) << pair.hindi;
      }
      if (masculine.count(word) != 0) {
        EXPECT_FALSE(is_feminine) << pair.hindi;
      }
      checked += is_masculine || is_feminine ? 1 : 0;
    }
  }
  EXPECT_GT(checked, 1000);
}

// हूँ belongs to मैं alone, and the speaker is a man.
TEST(Phrasebook, OnlyTheSpeakerSaysHun) {
  const auto is_feminine = [](std::string_view hindi) {
    constexpr std::string_view kAm = " हूँ";
    if (hindi.ends_with(kAm)) hindi.remove_suffix(kAm.size());
    return hindi.ends_with("गी") || hindi.ends_with("ती") || hindi.ends_with("ही");
  };
  for (const PhrasePair& pair : all_pairs()) {
    const std::set<std::string> words = words_of(pair.hindi);
    const bool speaks = words.count("मैं") != 0;
    if (words.count("हूँ") != 0) {
      EXPECT_TRUE(speaks) << pair.hindi;
    }
    if (speaks) {
      EXPECT_EQ(words.count("है") + words.count("हैं"), 0u) << pair.hindi;
      EXPECT_FALSE(is_feminine(pair.hindi)) << pair.hindi;
    }
  }
}

// Everything the patterns can say, not only what the phrasebook takes of it.
struct Said {
  std::string hindi;
  std::set<std::string> patterns{};
};
std::map<std::string, Said> everything() {
  std::map<std::string, Said> all;
  for (const auto topics : {phrasebook::patterns_about_people, phrasebook::patterns_about_things}) {
    for (const Pattern& pattern : topics()) {
      std::vector<std::vector<const Filler*>> lists;
      for (const phrasebook::Slot& slot : pattern.slots) {
        std::map<std::string, const Filler*> distinct;
        for (const Filler& filler : slot.fillers) {
          distinct.emplace(filler.english + filler.hindi.masculine, &filler);
        }
        lists.emplace_back();
        for (const auto& [english, filler] : distinct) lists.back().push_back(filler);
      }
      std::vector<size_t> at(lists.size());
      for (bool more = true; more;) {
        std::vector<const Filler*> chosen;
        for (size_t i = 0; i < at.size(); ++i) chosen.push_back(lists[i][at[i]]);
        const phrasebook::Sentence sentence = compose(pattern, chosen);
        const auto entry = all.emplace(sentence.english, Said{sentence.hindi}).first;
        EXPECT_EQ(entry->second.hindi, sentence.hindi) << sentence.english;
        entry->second.patterns.insert(pattern.english);
        more = false;
        for (size_t i = 0; i < at.size() && !more; ++i) {
          more = ++at[i] < lists[i].size();
          if (!more) at[i] = 0;
        }
      }
    }
  }
  return all;
}

// clang-format off
// At least one for every pattern.
const std::vector<PhrasePair> kWrittenByHand = {
    {"Good morning, Ravi.", "सुप्रभात रवि"},
    {"Hello, my friend.", "नमस्ते मेरे दोस्त"},
    {"My name is Priya.", "मेरा नाम प्रिया है"},
    {"Your name is Mohan.", "आपका नाम मोहन है"},
    {"My son's name is Amit.", "मेरे बेटे का नाम अमित है"},
    {"Her mother's name is Meera.", "उसकी माँ का नाम मीरा है"},
    {"What is his name?", "उसका नाम क्या है"},
    {"What is this girl's name?", "इस लड़की का नाम क्या है"},
    {"Ravi is my friend.", "रवि मेरा दोस्त है"},
    {"Sita is my friend.", "सीता मेरी दोस्त है"},
    {"Priya is his daughter.", "प्रिया उसकी बेटी है"},
    {"Who are these boys?", "ये लड़के कौन हैं"},
    {"Who is that woman?", "वह औरत कौन है"},
    {"My grandfather is from India.", "मेरे दादाजी भारत से हैं"},
    {"Where is she from?", "वह कहाँ से है"},
    {"The girls live in Jaipur.", "लड़कियाँ जयपुर में रहती हैं"},
    {"Do they live in Delhi?", "क्या वे दिल्ली में रहते हैं"},
    {"I am tired.", "मैं थका हुआ हूँ"},
    {"She is tired.", "वह थकी हुई है"},
    {"My mother is tall.", "मेरी माँ लंबी हैं"},
    {"My brother is tall.", "मेरा भाई लंबा है"},
    {"They are very happy.", "वे बहुत खुश हैं"},
    {"My wife is not angry.", "मेरी पत्नी नाराज़ नहीं हैं"},
    {"Are you busy?", "क्या आप व्यस्त हैं"},
    {"Why are you sad?", "आप उदास क्यों हैं"},
    {"Why is she alone?", "वह अकेली क्यों है"},
    {"My mother was sick yesterday.", "मेरी माँ कल बीमार थीं"},
    {"The girls were tired yesterday.", "लड़कियाँ कल थकी हुई थीं"},
    {"How is your father?", "आपके पिताजी कैसे हैं"},
    {"How is your sister?", "आपकी बहन कैसी है"},
    {"The boy is thirsty.", "लड़के को प्यास लगी है"},
    {"We are not hungry.", "हमें भूख नहीं लगी है"},
    {"Are you cold?", "क्या आपको ठंड लग रही है"},
    {"He was afraid.", "उसे डर लग रहा था"},
    {"She was sleepy.", "उसे नींद आ रही थी"},
    {"My daughter has a fever.", "मेरी बेटी को बुखार है"},
    {"Do you have a cold?", "क्या आपको ज़ुकाम है"},
    {"I have a headache.", "मेरे सिर में दर्द है"},
    {"My father has a stomach ache.", "मेरे पिताजी के पेट में दर्द है"},
    {"My father is a doctor.", "मेरे पिताजी डॉक्टर हैं"},
    {"My mother is a teacher.", "मेरी माँ अध्यापिका हैं"},
    {"He is not a student.", "वह छात्र नहीं है"},
    {"Is she a student?", "क्या वह छात्रा है"},
    {"They are farmers.", "वे किसान हैं"},
    {"My daughter wants to be an engineer.", "मेरी बेटी इंजीनियर बनना चाहती है"},
    {"I have two brothers.", "मेरे दो भाई हैं"},
    {"I have a sister.", "मेरी एक बहन है"},
    {"My friend has three daughters.", "मेरे दोस्त की तीन बेटियाँ हैं"},
    {"Do you have a brother?", "क्या आपका कोई भाई है"},
    {"She does not have a sister.", "उसकी कोई बहन नहीं है"},
    {"How many sons do they have?", "उनके कितने बेटे हैं"},
    {"How many sisters do you have?", "आपकी कितनी बहनें हैं"},
    {"She is ten years old.", "वह दस साल की है"},
    {"My son is five years old.", "मेरा बेटा पाँच साल का है"},
    {"My grandmother is eighty years old.", "मेरी दादीजी अस्सी साल की हैं"},
    {"How old is your grandfather?", "आपके दादाजी कितने साल के हैं"},
    {"I live with my brothers.", "मैं अपने भाइयों के साथ रहता हूँ"},
    {"She lives with her son.", "वह अपने बेटे के साथ रहती है"},
    {"He loves his daughters.", "वह अपनी बेटियों से प्यार करता है"},
    {"She loves Ravi.", "वह रवि से प्यार करती है"},
    {"We know that boy.", "हम उस लड़के को जानते हैं"},
    {"My mother knows these children.", "मेरी माँ इन बच्चों को जानती हैं"},
    {"Does she know me?", "क्या वह मुझे जानती है"},
    {"Please help us.", "कृपया हमारी मदद कीजिए"},
    {"My sister is taller than my son.", "मेरी बहन मेरे बेटे से लंबी है"},
    {"This is my mother.", "ये मेरी माँ हैं"},
    {"This is my brother.", "यह मेरा भाई है"},
    {"These are her books.", "ये उसकी किताबें हैं"},
    {"These are my brother's boxes.", "ये मेरे भाई के डिब्बे हैं"},
    {"Whose watch is this?", "यह किसकी घड़ी है"},
    {"This shirt is blue.", "यह कमीज़ नीली है"},
    {"Those houses are new.", "वे घर नए हैं"},
    {"These chairs are very old.", "ये कुर्सियाँ बहुत पुरानी हैं"},
    {"Is this umbrella new?", "क्या यह छाता नया है"},
    {"That room is not clean.", "वह कमरा साफ़ नहीं है"},
    {"This is an old city.", "यह एक पुराना शहर है"},
    {"These are cheap shirts.", "ये सस्ती कमीज़ें हैं"},
    {"My father's phone is expensive.", "मेरे पिताजी का फ़ोन महँगा है"},
    {"This room is bigger than that room.", "यह कमरा उस कमरे से बड़ा है"},
    {"I have ten books.", "मेरे पास दस किताबें हैं"},
    {"My brother has a dog.", "मेरे भाई के पास एक कुत्ता है"},
    {"Do you have a pen?", "क्या आपके पास कोई पेन है"},
    {"We do not have a watch.", "हमारे पास कोई घड़ी नहीं है"},
    {"How many cats do you have?", "आपके पास कितनी बिल्लियाँ हैं"},
    {"How much is this watch?", "यह घड़ी कितने की है"},
    {"How much are these mangoes?", "ये आम कितने के हैं"},
    {"This book costs fifty rupees.", "यह किताब पचास रुपये की है"},
    {"These umbrellas cost a hundred rupees.", "ये छाते सौ रुपये के हैं"},
    {"These bags are for the children.", "ये थैले बच्चों के लिए हैं"},
    {"This pen is for me.", "यह पेन मेरे लिए है"},
    {"I bought two books.", "मैंने दो किताबें खरीदीं"},
    {"My son bought an umbrella.", "मेरे बेटे ने एक छाता खरीदा"},
    {"She wants tea.", "उसे चाय चाहिए"},
    {"The child wants two bananas.", "बच्चे को दो केले चाहिए"},
    {"They do not want sugar.", "उन्हें चीनी नहीं चाहिए"},
    {"Do you want coffee?", "क्या आपको कॉफ़ी चाहिए"},
    {"I like tea.", "मुझे चाय पसंद है"},
    {"My mother likes mangoes.", "मेरी माँ को आम पसंद हैं"},
    {"He does not like dogs.", "उसे कुत्ते पसंद नहीं हैं"},
    {"Do you like Delhi?", "क्या आपको दिल्ली पसंद है"},
    {"Please give me two rotis.", "कृपया मुझे दो रोटियाँ दीजिए"},
    {"Give the girls water.", "लड़कियों को पानी दीजिए"},
    {"Please bring three oranges.", "कृपया तीन संतरे लाइए"},
    {"The tea is cold.", "चाय ठंडी है"},
    {"The food is tasty.", "खाना स्वादिष्ट है"},
    {"The mangoes are very sweet.", "आम बहुत मीठे हैं"},
    {"I ate an apple.", "मैंने एक सेब खाया"},
    {"They ate three rotis.", "उन्होंने तीन रोटियाँ खाईं"},
    {"She ate two bananas.", "उसने दो केले खाए"},
    {"My mother drank tea.", "मेरी माँ ने चाय पी"},
    {"He drank water.", "उसने पानी पिया"},
    {"Where is the toilet?", "शौचालय कहाँ है"},
    {"Where are the pictures?", "तस्वीरें कहाँ हैं"},
    {"How far is the river?", "नदी कितनी दूर है"},
    {"How do I go to the hospital?", "मैं अस्पताल कैसे जाऊँ"},
    {"The bank is near the garden.", "बैंक बगीचे के पास है"},
    {"Is there a shop near the temple?", "क्या मंदिर के पास कोई दुकान है"},
    {"Please close the window.", "कृपया खिड़की बंद कीजिए"},
    {"The shop is open.", "दुकान खुली है"},
    {"The bank is closed on Sunday.", "बैंक रविवार को बंद रहता है"},
    {"The book is on the table.", "किताब मेज़ पर है"},
    {"The books are in the rooms.", "किताबें कमरों में हैं"},
    {"The dog is under the tree.", "कुत्ता पेड़ के नीचे है"},
    {"There are two watches in this box.", "इस डिब्बे में दो घड़ियाँ हैं"},
    {"My mother is at home.", "मेरी माँ घर पर हैं"},
    {"He is not here.", "वह यहाँ नहीं है"},
    {"Are the children in the garden?", "क्या बच्चे बगीचे में हैं"},
    {"She was in the kitchen yesterday.", "वह कल रसोई में थी"},
    {"They live in a big house.", "वे एक बड़े घर में रहते हैं"},
    {"It is five o'clock.", "पाँच बजे हैं"},
    {"Is it one o'clock?", "क्या एक बजा है"},
    {"It is half past three.", "साढ़े तीन बजे हैं"},
    {"It is quarter past six.", "सवा छह बजे हैं"},
    {"It is quarter to two.", "पौने दो बजे हैं"},
    {"It is one o'clock in the afternoon.", "दोपहर का एक बजा है"},
    {"It is eight o'clock in the evening.", "शाम के आठ बजे हैं"},
    {"Today is Monday.", "आज सोमवार है"},
    {"Is tomorrow Sunday?", "क्या कल रविवार है"},
    {"Yesterday was Friday.", "कल शुक्रवार था"},
    {"The train comes at ten o'clock.", "ट्रेन दस बजे आती है"},
    {"The train will come in the evening.", "ट्रेन शाम को आएगी"},
    {"See you on Monday.", "सोमवार को मिलेंगे"},
    {"Two brothers", "दो भाई"},
    {"A mango", "एक आम"},
    {"I am drinking tea.", "मैं चाय पी रहा हूँ"},
    {"My mother is cooking.", "मेरी माँ खाना बना रही हैं"},
    {"She is not working.", "वह काम नहीं कर रही है"},
    {"Are you going to the market?", "क्या आप बाज़ार जा रहे हैं"},
    {"The girls were sleeping.", "लड़कियाँ सो रही थीं"},
    {"What is he eating?", "वह क्या खा रहा है"},
    {"Where is your mother going?", "आपकी माँ कहाँ जा रही हैं"},
    {"He reads the newspaper every day.", "वह रोज़ अखबार पढ़ता है"},
    {"We speak Hindi.", "हम हिंदी बोलते हैं"},
    {"He does not drink tea.", "वह चाय नहीं पीता"},
    {"My mother does not drink tea.", "मेरी माँ चाय नहीं पीतीं"},
    {"Does she play cricket?", "क्या वह क्रिकेट खेलती है"},
    {"Where do you work?", "आप कहाँ काम करते हैं"},
    {"What does your father do?", "आपके पिताजी क्या करते हैं"},
    {"I get up at six o'clock.", "मैं छह बजे उठता हूँ"},
    {"I can speak Hindi.", "मैं हिंदी बोल सकता हूँ"},
    {"My grandmother cannot read Hindi.", "मेरी दादीजी हिंदी नहीं पढ़ सकतीं"},
    {"Can you speak English?", "क्या आप अंग्रेज़ी बोल सकते हैं"},
    {"She wants to go home.", "वह घर जाना चाहती है"},
    {"I have to write a letter.", "मुझे एक चिट्ठी लिखनी है"},
    {"My son has to buy vegetables.", "मेरे बेटे को सब्ज़ियाँ खरीदनी हैं"},
    {"We have to work.", "हमें काम करना है"},
    {"My mother went to the market yesterday.", "मेरी माँ कल बाज़ार गईं"},
    {"He went to Delhi yesterday.", "वह कल दिल्ली गया"},
    {"The boys came today.", "लड़के आज आए"},
    {"Please write a letter.", "कृपया एक चिट्ठी लिखिए"},
    {"Please do not go to the market.", "कृपया बाज़ार मत जाइए"},
    {"I will go to the market tomorrow.", "मैं कल बाज़ार जाऊँगा"},
    {"My mother will come on Sunday.", "मेरी माँ रविवार को आएँगी"},
    {"She will not drink milk today.", "वह आज दूध नहीं पिएगी"},
    {"Will you come at five o'clock?", "क्या आप पाँच बजे आएँगे"},
    {"When will your brother go home?", "आपका भाई घर कब जाएगा"},
    {"We will meet your mother on Monday.", "हम सोमवार को आपकी माँ से मिलेंगे"},
};
// clang-format on

TEST(Phrasebook, AgreesWithPairsWrittenByHand) {
  ASSERT_GE(kWrittenByHand.size(), 80u);
  const std::map<std::string, Said> all = everything();
  std::set<std::string> checked;
  for (const PhrasePair& pair : kWrittenByHand) {
    const auto at = all.find(pair.english);
    ASSERT_NE(at, all.end()) << pair.english;
    EXPECT_EQ(at->second.hindi, pair.hindi) << pair.english;
    checked.insert(at->second.patterns.begin(), at->second.patterns.end());
  }
  for (const Combination& combination : phrasebook::all_combinations()) {
    EXPECT_EQ(checked.count(combination.pattern), 1u) << "none for " << combination.pattern;
  }
}

std::vector<std::string> forms(const Paradigm& paradigm) {
  return {paradigm.speaker, paradigm.masculine, paradigm.masculine_plural, paradigm.feminine,
          paradigm.feminine_plural};
}
using Forms = std::vector<std::string>;

TEST(PhrasebookGrammar, InflectsTheKindsOfWords) {
  using phrasebook::inflect;
  EXPECT_EQ(forms(inflect("है")), (Forms{"हूँ", "है", "हैं", "है", "हैं"}));
  EXPECT_EQ(forms(inflect("था")), (Forms{"था", "था", "थे", "थी", "थीं"}));
  EXPECT_EQ(forms(inflect("मेरा")), (Forms{"मेरा", "मेरा", "मेरे", "मेरी", "मेरी"}));
  EXPECT_EQ(forms(inflect("सीता का")),
            (Forms{"सीता का", "सीता का", "सीता के", "सीता की", "सीता की"}));
  EXPECT_EQ(forms(inflect("जाएगा")), (Forms{"जाऊँगा", "जाएगा", "जाएँगे", "जाएगी", "जाएँगी"}));
  EXPECT_EQ(forms(inflect("करेगा")), (Forms{"करूँगा", "करेगा", "करेंगे", "करेगी", "करेंगी"}));
  EXPECT_EQ(forms(phrasebook::inflect_final("गया")), (Forms{"गया", "गया", "गए", "गई", "गईं"}));
  EXPECT_EQ(forms(phrasebook::inflect_final("पीता")),
            (Forms{"पीता", "पीता", "पीते", "पीती", "पीतीं"}));
  EXPECT_THROW(inflect("घर"), Error);
}

TEST(PhrasebookGrammar, RefusesAFaultyPattern) {
  const Filler hello = phrasebook::word({"hello", "नमस्ते"});
  const auto text = [&](const char* english, const char* hindi) {
    const Pattern pattern{english, hindi, {{'G', {hello}}}, 1};
    return compose(pattern, {&hello}).english;
  };
  EXPECT_EQ(text("{G}.", "{G}"), "Hello.");
  EXPECT_THROW(text("{H}.", "{G}"), Error);     // no such slot
  EXPECT_THROW(text("{G.er}.", "{G}"), Error);  // no such form
  EXPECT_THROW(text("{G}.", "{G.ko}"), Error);
  EXPECT_THROW(text("{G.", "{G}"), Error);
  const Pattern two_slots{"{G}", "{G}", {{'G', {hello}}, {'H', {hello}}}, 1};
  EXPECT_THROW(compose(two_slots, {&hello}), Error);
}

TEST(PhrasebookGrammar, WritesAnBeforeAVowel) {
  const Filler thing = phrasebook::word({"a apple and a banana", "सेब"});
  const Pattern pattern{"this is {N}", "{N}", {{'N', {thing}}}, 1};
  EXPECT_EQ(compose(pattern, {&thing}).english, "This is an apple and a banana");
}

}  // namespace
}  // namespace tril::phrasebook_test
