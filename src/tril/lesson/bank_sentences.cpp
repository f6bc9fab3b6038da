#include "tril/lesson/bank_sentences.h"

#include <iterator>
#include <string_view>

#include "tril/base/error.h"

namespace tril {
namespace {

enum class Gender { masculine, feminine };
enum class Count { one, mass };

struct Thing {
  const char* english;
  const char* hindi;
  BankSense sense;
  Gender gender = Gender::masculine;
  Count count = Count::one;
};

constexpr Thing kThings[] = {
    {"boat", "नाव", BankSense::water, Gender::feminine},
    {"fish", "मछली", BankSense::water, Gender::feminine},
    {"duck", "बतख", BankSense::water, Gender::feminine},
    {"fisherman", "मछुआरा", BankSense::water},
    {"frog", "मेंढक", BankSense::water},
    {"crocodile", "मगरमच्छ", BankSense::water},
    {"tortoise", "कछुआ", BankSense::water},
    {"swan", "हंस", BankSense::water},
    {"net", "जाल", BankSense::water},
    {"sand", "रेत", BankSense::water, Gender::feminine, Count::mass},
    {"river", "नदी", BankSense::water, Gender::feminine},
    {"lake", "झील", BankSense::water, Gender::feminine},
    {"sea", "समुद्र", BankSense::water},
    {"pond", "तालाब", BankSense::water},
    {"safe", "तिजोरी", BankSense::money, Gender::feminine},
    {"queue", "कतार", BankSense::money, Gender::feminine},
    {"clerk", "क्लर्क", BankSense::money},
    {"manager", "मैनेजर", BankSense::money},
    {"cashier", "कैशियर", BankSense::money},
    {"cheque", "चेक", BankSense::money},
    {"account", "खाता", BankSense::money},
    {"locker", "लॉकर", BankSense::money},
    {"money", "पैसा", BankSense::money, Gender::masculine, Count::mass},
    {"gold", "सोना", BankSense::money, Gender::masculine, Count::mass},
    {"loan", "कर्ज़", BankSense::money},
    {"savings", "बचत", BankSense::money, Gender::feminine, Count::mass},
};

// Kinds of bank. Hindi needs no extra word for them: किनारा and बैंक already differ.
struct Kind {
  const char* english;
  BankSense sense;
};
constexpr Kind kKinds[] = {
    {"river", BankSense::water}, {"lake", BankSense::water},  {"sea", BankSense::water},
    {"pond", BankSense::water},  {"money", BankSense::money}, {"savings", BankSense::money},
    {"gold", BankSense::money},  {"loan", BankSense::money},
};

// Adjectives in the masculine, which both किनारा and बैंक are.
struct Adjective {
  const char* english;
  const char* hindi;
};
constexpr Adjective kAdjectives[] = {
    {"near", "पास"}, {"far", "दूर"},    {"big", "बड़ा"},       {"small", "छोटा"}, {"old", "पुराना"},
    {"new", "नया"},  {"clean", "साफ़"}, {"beautiful", "सुंदर"}, {"empty", "खाली"}, {"quiet", "शांत"},
};

std::vector<BankSentence> about(const Thing& t) {
  const bool she = t.gender == Gender::feminine;
  const std::string at = t.sense == BankSense::water ? "किनारे पर" : "बैंक में";
  const std::string from = t.sense == BankSense::water ? "किनारे से" : "बैंक से";
  const bool vowel = std::string_view("aeiou").find(t.english[0]) != std::string_view::npos;
  const std::string a = t.count == Count::mass ? "" : vowel ? "an " : "a ";
  const std::string ek = t.count == Count::one ? "एक " : "";
  const auto make = [&](const std::string& english, const std::string& hindi) {
    return BankSentence{english, hindi, t.sense};
  };
  // Usually the bank comes first, in both languages: its meaning must be known before the word that
  // reveals it is written.
  return {
      make(concat("at the bank I saw ", a, t.english),
           concat(at, " मैंने ", ek, t.hindi, she ? " देखी" : " देखा")),
      make(concat("from the bank I saw ", a, t.english),
           concat(from, " मैंने ", ek, t.hindi, she ? " देखी" : " देखा")),
      make(concat("from the bank one sees ", a, t.english),
           concat(from, " ", ek, t.hindi, she ? " दिखती है" : " दिखता है")),
      make(concat("at the bank there is ", a, t.english), concat(at, " ", ek, t.hindi, " है")),
      make(concat("at the bank there was ", a, t.english),
           concat(at, " ", ek, t.hindi, she ? " थी" : " था")),
      make(concat("the ", t.english, " is at the bank"), concat(t.hindi, " ", at, " है")),
  };
}

std::vector<BankSentence> about(const Kind& kind) {
  const std::string english = concat("the ", kind.english, " bank");
  const std::string hindi = kind.sense == BankSense::water ? "किनारा" : "बैंक";
  std::vector<BankSentence> result;
  for (const Adjective& is : kAdjectives) {
    result.push_back(
        {concat(english, " is ", is.english), concat(hindi, " ", is.hindi, " है"), kind.sense});
  }
  for (const Adjective& is : kAdjectives) {
    result.push_back({concat(english, " is not ", is.english),
                      concat(hindi, " ", is.hindi, " नहीं है"), kind.sense});
  }
  for (const Adjective& is : kAdjectives) {
    result.push_back(
        {concat(english, " was ", is.english), concat(hindi, " ", is.hindi, " था"), kind.sense});
  }
  result.push_back({concat("where is ", english), concat(hindi, " कहाँ है"), kind.sense});
  return result;
}

}  // namespace

BankSentences make_bank_sentences() {
  BankSentences result;
  // Roughly one combination in seven is held out; the steps are such that every word and every
  // pattern is still in training.
  constexpr size_t kEvery = 7;
  for (size_t thing = 0; thing < std::size(kThings); ++thing) {
    const auto sentences = about(kThings[thing]);
    for (size_t i = 0; i < sentences.size(); ++i) {
      const bool aside = (thing + 2 * i) % kEvery == 0;
      (aside ? result.held_out : result.train).push_back(sentences[i]);
    }
  }
  for (size_t kind = 0; kind < std::size(kKinds); ++kind) {
    const auto sentences = about(kKinds[kind]);
    for (size_t i = 0; i < sentences.size(); ++i) {
      if (i == 0) result.near.push_back(sentences[i]);
      const bool aside = i == 0 || (i + 1 < sentences.size() && (kind + 2 * i) % kEvery == 0);
      (aside ? result.held_out : result.train).push_back(sentences[i]);
    }
  }
  return result;
}

}  // namespace tril
