// Sentences about things, food, places and time, English and Hindi side by side.
// phrasebook_grammar.h explains patterns.
#include <utility>

#include "tril/lesson/phrasebook_fillers.h"

namespace tril::phrasebook {
namespace {

Nouns portable() { return join(kThings, Nouns{kPicture}, kContainers); }
Nouns countable_food() { return join(kFruit, kSnacks); }

// clang-format off
std::vector<Pattern> single_words() {
  const Nouns nouns = join(kElders, kSpouses, kKin, Nouns{kFamily}, kPeople, portable(), kFurniture,
                           kDoors, kAnimals, countable_food(), kDrinks, kFood, kSpices, kPlaces,
                           kSights, kHomes, kSubjects, Nouns{kCar, kTree, kKitchen});
  const Fillers others = adjectives(kQualities) + adjectives(kAges) + adjectives(kPrices) +
                         adjectives(kColours) + adjectives(kTraits) + adjectives(kMoods) +
                         adjectives(kOpen) + adjectives(kTastes) + words(kDays) + words(kNumbers);
  return {
      {"{N}", "{N}", {{'N', bare_all(nouns, kOne) + others}}, 400, Pattern::only_train},
      {"{N}", "{N}",
       {{'N', counted_all({1, 2, 3, 5, 8, 10, 20}, portable()) +
                  counted_all({1, 2, 4, 6, 7, 12}, countable_food()) +
                  counted_all({2, 3, 9}, join(kAnimals)) +
                  counted_all({1, 2, 11, 15}, join(kKin))}}, 53},
  };
}

std::vector<Pattern> pointing() {
  const Fillers things = bare_all(portable(), kBoth);
  const Fillers coloured = bare_all(join(kThings, kContainers), kBoth);
  const Fillers animals = bare_all(join(kAnimals), kBoth);
  const Nouns lasting = join(kHomes, kFurniture, Nouns{kCar});
  const Fillers large = bare_all(lasting, kBoth);
  const Fillers qualities = adjectives(kQualities) + adjectives(kAges);
  const Fillers looks = qualities + adjectives(kPrices) + adjectives(kColours);
  const Fillers kin = bare_all(join(kElders, kKin), kOne) + bare_all(join(kKin), kMany);
  const Fillers owners = my_family() + named();
  return {
      {"{this~N} {is~N} {P.gen} {N}.", "{यह~N} {P.ka~N} {N} {है~N}",
       {{'N', things + kin}, {'P', everyone()}}, 53},
      {"{this~N} {is~N} {P.gen} {N}.", "{यह~N} {P.ka~N} {N} {है~N}",
       {{'N', things}, {'P', owners + your_family() + their_family()}}, 44},
      {"Whose {N} {is~N} {this~N}?", "{यह~N} {किसका~N} {N} {है~N}",
       {{'N', things + large + animals}}, 24},
      {"{this~N} {N} {is~N} {A}.", "{यह~N} {N} {A~N} {है~N}",
       {{'N', coloured}, {'A', looks}}, 53},
      {"{that~N} {N} {is~N} {A}.", "{वह~N} {N} {A~N} {है~N}",
       {{'N', large + things}, {'A', qualities}}, 44},
      {"{that~N} {N} {is~N} {A}.", "{वह~N} {N} {A~N} {है~N}",
       {{'N', animals}, {'A', adjectives(kQualities)}}, 20},
      {"{this~N} {N} {is~N} very {A}.", "{यह~N} {N} बहुत {A~N} {है~N}",
       {{'N', large + things}, {'A', qualities}}, 35},
      {"{is~N} {this~N} {N} {A}?", "क्या {यह~N} {N} {A~N} {है~N}",
       {{'N', coloured}, {'A', looks}}, 32},
      {"{that~N} {N} {is~N} not {A}.", "{वह~N} {N} {A~N} नहीं {है~N}",
       {{'N', things + large}, {'A', qualities}}, 32},
      {"This is a {A} {N}.", "यह एक {A~N} {N} है",
       {{'A', qualities}, {'N', bare_all(join(portable(), lasting), kOne)}}, 32},
      {"These are {A} {N}.", "ये {A~N} {N} {है~N}",
       {{'A', looks}, {'N', bare_all(join(kThings, kContainers), kMany)}}, 32},
      {"{P.gen} {N} {is~N} {A}.", "{P.ka~N} {N} {A~N} {है~N}",
       {{'P', and_everyone(owners)}, {'N', coloured}, {'A', looks}}, 70},
      {"This {N} is {A.er} than that {N}.", "यह {N} उस {N^} से {A~N} है",
       {{'N', bare_all(join(portable(), kHomes, kAnimals), kOne)},
        {'A', comparable(adjectives(kQualities))}}, 32},
  };
}

std::vector<Pattern> having() {
  const Fillers single = bare_all(portable(), kOne);
  const Fillers owners = and_everyone(my_family());
  const Fillers asked = and_asked(my_family());
  const Fillers had = counted_all({1, 2, 3, 4, 5, 10}, portable()) +
                      counted_all({1, 2}, join(kAnimals, Nouns{kCar}));
  const Fillers shown = pointed_all("this", portable(), kBoth) +
                        pointed_all("that", portable(), kBoth);
  const Fillers sold = shown + pointed_all("this", countable_food(), kMany) +
                       pointed_all("that", countable_food(), kMany);
  const Fillers bought = counted_all({1, 2, 3}, portable()) +
                         counted_all({1, 2, 4, 6}, countable_food());
  const Fillers receivers = and_everyone(my_family() + the_all(join(kPeople), kMany) + named());
  return {
      {"{S} {have~S} {N}.", "{S.ke} पास {N} {है~N}", {{'S', owners}, {'N', had}}, 62},
      {"{do~S} {S} have a {N}?", "क्या {S.ke} पास कोई {N} है", {{'S', asked}, {'N', single}}, 26},
      {"{S} {do~S} not have a {N}.", "{S.ke} पास कोई {N} नहीं है",
       {{'S', owners}, {'N', single}}, 26},
      {"How many {N} {do~S} {S} have?", "{S.ke} पास {कितना~N} {N} {है~N}",
       {{'S', asked}, {'N', bare_all(join(portable(), kAnimals), kMany)}}, 32},
      {"How much {is~N} {N}?", "{N} कितने {का~N} {है~N}", {{'N', sold}}, 26},
      {"{N} {cost~N} {Q} rupees.", "{N} {Q} रुपये {का~N} {है~N}",
       {{'N', shown}, {'Q', numbers(20, 28)}}, 40},
      {"{N} {is~N} for {S.obj}.", "{N} {S.ke} लिए {है~N}",
       {{'N', shown}, {'S', receivers}}, 40},
      {"{S} bought {N}.", "{S.ne} {N} {खरीदा!~N}", {{'S', people()}, {'N', bought}}, 62},
  };
}

std::vector<Pattern> food() {
  const Fillers plenty = bare_all(join(kDrinks, kFood), kOne) + bare_all(countable_food(), kMany);
  const Fillers liked = plenty + bare_all(join(kSubjects), kOne) + words(kCities) +
                        pointed_all("this", join(kThings), kOne) + bare_all(join(kAnimals), kMany);
  const Fillers needed = plenty + bare_all(join(kSpices), kOne);
  const Fillers wanted = needed + counted_all({1, 2, 3, 5}, countable_food());
  const Fillers given = wanted + counted_all({1, 2}, portable());
  const Fillers receivers = pronouns({"I", "we", "he", "she", "they"}) + my_family() +
                            the_all(join(kPeople), kMany);
  const Fillers dishes = the_all(join(kDrinks, Nouns{kFood[0]}), kOne) +
                         the_all(join(kSnacks), kMany);
  return {
      {"{S} {want~S} {N}.", "{S.ko} {N} चाहिए", {{'S', people()}, {'N', wanted}}, 62},
      {"{S} {do~S} not want {N}.", "{S.ko} {N} नहीं चाहिए", {{'S', people()}, {'N', needed}}, 35},
      {"{do~S} {S} want {N}?", "क्या {S.ko} {N} चाहिए",
       {{'S', asked_people()}, {'N', needed}}, 35},
      {"{S} {like~S} {N}.", "{S.ko} {N} पसंद {है~N}", {{'S', people()}, {'N', liked}}, 62},
      {"{S} {do~S} not like {N}.", "{S.ko} {N} पसंद नहीं {है~N}",
       {{'S', people()}, {'N', liked}}, 40},
      {"{do~S} {S} like {N}?", "क्या {S.ko} {N} पसंद {है~N}",
       {{'S', asked_people()}, {'N', liked}}, 40},
      {"Please give {O.obj} {N}.", "कृपया {O.ko} {N} दीजिए",
       {{'O', receivers}, {'N', given}}, 53},
      {"Give {O.obj} {N}.", "{O.ko} {N} दीजिए", {{'O', receivers}, {'N', given}}, 32},
      {"Please bring {N}.", "कृपया {N} लाइए", {{'N', given}}, 24},
      {"{N} {is~N} {A}.", "{N} {A~N} {है~N}", {{'N', dishes}, {'A', adjectives(kTastes)}}, 32},
      {"{N} {is~N} very {A}.", "{N} बहुत {A~N} {है~N}",
       {{'N', the_all(join(kFruit), kMany)},
        {'A', adjectives(kPrices) + Fillers{adjective(kSweet), adjective(kTastes[0])}}}, 16},
      {"{S} ate {N}.", "{S.ne} {N} {खाया!~N}",
       {{'S', people()}, {'N', counted_all({1, 2, 3, 4}, countable_food())}}, 44},
      {"{S} drank {N}.", "{S.ne} {N} {पिया!~N}",
       {{'S', people()}, {'N', bare_all(join(kDrinks), kOne)}}, 32},
  };
}

std::vector<Pattern> places() {
  const Fillers all = the_all(join(kPlaces), kOne);
  const Fillers sights = the_all(join(kSights), kOne);
  const Fillers things = the_all(join(kThings, Nouns{kPicture}), kBoth);
  const Fillers animals = the_all(join(kAnimals), kBoth);
  const Fillers doors = the_all(join(kDoors), kBoth);
  const Fillers closable = doors + the_all(join(kContainers), kOne) +
                           pointed_all("this", join(kDoors), kOne);
  const Fillers open = adjectives(kOpen);
  return {
      {"Where {is~N} {N}?", "{N} कहाँ {है~N}",
       {{'N', all + sights + things + animals + my_family() + your_family()}}, 62},
      {"How far {is~N} {N}?", "{N} कितनी दूर {है~N}", {{'N', all + sights + words(kCities)}}, 17},
      {"How do I go to {N}?", "मैं {N} कैसे जाऊँ", {{'N', all + words(kCities)}}, 14},
      {"{A} is {X} {B}.", "{A} {B^} {X} है",
       {{'A', all}, {'X', prepositions({"near", "behind", "in front of"})}, {'B', all + the_all({kSights[0], kSights[1]}, kOne)}},
       40},
      {"Is there a {A} near {B}?", "क्या {B^} के पास कोई {A} है",
       {{'A', bare_all(join(kPlaces), kOne)}, {'B', all}}, 26},
      {"Please {V} {N}.", "कृपया {N} {V}",
       {{'V', {word({"open", "खोलिए"}), word({"close", "बंद कीजिए"})}}, {'N', closable}}, 16},
      {"{N} {is~N} {A}.", "{N} {A~N} {है~N}", {{'N', all + doors}, {'A', open}}, 22},
      {"{N} {is~N} {A} on {D}.", "{N} {D} को {A~N} {रहता~N} {है~N}",
       {{'N', all}, {'A', open}, {'D', words(kDays)}}, 32},
  };
}

std::vector<Pattern> whereabouts() {
  const Noun& room = kHomes[1];
  const Noun& bag = kContainers[0];
  const Noun& box = kContainers[1];
  const Nouns furniture = join(kFurniture);
  const Fillers things = the_all(join(kThings, Nouns{kPicture}), kBoth);
  const Fillers counted = counted_all({1, 2, 3, 4, 6}, join(kThings, Nouns{kPicture}));
  const Fillers animals = the_all(join(kAnimals), kBoth);
  const Fillers tops = the_all(furniture, kOne) + pointed_all("this", furniture, kOne) +
                       pointed_all("that", furniture, kOne);
  const Fillers inside = the_all({room, box}, kBoth) + pointed_all("this", {room, box}, kOne) +
                         pointed_all("that", {room, box}, kOne) +
                         possessed_all("I", {room, bag}, kOne) +
                         possessed_all("you", {room, bag}, kOne);
  const Fillers tree = the_all({kTree}, kOne);
  const Fillers outside = the_all({kTree, kCar, kHomes[0], kDoors[0]}, kOne) +
                          possessed_all("I", {kHomes[0]}, kOne) +
                          possessed_all("you", {kHomes[0]}, kOne);
  const Fillers here = words(kRightThere) +
                       in_the_all({kPlaces[1], kPlaces[2], kPlaces[4], kPlaces[5], kPlaces[6],
                                   kPlaces[7], kPlaces[8], kKitchen, kSights[1], room});
  const Fillers in = prepositions({"in"});
  const Fillers on = prepositions({"on", "under"});
  return {
      {"{N} {is~N} {X} {L}.", "{N} {L^} {X} {है~N}",
       {{'N', things}, {'X', prepositions({"on", "under", "near"})}, {'L', tops}}, 44},
      {"{N} {is~N} {X} {L}.", "{N} {L^} {X} {है~N}", {{'N', things}, {'X', in}, {'L', inside}}, 44},
      {"{N} {is~N} {X} {L}.", "{N} {L^} {X} {है~N}",
       {{'N', animals}, {'X', prepositions({"near", "behind", "in front of"})}, {'L', outside}}, 32},
      {"{N} {is~N} {X} {L}.", "{N} {L^} {X} {है~N}",
       {{'N', animals}, {'X', prepositions({"under"})}, {'L', tree}}, 8},
      {"There {is~N} {N} {X} {L}.", "{L^} {X} {N} {है~N}",
       {{'N', counted}, {'X', on}, {'L', tops}}, 35},
      {"There {is~N} {N} {X} {L}.", "{L^} {X} {N} {है~N}",
       {{'N', counted}, {'X', in}, {'L', inside}}, 35},
      {"{S} {is~S} {L}.", "{S} {L} {है~S}", {{'S', people()}, {'L', here}}, 53},
      {"{S} {is~S} not {L}.", "{S} {L} नहीं {है~S}", {{'S', people()}, {'L', here}}, 32},
      {"{is~S} {S} {L}?", "क्या {S} {L} {है~S}", {{'S', asked_people()}, {'L', here}}, 40},
      {"{S} {was~S} {L} yesterday.", "{S} कल {L} {था~S}", {{'S', people()}, {'L', here}}, 40},
      {"{S} {live~S} in a {A} {N}.", "{S} एक {A~N^} {N^} में {रहता~S} {है~S}",
       {{'S', people()}, {'A', adjectives(kQualities) + adjectives(kAges)},
        {'N', bare_all(join(kHomes), kOne)}}, 44},
  };
}

std::vector<Pattern> clock() {
  const Fillers days = words(kDays);
  const Fillers today = {word({"today", "आज"}), word({"tomorrow", "कल"})};
  const Fillers morning = {word({"morning", "सुबह"})};
  const Fillers afternoon = {word({"afternoon", "दोपहर"})};
  const Fillers evening = {word({"evening", "शाम"})};
  return {
      {"It is {H} o'clock.", "{H} {बजा~H} {है~H}", {{'H', numbers(1, 12)}}, 12},
      {"Is it {H} o'clock?", "क्या {H} {बजा~H} {है~H}", {{'H', numbers(1, 12)}}, 12},
      {"It is half past {H}.", "साढ़े {H} {बजा~H} {है~H}", {{'H', numbers(3, 12)}}, 10},
      {"It is quarter past {H}.", "सवा {H} {बजा~H} {है~H}", {{'H', numbers(2, 12)}}, 11},
      {"It is quarter to {H}.", "पौने {H} {बजा~H} {है~H}", {{'H', numbers(2, 12)}}, 11},
      {"It is {H} o'clock in the {D}.", "{D} {का~H} {H} {बजा~H} {है~H}",
       {{'H', numbers(5, 11)}, {'D', morning}}, 7},
      {"It is {H} o'clock in the {D}.", "{D} {का~H} {H} {बजा~H} {है~H}",
       {{'H', numbers(1, 4)}, {'D', afternoon}}, 4},
      {"It is {H} o'clock in the {D}.", "{D} {का~H} {H} {बजा~H} {है~H}",
       {{'H', numbers(5, 8)}, {'D', evening}}, 4},
      {"{T} is {D}.", "{T} {D} है", {{'T', today}, {'D', days}}, 14},
      {"Is {T} {D}?", "क्या {T} {D} है", {{'T', today}, {'D', days}}, 14},
      {"Yesterday was {D}.", "कल {D} था", {{'D', days}}, 7},
      {"The train comes {T}.", "ट्रेन {T} आती है", {{'T', clock_times()}}, 12},
      {"The train will come {T}.", "ट्रेन {T} आएगी", {{'T', times()}}, 23},
      {"See you {T}.", "{T} मिलेंगे", {{'T', times()}}, 23},
  };
}
// clang-format on

}  // namespace

std::vector<Pattern> patterns_about_things() {
  std::vector<Pattern> all;
  for (const auto topic : {single_words, pointing, having, food, places, whereabouts, clock}) {
    for (Pattern& pattern : topic()) all.push_back(std::move(pattern));
  }
  return all;
}

}  // namespace tril::phrasebook
