#include "tril/text/scoring.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "tril/base/error.h"
#include "tril/text/utf8.h"
#include "tril/version.h"

namespace tril {

void check_utf8(std::string_view operation, std::string_view name, std::string_view text) {
  if (const std::optional<size_t> at = first_invalid_utf8(text)) {
    fail(ErrorCode::invalid_argument, operation, ": expected UTF-8, ", name, " is none at byte ",
         *at + 1);
  }
}

void check_segment(std::string_view operation, std::string_view hypothesis,
                   std::span<const std::string_view> references) {
  require(!references.empty(), ErrorCode::invalid_argument, operation,
          ": expected at least one reference, got none");
  check_utf8(operation, "the hypothesis", hypothesis);
  for (size_t i = 0; i < references.size(); ++i) {
    check_utf8(operation, concat("reference ", i + 1), references[i]);
  }
}

void ReferenceCount::add(const ReferenceCount& other) {
  if (other.min == 0) return;
  min = min == 0 ? other.min : std::min(min, other.min);
  max = std::max(max, other.max);
}

std::string to_string(const ReferenceCount& count) {
  return count.min == count.max ? concat(count.min) : "var";
}

std::string fixed(double value, int decimals) {
  std::array<char, 400> digits{};  // the largest double has 309 digits before the point
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                    std::chars_format::fixed, decimals);
  return {digits.data(), result.ptr};
}

std::string score_version() { return concat("tril.", kVersion); }

}  // namespace tril
