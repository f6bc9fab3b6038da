// How numbers and text are stored inside a page. Internal to explain/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

// Bytes as text: every 4 bytes, as a little-endian number, become 5 characters of kBase85Digits,
// most significant first; zeros are added at the end. None of the digits has a meaning in HTML or
// in a JSON string.
constexpr std::string_view kBase85Digits =
    "!#$%()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{";
static_assert(kBase85Digits.size() == 85);
std::string base85(std::span<const uint8_t> bytes);
std::string base85(std::span<const float> values);

// Sixteen bits per number: rows of `width` values, each row stored as a scale and integers up to
// 32767. A value is off by at most half a scale, the scale being the row's largest magnitude /
// 32767.
struct Rounded {
  std::vector<float> scales;
  std::vector<int16_t> values;
};
Rounded round_rows(std::span<const float> values, int64_t width);
std::vector<float> unrounded(const Rounded& rounded, int64_t width);  // as a page reads them
std::string base85(std::span<const int16_t> values);

// JSON that may stand between <script> tags: '<', '>', '&' and the two Unicode line separators,
// which JavaScript's older grammar treats as line ends, are written as escapes. In JSON these occur
// in strings only.
std::string script_safe(std::string_view json);

}  // namespace tril
