// Where a text may be cut: sentences, and places within one that is too long for a model.
//
// A sentence ends with . ! ? … or their counterparts in other scripts (। ॥ ؟ ۔ 。！？ ։ ። ។ ...),
// and with the quotation marks and brackets that close after them. Marks that do not end one are
// told by what surrounds them: the dot of an abbreviation (Dr., z. B.), of initials (J. R. R.), of
// a number (3.14), of an ordinal (3. Oktober), of a name without blanks (tril.h, example.org), or
// one before a small letter. Before a script without capitals, several dots end no sentence, and a
// quotation only one that another follows. Chinese and Japanese marks end a sentence without a
// blank after them, the others need one. The rules are small and err on the side of not cutting.
//
// Nothing is lost: the parts of a text joined are the text, byte for byte. A cut never falls within
// a grapheme cluster (a letter with its marks, a picture made of several). Time is linear in the
// text. All functions are pure. Text must be valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tril {

// A sentence without white space at its ends, and the white space before it.
struct TextUnit {
  std::string_view before;
  std::string_view sentence;
};

struct CutText {
  std::vector<TextUnit> units;  // none where the text is white space alone
  std::string_view after;       // the white space after the last
};

// All views point into the text. `language`: a code of any kind (text/languages.h), whose
// abbreviations then count; empty or unknown: those of every language that are no words.
CutText cut_sentences(std::string_view text, std::string_view language = {});

// The text without white space at its ends: what lies between the outer two gaps of
// cut_sentences(). A blank with a mark on it is a character and stays.
std::string_view without_outer_blanks(std::string_view text);

// How good a place to cut is, the best last.
enum class CutPlaceKind : uint8_t {
  cluster,  // between two characters of a word
  bare,     // likewise, in a script that is written without blanks
  blank,    // at white space
  clause,   // after ; : , – or their counterparts in other scripts
};

// The text before `end` and that from `next` on can stand alone; white space lies in between.
struct CutPlace {
  size_t end = 0;
  size_t next = 0;
  CutPlaceKind kind = CutPlaceKind::cluster;
};

// Every place within the text, ascending; never its beginning or its end.
std::vector<CutPlace> cut_places(std::string_view text);

}  // namespace tril
