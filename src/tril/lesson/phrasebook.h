// The English→Hindi phrasebook that `tril demo` learns: a small grammar of everyday sentences.
//
// Tables of patterns (phrasebook_people.cpp, phrasebook_things.cpp) crossed with a lexicon
// (phrasebook_words.h) gives some thousand distinct pairs; inflection and agreement are composed
// (phrasebook_grammar.h). An English sentence has exactly one Hindi translation. Where Hindi has a
// choice, the phrasebook always makes the same one, so that it can be learnt:
//  - The speaker is a man: I go, मैं जाता हूँ. "You" is आप, spoken to politely as to a man:
//    आप जाते हैं. "We" and "they" are men: हम, वे. "He" and "she" are वह; the verb tells which.
//  - Parents, grandparents, husband and wife are honoured with the plural: मेरे पिताजी घर पर हैं,
//    मेरी माँ डॉक्टर हैं. All others are not: मेरा भाई लंबा है. Grandparents are the father's.
//  - "A" is एक before a thing; कोई where one asks whether there is one or denies it
//    (क्या आपके पास कोई किताब है); nothing before a profession (वह डॉक्टर है). "The" is not
//    translated.
//  - Denied habits and abilities go without है, and a feminine plural then shows on the verb:
//    वह चाय नहीं पीता, मेरी माँ चाय नहीं पीतीं. Commands are polite: बैठिए.
//  - "My" is अपना where it points back to the subject: मैं अपनी माँ से प्यार करता हूँ.
//  - Spelling: nukta in ड़ ढ़ ज़ फ़ (letter and sign apart, which is NFC), none in क ख ग (खुश);
//    chandrabindu where no vowel sign stands above the line (हूँ, पाँच), else anusvara, also for
//    a nasal before its consonant (हिंदी, लंबा). No punctuation at all.
#pragma once

#include <string>
#include <vector>

namespace tril {

struct PhrasePair {
  std::string english;
  std::string hindi;
};

struct Phrasebook {
  // Fixed phrases, words, and combinations of patterns and words; frequent ones and some of the
  // others also as people type them: "i'm fine", "how are you".
  std::vector<PhrasePair> train;
  // Combinations that are in train in no spelling, although it has their pattern with the same
  // agreement in at least three pairs, and each of their words, English and Hindi, in at least
  // five.
  std::vector<PhrasePair> held_out;
};

Phrasebook make_phrasebook();  // the same every time

}  // namespace tril
