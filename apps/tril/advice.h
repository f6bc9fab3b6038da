// Advice on an error or a notice of the library, in terms of this program's flags. The library
// names a field of its options (base/error.h); this says what that field is called on the command
// line.
#pragma once

#include <string>
#include <string_view>

#include "tril/base/error.h"

namespace tril::app {

// "…; give a smaller --rate": the text followed by what can be done about the field. Where the
// advice is a command, it is written for this folder.
std::string with_advice(std::string_view text, std::string_view field,
                        std::string_view folder = "FOLDER");

}  // namespace tril::app
