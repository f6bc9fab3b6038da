// Sentences about people, English and Hindi side by side. phrasebook_grammar.h explains patterns.
#include <utility>

#include "tril/lesson/phrasebook_fillers.h"

namespace tril::phrasebook {
namespace {

// clang-format off
std::vector<Pattern> names() {
  const Fillers men = named(Gender::masculine);
  const Fillers women = named(Gender::feminine);
  Filler dear = possessed("I", kKin[4], Number::singular);
  dear.hindi = unchanging(dear.oblique);  // one calls in the oblique: नमस्ते मेरे दोस्त
  const Fillers family = my_family() + your_family() + their_family();
  const Fillers he = pronouns({"I", "you", "he"}) + of_gender(m, family);
  const Fillers she = pronouns({"I", "you", "she"}) + of_gender(f, family);
  const Fillers brothers = bare_all({kKin[0], kKin[2], kKin[4]}, kOne);
  const Fillers sisters = bare_all({kKin[1], kKin[3], kWomanFriend}, kOne);
  const Nouns folk = join(kPeople);
  const Fillers towns = words(kCountries) + words(kCities);
  return {
      {"{G}, {C}.", "{G} {C}", {{'G', words(kGreetings)}, {'C', men + women + Fillers{dear}}}, 35},
      {"My name is {C}.", "मेरा नाम {C} है", {{'C', men + women}}, 8, Pattern::only_train},
      {"{P.gen} name is {C}.", "{P.ka} नाम {C} है", {{'P', he}, {'C', men}}, 20},
      {"{P.gen} name is {C}.", "{P.ka} नाम {C} है", {{'P', she}, {'C', women}}, 20},
      {"What is {P.gen} name?", "{P.ka} नाम क्या है",
       {{'P', pronouns({"I", "you", "he", "she"}) + family + pointed_all("this", folk, kOne) +
                  pointed_all("that", folk, kOne)}}, 20},
      {"{C} is {P.gen} {K}.", "{C} {P.ka~K} {K} है",
       {{'C', men}, {'P', everyone()}, {'K', brothers}}, 22},
      {"{C} is {P.gen} {K}.", "{C} {P.ka~K} {K} है",
       {{'C', women}, {'P', everyone()}, {'K', sisters}}, 22},
      {"Who {is~S} {S}?", "{S} कौन {है~S}",
       {{'S', pronouns({"you", "he", "she", "they"}) + named() +
                  pointed_all("this", folk, kBoth) + pointed_all("that", folk, kBoth)}}, 20},
      {"{S} {is~S} from {C}.", "{S} {C} से {है~S}", {{'S', people()}, {'C', towns}}, 31},
      {"Where {is~S} {S} from?", "{S} कहाँ से {है~S}", {{'S', asked_people()}}, 16},
      {"{S} {live~S} in {C}.", "{S} {C} में {रहता~S} {है~S}", {{'S', people()}, {'C', towns}}, 35},
      {"{do~S} {S} live in {C}?", "क्या {S} {C} में {रहता~S} {है~S}",
       {{'S', asked_people()}, {'C', towns}}, 20},
  };
}

std::vector<Pattern> feelings() {
  const Fillers felt = each(kFeelings, feeling);
  const Fillers moods = adjectives(kMoods) + adjectives(kStates);
  const Fillers all = adjectives(kTraits) + moods;
  const Fillers degrees = adjectives(kTraits) + adjectives(kMoods);
  const Fillers few = and_everyone(my_family() + strangers());
  const Fillers asked = and_asked(my_family() + strangers());
  const Fillers ills = words(kAilments);
  return {
      {"{S} {is~S} {A}.", "{S} {A~S} {है~S}", {{'S', people()}, {'A', all}}, 70},
      {"{S} {is~S} very {A}.", "{S} बहुत {A~S} {है~S}", {{'S', people()}, {'A', degrees}}, 35},
      {"{S} {is~S} not {A}.", "{S} {A~S} नहीं {है~S}", {{'S', people()}, {'A', all}}, 40},
      {"{is~S} {S} {A}?", "क्या {S} {A~S} {है~S}", {{'S', asked_people()}, {'A', all}}, 40},
      {"Why {is~S} {S} {A}?", "{S} {A~S} क्यों {है~S}", {{'S', asked_people()}, {'A', moods}}, 24},
      {"{S} {was~S} {A} yesterday.", "{S} कल {A~S} {था~S}", {{'S', people()}, {'A', moods}}, 35},
      {"How {is~S} {S}?", "{S} {कैसा~S} {है~S}", {{'S', asked_people()}}, 20},
      {"{S} {is~S} {F}.", "{S.ko} {F.noun} {F.verb} है", {{'S', few}, {'F', felt}}, 35},
      {"{S} {is~S} not {F}.", "{S.ko} {F.noun} नहीं {F.verb} है", {{'S', few}, {'F', felt}}, 20},
      {"{is~S} {S} {F}?", "क्या {S.ko} {F.noun} {F.verb} है", {{'S', asked}, {'F', felt}}, 20},
      {"{S} {was~S} {F}.", "{S.ko} {F.noun} {F.verb} {था~F}", {{'S', few}, {'F', felt}}, 20},
      {"{S} {have~S} {I}.", "{S.ko} {I} है", {{'S', few}, {'I', ills}}, 20},
      {"{do~S} {S} have {I}?", "क्या {S.ko} {I} है", {{'S', asked}, {'I', ills}}, 16},
      {"{S} {have~S} {I}.", "{S.ke} {I} में दर्द है", {{'S', few}, {'I', words(kPains)}}, 20},
  };
}

std::vector<Pattern> family() {
  const Fillers jobs = each(kProfessions, profession);
  const Fillers workers = my_family() + your_family() + the_all({kPeople[2]}, kBoth);
  const Fillers owners = and_everyone(my_family());
  const Nouns kin = join(kKin);
  const Nouns child = {kPeople[0], kPeople[1], kPeople[4]};
  const Fillers young = pronouns({"I", "he", "she"}) + possessed_all("I", kin, kOne) +
                        possessed_all("you", kin, kOne) + the_all(child, kOne) + named();
  const Fillers grown = pronouns({"I", "you", "he", "she"}) + possessed_all("I", join(kSpouses), kOne);
  const Fillers elders = possessed_all("I", join(kElders), kOne) +
                         possessed_all("you", join(kElders), kOne);
  const Fillers own = bare_all(kin, kBoth) + bare_all(join(kElders, Nouns{kFamily}), kOne);
  return {
      {"{S} {is~S} {J~S}.", "{S} {J~S} {है~S}", {{'S', and_everyone(workers)}, {'J', jobs}}, 44},
      {"{S} {is~S} not {J~S}.", "{S} {J~S} नहीं {है~S}",
       {{'S', and_everyone(workers)}, {'J', jobs}}, 24},
      {"{is~S} {S} {J~S}?", "क्या {S} {J~S} {है~S}", {{'S', and_asked(workers)}, {'J', jobs}}, 24},
      {"{S} {want~S} to be {J~S}.", "{S} {J~S} बनना {चाहता~S} {है~S}",
       {{'S', everyone() + possessed_all("I", kin, kOne) + possessed_all("you", kin, kOne) +
                  the_all({kPeople[0], kPeople[4]}, kBoth)}, {'J', jobs}}, 26},
      {"{S} {have~S} {K}.", "{S.ka~K} {K} {है~K}",
       {{'S', owners}, {'K', counted_all({1, 2, 3, 4}, kin)}}, 44},
      {"{do~S} {S} have a {K}?", "क्या {S.ka~K} कोई {K} {है~K}",
       {{'S', and_asked(my_family())}, {'K', bare_all(kin, kOne)}}, 20},
      {"{S} {do~S} not have a {K}.", "{S.ka~K} कोई {K} नहीं {है~K}",
       {{'S', owners}, {'K', bare_all(kin, kOne)}}, 20},
      {"How many {K} {do~S} {S} have?", "{S.ka~K} {कितना~K} {K} {है~K}",
       {{'S', and_asked(my_family())}, {'K', bare_all(kin, kMany)}}, 20},
      {"{S} {is~S} {Q} years old.", "{S} {Q} साल {का~S} {है~S}",
       {{'S', young}, {'Q', numbers(5, 20)}}, 44},
      {"{S} {is~S} {Q} years old.", "{S} {Q} साल {का~S} {है~S}",
       {{'S', grown}, {'Q', numbers(20, 26)}}, 18},
      {"{S} {is~S} {Q} years old.", "{S} {Q} साल {का~S} {है~S}",
       {{'S', elders}, {'Q', numbers(23, 27)}}, 18},
      {"How old {is~S} {S}?", "{S} कितने साल {का~S} {है~S}", {{'S', asked_people()}}, 20},
      {"{S} {live~S} with {S.gen} {K}.", "{S} {अपना~K^} {K^} के साथ {रहता~S} {है~S}",
       {{'S', everyone()}, {'K', own}}, 32},
      {"{S} {love~S} {S.gen} {K}.", "{S} {अपना~K^} {K^} से प्यार {करता~S} {है~S}",
       {{'S', everyone()}, {'K', own}}, 32},
  };
}

std::vector<Pattern> each_other() {
  const Nouns folk = join(kPeople);
  const Fillers yours = possessed_all("you", join(kElders, kKin), kOne);
  const Fillers others = pronouns({"you"}) + yours + pointed_all("this", folk, kBoth) +
                         pointed_all("that", folk, kBoth) + named();
  const Fillers knowing = pronouns({"I", "he", "she", "we", "they"}) + my_family();
  const Fillers compared = named() + my_family() + strangers();
  return {
      {"{S} {love~S} {O.obj}.", "{S} {O.se} प्यार {करता~S} {है~S}",
       {{'S', pronouns({"I", "he", "she", "we", "they"})}, {'O', pronouns({"you"}) + named()}}, 20},
      {"{S} {know~S} {O.obj}.", "{S} {O.ko} {जानता~S} {है~S}", {{'S', knowing}, {'O', others}}, 32},
      {"{do~S} {S} know {O.obj}?", "क्या {S} {O.ko} {जानता~S} {है~S}",
       {{'S', pronouns({"he", "she", "they"}) + yours},
        {'O', pronouns({"I", "we"}) + my_family() + named()}}, 20},
      {"Please help {O.obj}.", "कृपया {O.ki} मदद कीजिए",
       {{'O', pronouns({"I", "he", "she", "we", "they"}) + my_family() + strangers() + named()}},
       20},
      {"{A} {is~A} taller than {B}.", "{A} {B^} से {लंबा~A} {है~A}",
       {{'A', compared}, {'B', compared}}, 32},
  };
}

std::vector<Pattern> doing() {
  const Fillers all = actions(kActions);
  const Fillers plain = without_article(all);
  return {
      {"{S} {is~S} {V.ing}.", "{S} {V.obj} {V.stem} {रहा~S} {है~S}",
       {{'S', people()}, {'V', all}}, 79},
      {"{S} {is~S} not {V.ing}.", "{S} {V.obj} नहीं {V.stem} {रहा~S} {है~S}",
       {{'S', people()}, {'V', plain}}, 44},
      {"{is~S} {S} {V.ing}?", "क्या {S} {V.obj} {V.stem} {रहा~S} {है~S}",
       {{'S', asked_people()}, {'V', all}}, 44},
      {"{S} {was~S} {V.ing}.", "{S} {V.obj} {V.stem} {रहा~S} {था~S}",
       {{'S', people()}, {'V', all}}, 44},
      {"What {is~S} {S} {V.ing}?", "{S} क्या {V.stem} {रहा~S} {है~S}",
       {{'S', asked_people()}, {'V', actions(kWithObject)}}, 35},
      {"Where {is~S} {S} going?", "{S} कहाँ जा {रहा~S} {है~S}", {{'S', asked_people()}}, 20},
      {"{S} {V~S} {T}.", "{S} {T} {V.obj} {V.ta~S} {है~S}",
       {{'S', people()}, {'V', all}, {'T', words(kHabits)}}, 70},
      {"{S} {V~S}.", "{S} {V.obj} {V.ta~S} {है~S}", {{'S', people()}, {'V', plain}}, 53},
      {"{S} {do~S} not {V}.", "{S} {V.obj} नहीं {V.ta!~S}", {{'S', people()}, {'V', plain}}, 53},
      {"{do~S} {S} {V}?", "क्या {S} {V.obj} {V.ta~S} {है~S}",
       {{'S', asked_people()}, {'V', plain}}, 44},
      {"Where {do~S} {S} {V}?", "{S} कहाँ {V.obj} {V.ta~S} {है~S}",
       {{'S', asked_people()}, {'V', actions(kWhereabouts)}}, 26},
      {"What {do~S} {S} do?", "{S} क्या {करता~S} {है~S}", {{'S', asked_people()}}, 24},
      {"{S} {get~S} up at {H} o'clock.", "{S} {H} बजे {उठता~S} {है~S}",
       {{'S', people()}, {'H', numbers(4, 9)}}, 26},
  };
}

std::vector<Pattern> wishing() {
  const Fillers all = actions(kActions);
  const Fillers plain = without_article(all);
  const Fillers able = actions(kAbilities);
  const Fillers targets = words(kCities) + words(kErrands);
  const Fillers lately = {word({"yesterday", "कल"}), word({"today", "आज"})};
  return {
      {"{S} can {V}.", "{S} {V.obj} {V.stem} {सकता~S} {है~S}", {{'S', people()}, {'V', able}}, 35},
      {"{S} cannot {V}.", "{S} {V.obj} नहीं {V.stem} {सकता!~S}",
       {{'S', people()}, {'V', able}}, 35},
      {"Can {S} {V}?", "क्या {S} {V.obj} {V.stem} {सकता~S} {है~S}",
       {{'S', asked_people()}, {'V', able}}, 32},
      {"{S} {want~S} to {V}.", "{S} {V.obj} {V.na} {चाहता~S} {है~S}",
       {{'S', people()}, {'V', all}}, 53},
      {"{S} {have~S} to {V}.", "{S.ko} {V.obj} {V.na~V} {है~V}",
       {{'S', people()}, {'V', all}}, 53},
      {"{S} went to {L} yesterday.", "{S} कल {L} {गया!~S}",
       {{'S', people()}, {'L', targets}}, 40},
      {"{S} came {T}.", "{S} {T} {आया!~S}", {{'S', people()}, {'T', lately}}, 24},
      {"Please {V}.", "कृपया {V.obj} {V.iye}", {{'V', all}}, 24},
      {"Please do not {V}.", "कृपया {V.obj} मत {V.iye}", {{'V', plain}}, 24},
  };
}

std::vector<Pattern> plans() {
  const Fillers all = actions(kActions) + actions(kComing);
  const Fillers plain = without_article(all);
  const Fillers met = pronouns({"you"}) + named() + possessed_all("you", join(kElders, kKin), kOne);
  return {
      {"{S} will {V} {T}.", "{S} {T} {V.obj} {V.ga~S}",
       {{'S', people()}, {'V', all}, {'T', times()}}, 97},
      {"{S} will not {V} {T}.", "{S} {T} {V.obj} नहीं {V.ga~S}",
       {{'S', people()}, {'V', plain}, {'T', times()}}, 53},
      {"Will {S} {V} {T}?", "क्या {S} {T} {V.obj} {V.ga~S}",
       {{'S', asked_people()}, {'V', all}, {'T', times()}}, 53},
      {"When will {S} {V}?", "{S} {V.obj} कब {V.ga~S}",
       {{'S', asked_people()}, {'V', plain}}, 44},
      {"{S} will meet {O.obj} {T}.", "{S} {T} {O.se} {मिलेगा~S}",
       {{'S', pronouns({"I", "he", "she", "we", "they"}) + my_family()}, {'O', met},
        {'T', times()}}, 44},
  };
}
// clang-format on

}  // namespace

std::vector<Pattern> patterns_about_people() {
  std::vector<Pattern> all;
  for (const auto topic : {names, feelings, family, each_other, doing, wishing, plans}) {
    for (Pattern& pattern : topic()) all.push_back(std::move(pattern));
  }
  return all;
}

}  // namespace tril::phrasebook
