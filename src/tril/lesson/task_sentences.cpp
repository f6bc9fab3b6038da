#include "tril/lesson/task_sentences.h"

#include <iterator>

#include "tril/base/error.h"

namespace tril {
namespace {

struct Noun {
  const char* english;
  const char* hindi;
  bool feminine;
};
constexpr Noun kNouns[] = {
    {"book", "किताब", true},   {"house", "घर", false},  {"car", "गाड़ी", true},
    {"room", "कमरा", false},   {"chair", "कुर्सी", true}, {"door", "दरवाज़ा", false},
    {"window", "खिड़की", true}, {"tree", "पेड़", false},
};

struct AgreeingAdjective {
  const char* english;
  const char* masculine;
  const char* feminine;
};
constexpr AgreeingAdjective kAgreeingAdjectives[] = {
    {"big", "बड़ा", "बड़ी"}, {"small", "छोटा", "छोटी"}, {"old", "पुराना", "पुरानी"},
    {"new", "नया", "नई"},  {"good", "अच्छा", "अच्छी"},  {"yellow", "पीला", "पीली"},
};

struct Predicate {
  const char* english;
  const char* hindi;
};
constexpr Predicate kPredicates[] = {
    {"is here", "यहाँ है"},         {"is there", "वहाँ है"}, {"is near", "पास है"},
    {"is not here", "यहाँ नहीं है"}, {"is far", "दूर है"},
};

struct Person {
  const char* name;
  const char* pronoun;
};
constexpr Person kPeople[] = {{"asha", "she"},  {"ravi", "he"},  {"meera", "she"}, {"arjun", "he"},
                              {"leela", "she"}, {"kiran", "he"}, {"sita", "she"},  {"mohan", "he"}};
constexpr const char* kBelongings[] = {"book", "pen", "lamp", "kite", "bag", "cup", "map", "ball"};
constexpr const char* kActions[] = {"bought", "lost", "found"};
constexpr const char* kPlaces[] = {"market", "school", "station", "park", "office", "temple"};
constexpr const char* kWeathers[] = {"hot", "cold", "late", "early"};
constexpr const char* kDrinks[] = {"tea",   "coffee", "milk", "juice",
                                   "water", "lassi",  "soup", "cocoa"};

// One in eight of the pairs of a person and a thing is held out.
bool is_held_out(size_t person, size_t thing) { return (person + thing) % std::size(kPeople) == 0; }

}  // namespace

TaskSentences make_translation_task() {
  constexpr size_t kEvery = 7;
  TaskSentences result;
  for (size_t n = 0; n < std::size(kNouns); ++n) {
    for (size_t a = 0; a < std::size(kAgreeingAdjectives); ++a) {
      for (size_t p = 0; p < std::size(kPredicates); ++p) {
        const AgreeingAdjective& is = kAgreeingAdjectives[a];
        const bool aside = (n + 2 * a + 3 * p) % kEvery == 0;
        (aside ? result.held_out : result.train)
            .push_back(
                {concat("the ", is.english, " ", kNouns[n].english, " ", kPredicates[p].english),
                 concat(kNouns[n].feminine ? is.feminine : is.masculine, " ", kNouns[n].hindi, " ",
                        kPredicates[p].hindi)});
      }
    }
  }
  return result;
}

TaskSentences make_summary_task() {
  constexpr size_t kVariants = 6;  // of a pair: another place, weather and order
  TaskSentences result;
  for (size_t person = 0; person < std::size(kPeople); ++person) {
    for (size_t thing = 0; thing < std::size(kBelongings); ++thing) {
      for (size_t i = 0; i < kVariants; ++i) {
        const Person& who = kPeople[person];
        const std::string went =
            concat(who.name, " went to the ",
                   kPlaces[(person + 2 * thing + i) % std::size(kPlaces)], " .");
        const std::string weather =
            concat("it was ", kWeathers[(thing + i) % std::size(kWeathers)], " .");
        const std::string did =
            concat(kActions[(person + i) % std::size(kActions)], " a ", kBelongings[thing]);
        (is_held_out(person, thing) ? result.held_out : result.train)
            .push_back({concat(i % 2 == 0 ? concat(weather, " ", went) : concat(went, " ", weather),
                               " ", who.pronoun, " ", did, " ."),
                        concat(who.name, " ", did)});
      }
    }
  }
  return result;
}

TaskSentences make_chat_task() {
  TaskSentences result;
  for (size_t person = 0; person < std::size(kPeople); ++person) {
    for (size_t drink = 0; drink < std::size(kDrinks); ++drink) {
      const std::string name =
          concat("user I am ", kPeople[person].name, " bot hello ", kPeople[person].name);
      const std::string likes =
          concat("user I like ", kDrinks[drink], " bot ", kDrinks[drink], " is nice");
      for (const std::string& said : {concat(name, " ", likes), concat(likes, " ", name)}) {
        auto& to = is_held_out(person, drink) ? result.held_out : result.train;
        to.push_back(
            {concat(said, " user who am I bot"), concat("you are ", kPeople[person].name)});
        to.push_back(
            {concat(said, " user what do I like bot"), concat("you like ", kDrinks[drink])});
      }
    }
  }
  return result;
}

}  // namespace tril
