// Letters: the script each belongs to, and small and capital forms. Internal to text/ and
// translate/. All functions are pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace tril {

// Scripts of living languages; `other` is any that is not listed.
enum class Script : uint8_t {
  none,  // not a letter
  other,
  latin,
  cyrillic,
  greek,
  armenian,
  hebrew,
  arabic,
  devanagari,
  bengali,
  gurmukhi,
  gujarati,
  oriya,
  tamil,
  telugu,
  kannada,
  malayalam,
  sinhala,
  thai,
  lao,
  tibetan,
  burmese,
  georgian,
  hangul,
  ethiopic,
  khmer,
  kana,
  han,
  tifinagh,
  ol_chiki,
  meetei,
  thaana,
  count
};

// By Unicode's classes a letter; vowel signs and other marks are none.
Script script_of_letter(char32_t character);
// The four letters of ISO 15924, "" for `none` and `other`. Kana is "Jpan".
std::string_view script_code(Script script);
// In English.
std::string_view script_name(Script script);
// The script of a code, those of several writing systems as their letters: "Hans" and "Hant" are
// han, "Jpan" is kana, "Kore" is hangul. `none` for a code that is not known.
Script script_from_code(std::string_view code);
// Words of this script are written without blanks between them.
bool is_written_without_blanks(Script script);

// The small letter of a capital one, of Latin, Cyrillic, Greek and Armenian; any other character
// itself.
char32_t small_letter(char32_t character);
bool is_capital_letter(char32_t character);
bool is_small_letter(char32_t character);

}  // namespace tril
