#include "tril/explain/encode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tril {

static_assert(std::endian::native == std::endian::little, "the page reads little-endian numbers");

std::string base85(std::span<const uint8_t> bytes) {
  std::string text;
  text.reserve((bytes.size() + 3) / 4 * 5);
  for (size_t i = 0; i < bytes.size(); i += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(4, bytes.size() - i));
    char digits[5];
    for (int d = 4; d >= 0; --d) {
      digits[d] = kBase85Digits[word % 85];
      word /= 85;
    }
    text.append(digits, 5);
  }
  return text;
}

std::string base85(std::span<const float> values) {
  return base85(std::span(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()));
}

std::string base85(std::span<const int16_t> values) {
  return base85(std::span(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()));
}

Rounded round_rows(std::span<const float> values, int64_t width) {
  constexpr float kMost = 32767.0f;
  Rounded result;
  result.values.reserve(values.size());
  const auto columns = static_cast<size_t>(width);
  for (size_t row = 0; row < values.size(); row += columns) {
    float largest = 0.0f;
    for (size_t i = row; i < row + columns; ++i) largest = std::max(largest, std::fabs(values[i]));
    const float scale = largest / kMost;
    result.scales.push_back(scale);
    for (size_t i = row; i < row + columns; ++i) {
      const float whole = scale > 0.0f ? std::nearbyint(values[i] / scale) : 0.0f;
      result.values.push_back(static_cast<int16_t>(std::clamp(whole, -kMost, kMost)));
    }
  }
  return result;
}

std::vector<float> unrounded(const Rounded& rounded, int64_t width) {
  std::vector<float> values;
  values.reserve(rounded.values.size());
  for (size_t i = 0; i < rounded.values.size(); ++i) {
    values.push_back(static_cast<float>(rounded.values[i]) *
                     rounded.scales[i / static_cast<size_t>(width)]);
  }
  return values;
}

std::string script_safe(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i);
    if (json[i] == '<') {
      safe += "\\u003c";
    } else if (json[i] == '>') {
      safe += "\\u003e";
    } else if (json[i] == '&') {
      safe += "\\u0026";
    } else if (rest.starts_with("\xE2\x80\xA8")) {
      safe += "\\u2028";
      i += 2;
    } else if (rest.starts_with("\xE2\x80\xA9")) {
      safe += "\\u2029";
      i += 2;
    } else {
      safe += json[i];
    }
  }
  return safe;
}

}  // namespace tril
