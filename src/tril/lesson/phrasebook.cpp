#include "tril/lesson/phrasebook.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "tril/base/error.h"
#include "tril/base/rng.h"
#include "tril/lesson/phrasebook_grammar.h"

namespace tril {
namespace phrasebook {
namespace {

constexpr uint64_t kSeed = 20240;
// The uses of random numbers, each with its own stream.
constexpr uint64_t kChooseCombinations = 1;
constexpr uint64_t kHoldOut = 2;
constexpr uint64_t kSpell = 3;

// clang-format off
constexpr Word kContractions[] = {  // full, short
    {"I am", "I'm"}, {"you are", "you're"}, {"he is", "he's"}, {"she is", "she's"},
    {"it is", "it's"}, {"we are", "we're"}, {"they are", "they're"},
    {"I will", "I'll"}, {"you will", "you'll"}, {"he will", "he'll"}, {"she will", "she'll"},
    {"we will", "we'll"}, {"they will", "they'll"},
    {"is not", "isn't"}, {"are not", "aren't"}, {"do not", "don't"}, {"does not", "doesn't"},
    {"will not", "won't"}, {"cannot", "can't"},
    {"what is", "what's"}, {"where is", "where's"}, {"who is", "who's"}, {"let us", "let's"},
};
// clang-format on

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::string lower_case(std::string text) {
  for (char& letter : text) letter = lower(letter);
  return text;
}

std::string without_marks(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (std::string_view(".,?!").find(letter) == std::string_view::npos) out += letter;
  }
  return out;
}

bool is_word_end(std::string_view text, size_t at) {
  return at >= text.size() || std::string_view(" .,?!").find(text[at]) != std::string_view::npos;
}

// Replaces the first whole-word occurrence of `from`, ignoring case, by `to`; a capital is kept.
bool replace_words(std::string& text, std::string_view from, std::string_view to) {
  const std::string low = lower_case(text);
  const std::string wanted = lower_case(std::string(from));
  for (size_t at = low.find(wanted); at != std::string::npos; at = low.find(wanted, at + 1)) {
    const bool begins = at == 0 || low[at - 1] == ' ';
    if (!begins || !is_word_end(low, at + wanted.size())) continue;
    const char first = text[at];
    text.replace(at, wanted.size(), to);
    if (first >= 'A' && first <= 'Z') text[at] = first;
    if (first == lower(first)) text[at] = lower(text[at]);
    return true;
  }
  return false;
}

std::string contracted(std::string text) {
  for (const Word& entry : kContractions) {
    if (replace_words(text, entry.english, entry.hindi)) break;
  }
  return text;
}

void add_new(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

// Spellings as people type them: first as written, then with and without capitals, punctuation and
// contractions.
std::vector<std::string> spellings(const std::string& english) {
  std::vector<std::string> list = {english};
  for (const std::string& words : {english, contracted(english)}) {
    for (const std::string& marked : {words, without_marks(words)}) {
      add_new(list, marked);
      add_new(list, lower_case(marked));
    }
  }
  return list;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Two slots with the same head would give "the bank is near the bank".
bool repeats_a_word(const std::vector<const Filler*>& chosen) {
  std::set<std::string> heads;
  for (const Filler* filler : chosen) {
    const std::string& english = filler->english;
    if (!heads.insert(english.substr(english.rfind(' ') + 1)).second) return true;
  }
  return false;
}

Combination combine(const Pattern& pattern, const std::vector<const Filler*>& chosen) {
  Combination combination;
  combination.pattern = pattern.english;
  combination.use = pattern.use;
  for (size_t i = 0; i < chosen.size(); ++i) {
    combination.fillers.push_back(std::string(1, pattern.slots[i].name) + "=" + chosen[i]->english);
  }
  combination.sentence = compose(pattern, chosen);
  return combination;
}

// Sentences taken so far, by identity, so that each English sentence has one Hindi translation.
class Taken {
 public:
  // False if it is already there with the same Hindi; anything else is a fault in the tables.
  bool add(const std::string& english, const std::string& hindi) {
    const auto [at, is_new] = hindi_.emplace(identity(english), hindi);
    require(at->second == hindi, ErrorCode::internal, "phrasebook: two answers to '", english,
            "': ", at->second, " and ", hindi);
    return is_new;
  }

 private:
  std::map<std::string, std::string> hindi_;
};

// Every combination if the pattern has few, otherwise as many as it wants, drawn at random: a
// filler that is several times in a slot's list is drawn more often.
void take(const Pattern& pattern, Random& random, Taken& taken, std::vector<Combination>& out) {
  int64_t product = 1;
  for (const Slot& slot : pattern.slots) product *= static_cast<int64_t>(slot.fillers.size());
  const bool all = product <= pattern.most;
  const int64_t tries = all ? product : 20 * pattern.most;
  std::vector<const Filler*> chosen(pattern.slots.size());
  int64_t count = 0;
  for (int64_t attempt = 0; attempt < tries && count < pattern.most; ++attempt) {
    int64_t rest = attempt;
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Fillers& fillers = pattern.slots[i].fillers;
      const auto size = static_cast<int64_t>(fillers.size());
      const int64_t index = all ? rest % size : random.below(static_cast<uint32_t>(size));
      rest /= size;
      chosen[i] = &fillers[static_cast<size_t>(index)];
    }
    if (repeats_a_word(chosen)) continue;
    Combination combination = combine(pattern, chosen);
    if (!taken.add(combination.sentence.english, combination.sentence.hindi)) continue;
    out.push_back(std::move(combination));
    ++count;
  }
}

// How often each part that a held-out combination depends on occurs in the rest, for training.
class Support {
 public:
  explicit Support(const std::vector<Combination>& combinations) {
    for (const Combination& combination : combinations) count(combination, 1);
  }

  // Holds the combination out if what it depends on remains without it.
  bool release(const Combination& combination) {
    count(combination, -1);
    const auto enough = [&](const std::vector<std::string>& keys, int64_t least) {
      return std::all_of(keys.begin(), keys.end(),
                         [&](const std::string& key) { return counts_[key] >= least; });
    };
    const bool safe = enough(words(combination), 5) && enough(agreements(combination), 3) &&
                      enough(fillers(combination), 1);
    if (!safe) count(combination, 1);
    return safe;
  }

 private:
  static std::vector<std::string> words(const Combination& combination) {
    std::vector<std::string> keys;
    for (std::string& word : split(without_marks(combination.sentence.english), ' ')) {
      add_new(keys, "e " + word);
    }
    for (std::string& word : split(combination.sentence.hindi, ' ')) add_new(keys, "h " + word);
    return keys;
  }
  static std::vector<std::string> agreements(const Combination& combination) {
    return {"a " + combination.pattern + " " + combination.sentence.agreement};
  }
  // A pattern with one slot can only be held out with a filler it never had.
  static std::vector<std::string> fillers(const Combination& combination) {
    std::vector<std::string> keys;
    if (combination.fillers.size() < 2) return keys;
    for (const std::string& filler : combination.fillers) {
      keys.push_back("f " + combination.pattern + " " + filler);
    }
    return keys;
  }
  void count(const Combination& combination, int64_t by) {
    for (const auto& keys : {words(combination), agreements(combination), fillers(combination)}) {
      for (const std::string& key : keys) counts_[key] += by;
    }
  }

  std::map<std::string, int64_t> counts_;
};

// Which combinations are held out: an eighth of each pattern that has ten, drawn at random among
// those that the rest supports.
std::vector<bool> choose_held_out(const std::vector<Combination>& combinations) {
  std::map<std::string, int64_t> quota;
  for (const Combination& combination : combinations) {
    if (combination.use == Pattern::divided) ++quota[combination.pattern];
  }
  for (auto& [pattern, count] : quota) count = count >= 10 ? (count + 4) / 8 : 0;

  std::vector<size_t> order(combinations.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Random random(kSeed, kHoldOut);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  }

  Support support(combinations);
  std::vector<bool> held_out(combinations.size());
  for (const size_t index : order) {
    const Combination& combination = combinations[index];
    if (combination.use != Pattern::divided || quota[combination.pattern] == 0) continue;
    if (!support.release(combination)) continue;
    held_out[index] = true;
    --quota[combination.pattern];
  }
  return held_out;
}

}  // namespace

std::string identity(std::string_view english) {
  std::string text = lower_case(without_marks(english));
  for (const Word& entry : kContractions) {
    while (replace_words(text, entry.hindi, lower_case(entry.english))) {
    }
  }
  return text;
}

std::vector<Combination> all_combinations() {
  Taken taken;
  for (const Word& phrase : fixed_phrases()) {
    for (const std::string& english : split(phrase.english, '|')) taken.add(english, phrase.hindi);
  }
  std::vector<Combination> combinations;
  Random random(kSeed, kChooseCombinations);
  for (const auto topics : {patterns_about_people, patterns_about_things}) {
    for (const Pattern& pattern : topics()) take(pattern, random, taken, combinations);
  }
  return combinations;
}

namespace {

Phrasebook collect() {
  Phrasebook book;
  for (const Word& phrase : fixed_phrases()) {
    for (const std::string& english : split(phrase.english, '|')) {
      for (std::string& spelling : spellings(english)) {
        book.train.push_back({std::move(spelling), phrase.hindi});
      }
    }
  }
  const std::vector<Combination> combinations = all_combinations();
  const std::vector<bool> held_out = choose_held_out(combinations);
  Random random(kSeed, kSpell);
  for (size_t i = 0; i < combinations.size(); ++i) {
    const Sentence& sentence = combinations[i].sentence;
    if (held_out[i]) {
      book.held_out.push_back({sentence.english, sentence.hindi});
      continue;
    }
    const std::vector<std::string> list = spellings(sentence.english);
    book.train.push_back({list[0], sentence.hindi});
    // One in eight also in another spelling.
    if (list.size() > 1 && random.below(8) == 0) {
      const uint32_t other = 1 + random.below(static_cast<uint32_t>(list.size() - 1));
      book.train.push_back({list[other], sentence.hindi});
    }
  }
  return book;
}

}  // namespace
}  // namespace phrasebook

Phrasebook make_phrasebook() { return phrasebook::collect(); }

}  // namespace tril
