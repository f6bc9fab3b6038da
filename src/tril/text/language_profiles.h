// What tells languages apart that share a script: written down by hand, a few hundred bytes for
// each. Internal to text/.
#pragma once

#include <span>
#include <string_view>

#include "tril/text/letters.h"

namespace tril {

// Lists have blanks between. All in small letters.
struct LanguageProfile {
  std::string_view base;  // base_language()
  Script script = Script::none;
  // Frequent words. (Words of one letter count little.)
  std::string_view words;
  // The letters it uses besides plain_letters(script).
  std::string_view letters;
  // About how many of 100 words have one of these.
  int with_letters = 0;
  // Plain letters that hardly occur in it but in foreign words.
  std::string_view rare;
  // Frequent parts of words, with _ for their beginning and end.
  std::string_view parts;
};

std::span<const LanguageProfile> language_profiles();
// Letters that say nothing, because most languages of the script use them. "" where all do.
std::string_view plain_letters(Script script);

}  // namespace tril
