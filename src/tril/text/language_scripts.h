// The scripts of a language. Internal to text/ and translate/.
#pragma once

#include <string_view>
#include <vector>

#include "tril/text/letters.h"

namespace tril {

// Those that a text in this language may be in: the script that its code names; else the usual one
// and others that are in use. Japanese is kana and han. Empty where nothing is known.
std::vector<Script> scripts_of_language(std::string_view code);

}  // namespace tril
