// Inflection, agreement, and the patterns of sentences. Internal to lesson/.
//
// A pattern is a sentence with slots in braces, the same slots in both languages:
//   "{P.gen} {N} {is~N} {A}."     "{P.ka~N} {N} {A~N} {है~N}"
//     My books are good.            मेरी किताबें अच्छी हैं
//   {N}      the filler of slot N           {N^}   its oblique, before a postposition
//   {N.ko}   a named form of it             {A~N}  A as it agrees with N
//   {है~N}   a word of the pattern itself as it agrees with N; verbs, adjectives and possessives
//            are written as for a masculine singular: {रहा~S}, {कितना~N}
//   {सकता!~S}  the same where no auxiliary follows: a feminine plural is then nasal, सकतीं
// A slot is named by a capital letter. In English, "a" becomes "an" automatically, and the first
// letter of the sentence a capital.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tril/lesson/phrasebook_words.h"

namespace tril::phrasebook {

enum class Number { singular, plural };
enum class Speaker { no, yes };  // yes: मैं, which has its own forms: हूँ, जाऊँगा

// What a Hindi word agrees with. An honoured person counts as plural.
struct Agreement {
  Gender gender = Gender::masculine;
  Number number = Number::singular;
  Speaker speaker = Speaker::no;
};
// m, mp, f, fp, or i for the speaker.
std::string to_string(const Agreement& agreement);

// English agreement: am, are (with "a doctor"), is, are (with "doctors").
enum class EnglishPerson { i, you, it, they };

// The forms of one Hindi word by agreement. A word that never changes has five equal forms.
struct Paradigm {
  std::string speaker;
  std::string masculine;
  std::string masculine_plural;
  std::string feminine;
  std::string feminine_plural;
};
Paradigm unchanging(std::string_view word);
// An adjective or participle: oblique equals plural, and the feminine plural equals the singular.
Paradigm adjectival(std::string_view masculine, std::string_view masculine_plural,
                    std::string_view feminine);
// From the masculine singular: अच्छा, जाता, का, है, था, यह, खाया, जाएगा. The last word changes.
// Raises `internal` for a word that has no such form.
Paradigm inflect(std::string_view word);
// As inflect, for a participle that ends the sentence: पीता, पीते, पीती, पीतीं.
Paradigm inflect_final(std::string_view word);

struct Filler {
  std::string english;           // {X}
  std::string english_agreeing;  // {X~Y}: of a verb for "it", of a noun for "they"
  std::map<std::string, std::string> english_forms;  // {X.gen}
  Paradigm hindi;                                    // {X}, {X~Y}
  std::string oblique;                               // {X^}
  std::map<std::string, Paradigm> hindi_forms;       // {X.ka~Y}
  Agreement agreement;
  EnglishPerson person = EnglishPerson::it;
  enum Kind { nominal, verbal, attribute } kind = nominal;
};

// Fillers. Those for people and things have the English forms obj (me) and gen (my), and in Hindi
// ko (मुझे, लड़के को), ne (मैंने), se (मुझसे), ka (मेरा) and ke (मेरे), ki (मेरी).
Filler pronoun(std::string_view english);  // I, you, he, she, we, they
Filler person(const Person& name);
Filler word(const Word& entry);
Filler bare(const Noun& noun, Number number);         // books
Filler the(const Noun& noun, Number number);          // the books
Filler counted(const Word& count, const Noun& noun);  // a book, two books
Filler pointed(std::string_view this_or_that, const Noun& noun, Number number);  // these books
Filler possessed(std::string_view owner, const Noun& noun, Number number);  // my books; owner: "I"
Filler number(const Word& count);
Filler adjective(const Adjective& entry);    // English form er; kind attribute
Filler profession(const Profession& entry);  // a doctor; kind attribute
Filler action(const Action& entry);          // forms ing; obj, stem, ta, ga, na, iye
Filler feeling(const Feeling& entry);        // forms noun, verb

using Fillers = std::vector<Filler>;

struct Slot {
  char name;
  Fillers fillers;
};

struct Pattern {
  std::string english;
  std::string hindi;
  std::vector<Slot> slots;
  int64_t most = 0;  // the most combinations the phrasebook takes
  enum Use { divided, only_train } use = divided;
};

struct Sentence {
  std::string english;
  std::string hindi;
  std::string agreement;  // what each agreeing word of the Hindi agrees with, in order: "f f mp"
};

// `chosen[i]` is the filler of pattern.slots[i]. Raises `internal` for a fault in the pattern.
Sentence compose(const Pattern& pattern, const std::vector<const Filler*>& chosen);

// All patterns of the phrasebook, and its fixed phrases: English spellings separated by |, Hindi.
std::vector<Pattern> patterns_about_people();
std::vector<Pattern> patterns_about_things();
std::vector<Word> fixed_phrases();

// One choice of fillers for one pattern. Its identity is the sentence in lower case, without
// punctuation and contractions.
struct Combination {
  std::string pattern;               // the English pattern, which names it
  std::vector<std::string> fillers;  // their English, each after its slot: "S=my father"
  Sentence sentence;
  Pattern::Use use = Pattern::divided;
};
// The combinations the phrasebook takes of each pattern, without duplicates and fixed phrases.
std::vector<Combination> all_combinations();
std::string identity(std::string_view english);

}  // namespace tril::phrasebook
