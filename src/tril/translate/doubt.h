// Whether a text is plainly not in the language that a model reads. A model translates anything,
// and what it makes of text it has never seen the like of looks like a translation.
#pragma once

#include <string>
#include <string_view>

#include "tril/translate/translator.h"

namespace tril {

// Empty, or one line for people that says why: most letters of the line are of another script than
// the language's, or more than half its words consist of letters that the tokenizer never learnt
// (they become unknown, bytes, or single characters). The language is that of `languages.from`, a
// code of any kind, or where it is empty the model's own; where nobody says which it is, only the
// tokenizer counts. Languages of one script are not
// told apart (detect_language() does that). Without doubt about names, numbers, pictures,
// addresses, code and single foreign words; empty too for text that is not UTF-8. The tokenizer's
// letters are collected at the first call for a Translator; after that a call costs a small part
// of tokenizing the line. Any number of threads may call it.
std::string doubt_about(const Translator& translator, std::string_view line,
                        const LanguagePair& languages = {});

}  // namespace tril
