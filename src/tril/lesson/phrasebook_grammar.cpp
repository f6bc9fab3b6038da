#include "tril/lesson/phrasebook_grammar.h"

#include <array>
#include <cstdint>

#include "tril/base/error.h"

namespace tril::phrasebook {
namespace {

bool ends_with(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

std::string with_ending(std::string_view text, std::string_view ending, std::string_view other) {
  return std::string(text.substr(0, text.size() - ending.size())).append(other);
}

std::string joined(std::string_view left, std::string_view right) {
  return std::string(left).append(right);
}

const std::string& form(const Paradigm& paradigm, const Agreement& agreement) {
  if (agreement.speaker == Speaker::yes) return paradigm.speaker;
  const bool plural = agreement.number == Number::plural;
  if (agreement.gender == Gender::masculine) {
    return plural ? paradigm.masculine_plural : paradigm.masculine;
  }
  return plural ? paradigm.feminine_plural : paradigm.feminine;
}

// Before a noun in the oblique: बड़े घर में, इस घर में, इन घरों में.
std::string oblique_form(std::string_view word, const Paradigm& paradigm,
                         const Agreement& agreement) {
  const bool plural = agreement.number == Number::plural;
  if (word == "यह") return plural ? "इन" : "इस";
  if (word == "वह") return plural ? "उन" : "उस";
  return agreement.gender == Gender::masculine ? paradigm.masculine_plural : paradigm.feminine;
}

// The cases of a person or thing other than a pronoun: the oblique and a postposition.
void add_cases(Filler& filler) {
  filler.english_forms["obj"] = filler.english;
  filler.english_forms["gen"] = filler.english + "'s";
  constexpr Word kPostpositions[] = {
      {"ko", " को"}, {"ne", " ने"}, {"se", " से"}, {"ke", " के"}, {"ki", " की"}};
  for (const Word& entry : kPostpositions) {
    filler.hindi_forms[entry.english] = unchanging(filler.oblique + entry.hindi);
  }
  filler.hindi_forms["ka"] = inflect(filler.oblique + " का");
}

Agreement agreement_of(const Noun& noun, Number number) {
  const bool plural = number == Number::plural || noun.respect == Respect::honoured;
  return {.gender = noun.gender, .number = plural ? Number::plural : Number::singular};
}

// A noun's determiner in each language.
struct Determiner {
  std::string english;
  std::string direct;
  std::string oblique;
};
Filler noun_phrase(const Determiner& before, const Noun& noun, Number number) {
  const bool plural = number == Number::plural;
  const auto join = [](const std::string& left, const char* right) {
    return left.empty() ? std::string(right) : left + " " + right;
  };
  Filler filler;
  filler.english = join(before.english, plural ? noun.english_plural : noun.english);
  filler.hindi = unchanging(join(before.direct, plural ? noun.plural : noun.direct));
  filler.oblique = join(before.oblique, plural ? noun.plural_oblique : noun.oblique);
  filler.agreement = agreement_of(noun, number);
  filler.person = plural ? EnglishPerson::they : EnglishPerson::it;
  require(!filler.english.empty() && filler.english.back() != ' ', ErrorCode::internal,
          "phrasebook: ", noun.english, " has no plural");
  add_cases(filler);
  return filler;
}

struct PronounEntry {
  const char* english;
  const char* obj;
  const char* gen;
  const char* hindi;
  const char* ko;
  const char* ne;
  const char* se;
  const char* ka;
  Agreement agreement;
  EnglishPerson person;
};
// clang-format off
const std::array<PronounEntry, 6> kPronouns = {{
    {"I", "me", "my", "मैं", "मुझे", "मैंने", "मुझसे", "मेरा",
     {Gender::masculine, Number::singular, Speaker::yes}, EnglishPerson::i},
    {"you", "you", "your", "आप", "आपको", "आपने", "आपसे", "आपका",
     {Gender::masculine, Number::plural}, EnglishPerson::you},
    {"he", "him", "his", "वह", "उसे", "उसने", "उससे", "उसका",
     {Gender::masculine, Number::singular}, EnglishPerson::it},
    {"she", "her", "her", "वह", "उसे", "उसने", "उससे", "उसका",
     {Gender::feminine, Number::singular}, EnglishPerson::it},
    {"we", "us", "our", "हम", "हमें", "हमने", "हमसे", "हमारा",
     {Gender::masculine, Number::plural}, EnglishPerson::they},
    {"they", "them", "their", "वे", "उन्हें", "उन्होंने", "उनसे", "उनका",
     {Gender::masculine, Number::plural}, EnglishPerson::they},
}};
// clang-format on

const PronounEntry& pronoun_entry(std::string_view english) {
  for (const PronounEntry& entry : kPronouns) {
    if (entry.english == english) return entry;
  }
  fail(ErrorCode::internal, "phrasebook: no pronoun '", english, "'");
}

// The words of English patterns that agree: is, was, do, have, this, that; any other takes an s.
std::string english_agreeing(std::string_view word, EnglishPerson person) {
  const bool it = person == EnglishPerson::it;
  const bool they = person == EnglishPerson::they;
  if (word == "is") return it ? "is" : person == EnglishPerson::i ? "am" : "are";
  if (word == "was") return it || person == EnglishPerson::i ? "was" : "were";
  if (word == "do") return it ? "does" : "do";
  if (word == "have") return it ? "has" : "have";
  if (word == "this") return they ? "these" : "this";
  if (word == "that") return they ? "those" : "that";
  return it ? joined(word, "s") : std::string(word);
}

// One {…} of a pattern, parsed.
struct Mark {
  std::string_view word;        // a slot's letter, or a word of the pattern itself
  std::string_view form;        // after a dot
  std::string_view controller;  // after ~
  bool oblique = false;         // ^
  bool final = false;           // !
  bool is_slot() const { return word.size() == 1 && word[0] >= 'A' && word[0] <= 'Z'; }
};
Mark parse_mark(std::string_view text) {
  Mark mark;
  if (ends_with(text, "^")) {
    mark.oblique = true;
    text.remove_suffix(1);
  }
  const auto cut = [&text](char separator) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) return std::string_view();
    const std::string_view after = text.substr(at + 1);
    text = text.substr(0, at);
    return after;
  };
  mark.controller = cut('~');
  if (ends_with(text, "!")) {
    mark.final = true;
    text.remove_suffix(1);
  }
  mark.form = cut('.');
  mark.word = text;
  return mark;
}

class Composer {
 public:
  Composer(const Pattern& pattern, const std::vector<const Filler*>& chosen)
      : pattern_(pattern), chosen_(chosen) {}

