// Languages by their codes: which language a code means, in what script it is written, which of a
// model's codes a client means, and in which language a text is.
//
// Codes of all kinds are read: "en", "EN-US", "en_XX", "eng_Latn", "__en__", ">>eng<<", "<2en>".
// All functions are pure and give the same on every machine.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

// The language without script and region: its code of two letters (ISO 639-1) where it has one,
// otherwise of three; of a group that ISO 639-1 has one code for, the usual member is that code
// ("arb" is "ar", Egyptian "arz" stays). A code of two or three letters that is not known comes
// back in small letters; anything else gives "".
std::string base_language(std::string_view code);
// By ISO 15924 ("Latn", "Deva", "Hans"): as the code says, or the one in which the language is
// usually written, in that region; "" where that is not known.
std::string script_of_language(std::string_view code);
// In English: "German", "Chinese (traditional)", "Portuguese (Brazil)"; the code itself where the
// language is not known.
std::string language_name(std::string_view code);
// Whether no blank is written between two sentences: Chinese and Japanese. (Thai, Lao, Khmer and
// Burmese have none between words, but between sentences.)
bool joins_sentences(std::string_view code);

// Which of these codes is meant: the same one; else, the language and the script being the same,
// the one of the same region, the one without a region, or the first. Nothing where the language is
// not there, or not in that script, or in several scripts of which none is asked for and none is
// the usual one.
std::optional<std::string> find_language(std::span<const std::string> codes,
                                         std::string_view wanted);

struct DetectedLanguage {
  std::string code;         // as the candidate was given
  double confidence = 0.0;  // 0 to 1; of all candidates together at most 1
};

// In which of these languages the text is, the likeliest first, those left out that it cannot be.
// By its script, and among languages that share one by frequent words, letters and endings; those
// of which nothing but the script is known come last. Languages that are no candidates count too:
// Spanish text is not confidently English. Empty where the text has no letters or is in a script of
// no candidate. Of a long text the first 4,000 bytes count. Text must be valid UTF-8.
std::vector<DetectedLanguage> detect_language(std::string_view text,
                                              std::span<const std::string> candidates);

}  // namespace tril
