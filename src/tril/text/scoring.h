// Shared by the scores: checks of a segment, and how a signature and a line are written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tril {

// Raises `invalid_argument` in the name of `operation` unless there is a reference and all text is
// UTF-8.
void check_segment(std::string_view operation, std::string_view hypothesis,
                   std::span<const std::string_view> references);
// Likewise for one text, which the error calls `name`.
void check_utf8(std::string_view operation, std::string_view name, std::string_view text);

// The smallest and largest number of references per segment of a corpus.
struct ReferenceCount {
  int64_t min = 0;  // 0 where nothing was added yet
  int64_t max = 0;

  void add(const ReferenceCount& other);
};

// "3", or "var" where segments differ.
std::string to_string(const ReferenceCount& count);

// A number with that many decimals, rounded to nearest from its exact value, as Python does.
std::string fixed(double value, int decimals);

// "tril.0.1.0"
std::string score_version();

}  // namespace tril
