#include "tril/text/pipeline/pattern.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tril/io/json.h"
#include "tril/text/pipeline/characters.h"

namespace tril::pipeline {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();

bool is_line_end(char32_t c) { return c == '\r' || c == '\n'; }
bool is_other(char32_t c) { return !is_space(c) && !is_letter(c) && !is_number(c); }

// The bytes of the characters from `at` on that have a property, `most` of them at most.
template <class F>
size_t run_of(std::string_view text, size_t at, const F& has_property, size_t most = kAnyNumber) {
  size_t end = at;
  for (size_t count = 0; end < text.size() && count < most; ++count) {
    const CharacterAt next = character_at(text, end);
    if (!has_property(next.character)) break;
    end += next.bytes;
  }
  return end - at;
}

// 's, 't, 're, 've, 'm, 'll, 'd. Where capital letters count too, so does the long s (U+017F),
// which is an s to whoever ignores case.
size_t contraction(std::string_view text, size_t at, bool any_case) {
  if (text[at] != '\'') return 0;
  const std::string_view rest = text.substr(at + 1);
  const auto letter = [&](size_t i) {
    if (i >= rest.size()) return '\0';
    const char c = rest[i];
    return any_case && 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    bool equal = true;
    for (size_t i = 0; i < ending.size(); ++i) equal = equal && letter(i) == ending[i];
    if (equal) return 1 + ending.size();
  }
  return any_case && rest.starts_with("\u017F") ? 3 : 0;
}

// \s+(?!\S)|\s+: white space, but for its last character where something else follows. A single
// one stays.
size_t white_space(std::string_view text, size_t at) {
  const size_t bytes = run_of(text, at, is_space);
  if (bytes == 0 || at + bytes == text.size()) return bytes;
  const size_t last = character_before(text, at + bytes).bytes;
  return bytes > last ? bytes - last : bytes;
}

size_t match_gpt2(std::string_view text, size_t at) {
  if (const size_t bytes = contraction(text, at, false)) return bytes;
  const size_t blank = text[at] == ' ' ? 1 : 0;
  if (at + blank < text.size()) {
    if (const size_t bytes = run_of(text, at + blank, is_letter)) return blank + bytes;
    if (const size_t bytes = run_of(text, at + blank, is_number)) return blank + bytes;
    if (const size_t bytes = run_of(text, at + blank, is_other)) return blank + bytes;
  }
  return white_space(text, at);
}

// [^\r\n\p{L}\p{N}]?\p{L}+
size_t letters_with_one_before(std::string_view text, size_t at) {
  const CharacterAt first = character_at(text, at);
  if (is_letter(first.character)) return run_of(text, at, is_letter);
  if (is_line_end(first.character) || is_number(first.character)) return 0;
  const size_t bytes = run_of(text, at + first.bytes, is_letter);
  return bytes == 0 ? 0 : first.bytes + bytes;
}

// \s*[\r\n]+: white space up to the last end of a line in it.
size_t line_ends(std::string_view text, size_t at) {
  const std::string_view run = text.substr(at, run_of(text, at, is_space));
  const size_t last = run.find_last_of("\r\n");
  return last == std::string_view::npos ? 0 : last + 1;
}

size_t match_llama3(std::string_view text, size_t at, size_t most_digits) {
  if (const size_t bytes = contraction(text, at, true)) return bytes;
  if (const size_t bytes = letters_with_one_before(text, at)) return bytes;
  if (const size_t bytes = run_of(text, at, is_number, most_digits)) return bytes;
  const size_t blank = text[at] == ' ' ? 1 : 0;
  if (const size_t bytes = run_of(text, at + blank, is_other)) {
    return blank + bytes + run_of(text, at + blank + bytes, is_line_end);
  }
  if (const size_t bytes = line_ends(text, at)) return bytes;
  return white_space(text, at);
}

}  // namespace

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.text_ = std::move(text);
  return pattern;
}

Pattern Pattern::gpt2() {
  Pattern pattern;
  pattern.kind_ = Kind::gpt2;
  return pattern;
}

Pattern Pattern::regex(std::string_view expression, const std::string& where) {
  Pattern pattern;
  if (expression == kGpt2) {
    pattern.kind_ = Kind::gpt2;
  } else if (expression == kLlama3) {
    pattern.kind_ = Kind::llama3;
  } else if (expression == kQwen2) {
    pattern.kind_ = Kind::qwen2;
  } else if (expression == " {2,}") {
    pattern.kind_ = Kind::blanks;
    pattern.least_blanks_ = 2;
  } else if (expression == " +") {
    pattern.kind_ = Kind::blanks;
  } else if (expression == R"(\s+)") {
    pattern.kind_ = Kind::spaces;
  } else {
    fail(ErrorCode::unsupported, where, ": the regular expression ", printable(expression, 200),
         " is not supported");
  }
  return pattern;
}

size_t Pattern::match(std::string_view text, size_t at) const {
  switch (kind_) {
    case Kind::literal: return text.substr(at).starts_with(text_) ? text_.size() : 0;
    case Kind::gpt2: return match_gpt2(text, at);
    case Kind::llama3: return match_llama3(text, at, 3);
    case Kind::qwen2: return match_llama3(text, at, 1);
    case Kind::blanks: {
      const size_t bytes = run_of(text, at, [](char32_t c) { return c == ' '; });
      return bytes >= least_blanks_ ? bytes : 0;
    }
    case Kind::spaces: return run_of(text, at, is_space);
  }
  return 0;
}

}  // namespace tril::pipeline
