// How numbers and text travel inside a page. Internal to explain/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

// Bytes as text: each 4 become 5 characters of kBase85Digits, most significant first, of the
// little-endian number they are; at the end zeros are added. None of the digits means anything in
// HTML or in a JSON string.
constexpr std::string_view kBase85Digits =
    "!#$%()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{";
static_assert(kBase85Digits.size() == 85);
std::string base85(std::span<const uint8_t> bytes);
std::string base85(std::span<const float> values);

// Sixteen bits a number: rows of `width` values, each row a scale and whole numbers up to 32767 of
// it. A value is off by half a scale at most, the scale being the row's largest magnitude / 32767.
struct Rounded {
  std::vector<float> scales;
  std::vector<int16_t> values;
};
Rounded round_rows(std::span<const float> values, int64_t width);
std::vector<float> unrounded(const Rounded& rounded, int64_t width);  // as a page reads them
std::string base85(std::span<const int16_t> values);

// JSON that may stand between <script> tags: '<', '>', '&' and the two line ends that are none in
// JavaScript's older grammar are written as escapes. In JSON these stand in strings only.
std::string script_safe(std::string_view json);

}  // namespace tril
