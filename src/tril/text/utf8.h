// UTF-8, checked byte by byte (RFC 3629).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tril {

// Where the first character begins that is not UTF-8: a stray or missing continuation byte, a form
// longer than needed, a surrogate, or a number above U+10FFFF. Nothing when all is well.
std::optional<size_t> first_invalid_utf8(std::string_view text);

}  // namespace tril