  std::string english_mark(const Mark& mark) const {
    if (!mark.is_slot()) return english_agreeing(mark.word, filler(mark.controller).person);
    const Filler& it = filler(mark.word);
    if (!mark.form.empty()) return found(it.english_forms, mark.form);
    if (mark.controller.empty()) return it.english;
    const EnglishPerson person = filler(mark.controller).person;
    const bool agreeing =
        it.kind == Filler::verbal ? person == EnglishPerson::it : person == EnglishPerson::they;
    return agreeing ? it.english_agreeing : it.english;
  }

  std::string hindi_mark(const Mark& mark, std::string& agreements) const {
    Paradigm paradigm;
    if (!mark.is_slot()) {
      paradigm = mark.final ? inflect_final(mark.word) : inflect(mark.word);
    } else if (!mark.form.empty()) {
      paradigm = found(filler(mark.word).hindi_forms, mark.form);
      if (mark.final) paradigm = inflect_final(paradigm.masculine);
    } else {
      paradigm = filler(mark.word).hindi;
    }
    if (mark.controller.empty()) {
      return mark.oblique ? filler(mark.word).oblique : paradigm.masculine;
    }
    const Agreement& agreement = filler(mark.controller).agreement;
    if (!agreements.empty()) agreements += ' ';
    agreements += to_string(agreement);
    return mark.oblique ? oblique_form(mark.word, paradigm, agreement) : form(paradigm, agreement);
  }

  // The pattern's text with every {…} replaced by the result of `spell`.
  template <class Spell>
  std::string fill(std::string_view text, const Spell& spell) const {
    std::string out;
    while (!text.empty()) {
      const size_t open = text.find('{');
      out.append(text.substr(0, open));
      if (open == std::string_view::npos) break;
      const size_t close = text.find('}', open);
      require(close != std::string_view::npos, ErrorCode::internal,
              "phrasebook: a { without } in: ", pattern_.english);
      out += spell(parse_mark(text.substr(open + 1, close - open - 1)));
      text.remove_prefix(close + 1);
    }
    return out;
  }

