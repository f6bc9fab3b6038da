// The files of page/, embedded in the library at build time (cmake/embed_page.cmake). Internal to
// explain/.
#pragma once

#include <string_view>

namespace tril {

// HTML with placeholders {{style}}, {{architecture}}, {{script}} and {{data}}, in this order; its
// policy names the hashes of style and script.
std::string_view page_template();
std::string_view page_style();
// All modules as one script, without their imports and exports.
std::string_view page_script();

}  // namespace tril
