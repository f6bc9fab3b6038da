// Lists of fillers for the slots of patterns. Internal to lesson/.
#pragma once

#include <initializer_list>
#include <iterator>
#include <vector>

#include "tril/lesson/phrasebook_grammar.h"

namespace tril::phrasebook {

using Nouns = std::vector<Noun>;

template <class... Tables>
Nouns join(const Tables&... tables) {
  Nouns nouns;
  (nouns.insert(nouns.end(), std::begin(tables), std::end(tables)), ...);
  return nouns;
}

inline Fillers operator+(Fillers left, const Fillers& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

template <class Entries, class Make>
Fillers each(const Entries& entries, const Make& make) {
  Fillers fillers;
  for (const auto& entry : entries) fillers.push_back(make(entry));
  return fillers;
}
template <class Entries>
Fillers words(const Entries& entries) {
  return each(entries, word);
}
template <class Entries>
Fillers adjectives(const Entries& entries) {
  return each(entries, adjective);
}
template <class Entries>
Fillers actions(const Entries& entries) {
  return each(entries, action);
}

// Each noun in the singular, in the plural, or first all singulars, then all plurals.
enum class Numbers { singular, plural, both };
inline constexpr Numbers kOne = Numbers::singular, kMany = Numbers::plural, kBoth = Numbers::both;
Fillers bare_all(const Nouns& nouns, Numbers numbers);
Fillers the_all(const Nouns& nouns, Numbers numbers);
Fillers pointed_all(const char* this_or_that, const Nouns& nouns, Numbers numbers);
Fillers possessed_all(const char* owner, const Nouns& nouns, Numbers numbers);
Fillers counted_all(std::initializer_list<int> counts, const Nouns& nouns);
Fillers in_the_all(const Nouns& nouns);  // in the room, कमरे में

Fillers numbers(int first, int last);
Fillers named(Gender gender);
Fillers named();
Fillers pronouns(std::initializer_list<const char*> list);
Fillers prepositions(std::initializer_list<const char*> list);
Fillers clock_times();  // at five o'clock, पाँच बजे
Fillers times();        // also today, on Monday, in the evening

Fillers of_gender(Gender gender, const Fillers& all);
Fillers comparable(const Fillers& all);       // those with a comparative
Fillers without_article(const Fillers& all);  // no एक, which a negation turns into कोई

Fillers everyone();   // the six pronouns
Fillers my_family();  // my father … my friend
Fillers your_family();
Fillers their_family();  // his and her family
Fillers strangers();     // the boy, the boys …
// With everyone(), or with the people one asks about, repeated so often that they are half of the
// list: pronouns are what people try first.
Fillers and_everyone(const Fillers& others);
Fillers and_asked(const Fillers& others);
Fillers people();
Fillers asked_people();

}  // namespace tril::phrasebook