 private:
  const Filler& filler(std::string_view name) const {
    for (size_t i = 0; i < pattern_.slots.size(); ++i) {
      if (name.size() == 1 && pattern_.slots[i].name == name[0]) return *chosen_[i];
    }
    fail(ErrorCode::internal, "phrasebook: no slot '", name, "' in: ", pattern_.english);
  }
  template <class Value>
  const Value& found(const std::map<std::string, Value>& forms, std::string_view name) const {
    const auto at = forms.find(std::string(name));
    require(at != forms.end(), ErrorCode::internal, "phrasebook: no form '", name,
            "' for a slot of: ", pattern_.english);
    return at->second;
  }

  const Pattern& pattern_;
  const std::vector<const Filler*>& chosen_;
};

// Removes the gaps that empty slots leave.
std::string single_spaced(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter != ' ' || (!out.empty() && out.back() != ' ')) out += letter;
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string english_sentence(std::string text) {
  text = single_spaced(text);
  for (size_t at = 0; at + 2 < text.size(); ++at) {
    const bool alone = (at == 0 || text[at - 1] == ' ') && text[at + 1] == ' ';
    if (text[at] == 'a' && alone && std::string_view("aeiou").find(text[at + 2]) < 5) {
      text.insert(at + 1, "n");
    }
  }
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

}  // namespace

std::string to_string(const Agreement& agreement) {
  if (agreement.speaker == Speaker::yes) return "i";
  const char* gender = agreement.gender == Gender::masculine ? "m" : "f";
  return joined(gender, agreement.number == Number::plural ? "p" : "");
}

Paradigm unchanging(std::string_view word) {
  const std::string text(word);
  return {text, text, text, text, text};
}

Paradigm adjectival(std::string_view masculine, std::string_view masculine_plural,
                    std::string_view feminine) {
  const std::string singular(masculine);
  const std::string woman(feminine);
  return {singular, singular, std::string(masculine_plural), woman, woman};
}

Paradigm inflect(std::string_view word) {
  if (word == "है") return {"हूँ", "है", "हैं", "है", "हैं"};
  if (word == "था") return {"था", "था", "थे", "थी", "थीं"};
  if (word == "यह") return {"यह", "यह", "ये", "यह", "ये"};
  if (word == "वह") return {"वह", "वह", "वे", "वह", "वे"};
  if (word == "पिया") return {"पिया", "पिया", "पिए", "पी", "पी"};
  // The future: करेगा, करूँगा, करेंगे; after a vowel जाएगा, जाऊँगा, जाएँगे.
  if (ends_with(word, "ेगा")) {
    return {with_ending(word, "ेगा", "ूँगा"), std::string(word), with_ending(word, "ेगा", "ेंगे"),
            with_ending(word, "गा", "गी"), with_ending(word, "ेगा", "ेंगी")};
  }
  if (ends_with(word, "एगा")) {
    return {with_ending(word, "एगा", "ऊँगा"), std::string(word), with_ending(word, "एगा", "एँगे"),
            with_ending(word, "गा", "गी"), with_ending(word, "एगा", "एँगी")};
  }
  // गया, गए, गई; खाया, खाए, खाई.
  if (ends_with(word, "या")) {
    return adjectival(word, with_ending(word, "या", "ए"), with_ending(word, "या", "ई"));
  }
  if (ends_with(word, "ा")) {
    return adjectival(word, with_ending(word, "ा", "े"), with_ending(word, "ा", "ी"));
  }
  fail(ErrorCode::internal, "phrasebook: '", word, "' does not end like a masculine singular");
}

Paradigm inflect_final(std::string_view word) {
  Paradigm paradigm = inflect(word);
  paradigm.feminine_plural = paradigm.feminine + "ं";
  return paradigm;
}

Filler pronoun(std::string_view english) {
  const PronounEntry& entry = pronoun_entry(english);
  Filler filler;
  filler.english = entry.english;
  filler.english_forms = {{"obj", entry.obj}, {"gen", entry.gen}};
  filler.hindi = unchanging(entry.hindi);
  const Paradigm ka = inflect(entry.ka);
  filler.hindi_forms = {{"ko", unchanging(entry.ko)},
                        {"ne", unchanging(entry.ne)},
                        {"se", unchanging(entry.se)},
                        {"ka", ka},
                        {"ke", unchanging(ka.masculine_plural)},
                        {"ki", unchanging(ka.feminine)}};
  filler.agreement = entry.agreement;
  filler.person = entry.person;
  return filler;
}

Filler person(const Person& name) {
  Filler filler;
  filler.english = name.english;
  filler.hindi = unchanging(name.hindi);
  filler.oblique = name.hindi;
  filler.agreement.gender = name.gender;
  add_cases(filler);
  return filler;
}

Filler word(const Word& entry) {
  Filler filler;
  filler.english = entry.english;
  filler.hindi = unchanging(entry.hindi);
  filler.oblique = entry.hindi;
  return filler;
}

Filler bare(const Noun& noun, Number number) { return noun_phrase({}, noun, number); }

Filler the(const Noun& noun, Number number) {
  return noun_phrase({.english = "the", .direct = {}, .oblique = {}}, noun, number);
}

Filler counted(const Word& count, const Noun& noun) {
  const bool one = std::string_view(count.english) == "one";
  return noun_phrase(
      {.english = one ? "a" : count.english, .direct = count.hindi, .oblique = count.hindi}, noun,
      one ? Number::singular : Number::plural);
}

Filler pointed(std::string_view this_or_that, const Noun& noun, Number number) {
  const std::string_view hindi = this_or_that == "this" ? "यह" : "वह";
  const Agreement agreement = agreement_of(noun, number);
  const Paradigm paradigm = inflect(hindi);
  const EnglishPerson person = number == Number::plural ? EnglishPerson::they : EnglishPerson::it;
  return noun_phrase({.english = english_agreeing(this_or_that, person),
                      .direct = form(paradigm, agreement),
                      .oblique = oblique_form(hindi, paradigm, agreement)},
                     noun, number);
}

Filler possessed(std::string_view owner, const Noun& noun, Number number) {
  const PronounEntry& entry = pronoun_entry(owner);
  const Agreement agreement = agreement_of(noun, number);
  const Paradigm paradigm = inflect(entry.ka);
  return noun_phrase({.english = entry.gen,
                      .direct = form(paradigm, agreement),
                      .oblique = oblique_form(entry.ka, paradigm, agreement)},
                     noun, number);
}

Filler number(const Word& count) {
  Filler filler = word(count);
  const bool one = filler.english == "one";
  filler.agreement.number = one ? Number::singular : Number::plural;
  return filler;
}

Filler adjective(const Adjective& entry) {
  Filler filler;
  filler.english = filler.english_agreeing = entry.english;
  filler.hindi = adjectival(entry.masculine, entry.masculine_plural, entry.feminine);
  filler.kind = Filler::attribute;
  if (*entry.comparative != '\0') filler.english_forms["er"] = entry.comparative;
  return filler;
}

Filler profession(const Profession& entry) {
  Filler filler;
  filler.english = joined("a ", entry.english);
  filler.english_agreeing = entry.english_plural;
  filler.hindi = adjectival(entry.masculine, entry.masculine, entry.feminine);
  filler.kind = Filler::attribute;
  return filler;
}

Filler action(const Action& entry) {
  Filler filler;
  filler.english = entry.english;
  filler.english_agreeing = entry.third;
  filler.english_forms["ing"] = entry.ing;
  filler.hindi_forms = {
      {"obj", unchanging(entry.object)},         {"stem", unchanging(entry.stem)},
      {"ta", inflect(joined(entry.stem, "ता"))}, {"ga", inflect(entry.future)},
      {"na", inflect(joined(entry.stem, "ना"))}, {"iye", unchanging(entry.command)}};
  const bool feminine = entry.agrees == Action::feminine || entry.agrees == Action::feminine_plural;
  const bool plural =
      entry.agrees == Action::masculine_plural || entry.agrees == Action::feminine_plural;
  filler.agreement = {.gender = feminine ? Gender::feminine : Gender::masculine,
                      .number = plural ? Number::plural : Number::singular};
  filler.kind = Filler::verbal;
  return filler;
}

Filler feeling(const Feeling& entry) {
  Filler filler;
  filler.english = entry.english;
  filler.hindi_forms = {{"noun", unchanging(entry.noun)}, {"verb", unchanging(entry.verb)}};
  filler.agreement.gender = entry.gender;
  return filler;
}

Sentence compose(const Pattern& pattern, const std::vector<const Filler*>& chosen) {
  require(chosen.size() == pattern.slots.size(), ErrorCode::internal, "phrasebook: ", chosen.size(),
          " fillers for ", pattern.slots.size(), " slots of: ", pattern.english);
  const Composer composer(pattern, chosen);
  Sentence sentence;
  sentence.english = english_sentence(composer.fill(
      pattern.english, [&](const Mark& mark) { return composer.english_mark(mark); }));
  sentence.hindi = single_spaced(composer.fill(pattern.hindi, [&](const Mark& mark) {
    return composer.hindi_mark(mark, sentence.agreement);
  }));
  return sentence;
}

}  // namespace tril::phrasebook
