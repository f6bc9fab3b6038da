// UTF-8, checked byte by byte (RFC 3629).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tril {

// The position of the first invalid character: a stray or missing continuation byte, an overlong
// form, a surrogate, or a number above U+10FFFF. Nothing when the text is valid.
std::optional<size_t> first_invalid_utf8(std::string_view text);

}  // namespace tril
