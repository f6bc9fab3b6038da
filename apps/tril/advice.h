// What to do about an error or a notice of the library, with the flags of this program. The library
// names a field of its options (base/error.h); here stands what that field is called on the command
// line.
#pragma once

#include <string>
#include <string_view>

#include "tril/base/error.h"

namespace tril::app {

// "…; give a smaller --rate": the text, and behind it what can be done about the field. Where the
// advice is a command, it is given for this folder.
std::string with_advice(std::string_view text, std::string_view field,
                        std::string_view folder = "FOLDER");

}  // namespace tril::app
