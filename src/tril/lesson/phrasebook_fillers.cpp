#include "tril/lesson/phrasebook_fillers.h"

#include <string_view>

namespace tril::phrasebook {
namespace {

template <class Make>
Fillers each_number(const Nouns& nouns, Numbers numbers, const Make& make) {
  Fillers fillers;
  for (const Number number : {Number::singular, Number::plural}) {
    if (numbers == Numbers::singular && number == Number::plural) continue;
    if (numbers == Numbers::plural && number == Number::singular) continue;
    for (const Noun& noun : nouns) fillers.push_back(make(noun, number));
  }
  return fillers;
}

template <class Keep>
Fillers filtered(const Fillers& all, const Keep& keep) {
  Fillers fillers;
  for (const Filler& filler : all) {
    if (keep(filler)) fillers.push_back(filler);
  }
  return fillers;
}

Fillers balanced(const Fillers& others, const Fillers& few) {
  Fillers fillers = few;
  for (size_t i = few.size(); i < others.size(); i += few.size()) fillers = fillers + few;
  return fillers + others;
}

}  // namespace

Fillers bare_all(const Nouns& nouns, Numbers numbers) { return each_number(nouns, numbers, bare); }

Fillers the_all(const Nouns& nouns, Numbers numbers) { return each_number(nouns, numbers, the); }

Fillers pointed_all(const char* this_or_that, const Nouns& nouns, Numbers numbers) {
  return each_number(nouns, numbers, [&](const Noun& noun, Number number) {
    return pointed(this_or_that, noun, number);
  });
}

Fillers possessed_all(const char* owner, const Nouns& nouns, Numbers numbers) {
  return each_number(nouns, numbers, [&](const Noun& noun, Number number) {
    return possessed(owner, noun, number);
  });
}

Fillers counted_all(std::initializer_list<int> counts, const Nouns& nouns) {
  Fillers fillers;
  for (const int count : counts) {
    for (const Noun& noun : nouns) fillers.push_back(counted(kNumbers[count - 1], noun));
  }
  return fillers;
}

Fillers in_the_all(const Nouns& nouns) {
  return each(the_all(nouns, Numbers::singular), [](Filler place) {
    place.english = "in " + place.english;
    place.hindi = unchanging(place.oblique + " में");
    return place;
  });
}

Fillers numbers(int first, int last) {
  Fillers fillers;
  for (int i = first; i <= last; ++i) fillers.push_back(number(kNumbers[i - 1]));
  return fillers;
}

Fillers named(Gender gender) { return of_gender(gender, each(kNames, person)); }

Fillers named() { return each(kNames, person); }

Fillers pronouns(std::initializer_list<const char*> list) { return each(list, pronoun); }

Fillers prepositions(std::initializer_list<const char*> list) {
  Fillers fillers;
  for (const std::string_view english : list) {
    for (const Word& entry : kPrepositions) {
      if (entry.english == english) fillers.push_back(word(entry));
    }
  }
  return fillers;
}

Fillers clock_times() {
  return each(numbers(1, 12), [](Filler hour) {
    hour.english = "at " + hour.english + " o'clock";
    hour.hindi = unchanging(hour.hindi.masculine + " बजे");
    return hour;
  });
}

Fillers times() {
  const Fillers parts = {word({"today", "आज"}), word({"tomorrow", "कल"}),
                         word({"in the morning", "सुबह"}), word({"in the evening", "शाम को"})};
  const Fillers days = each(words(kDays), [](Filler day) {
    day.english = "on " + day.english;
    day.hindi = unchanging(day.hindi.masculine + " को");
    return day;
  });
  return parts + days + clock_times();
}

Fillers of_gender(Gender gender, const Fillers& all) {
  return filtered(all, [&](const Filler& filler) { return filler.agreement.gender == gender; });
}

Fillers comparable(const Fillers& all) {
  return filtered(all, [](const Filler& filler) { return filler.english_forms.count("er") != 0; });
}

Fillers without_article(const Fillers& all) {
  return filtered(
      all, [](const Filler& filler) { return filler.english.find(" a ") == std::string::npos; });
}

Fillers everyone() { return pronouns({"I", "you", "he", "she", "we", "they"}); }

Fillers my_family() { return possessed_all("I", join(kElders, kSpouses, kKin), Numbers::singular); }

Fillers your_family() { return possessed_all("you", join(kElders, kKin), Numbers::singular); }

Fillers their_family() {
  return possessed_all("he", join(kKin, Nouns{kElders[0], kSpouses[1]}), Numbers::singular) +
         possessed_all("she", join(kKin, Nouns{kElders[1], kSpouses[0]}), Numbers::singular);
}

Fillers strangers() { return the_all(join(kPeople), Numbers::both); }

Fillers and_everyone(const Fillers& others) { return balanced(others, everyone()); }

Fillers and_asked(const Fillers& others) {
  return balanced(others, pronouns({"you", "he", "she", "they"}));
}

Fillers people() { return and_everyone(my_family() + your_family() + strangers() + named()); }

Fillers asked_people() { return and_asked(my_family() + your_family() + strangers() + named()); }

}  // namespace tril::phrasebook
