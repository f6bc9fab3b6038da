// The regular expressions that tokenizers use, each matched by hand: a general engine would be
// large and slow, and the files in use have a handful of them. Others are refused by name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tril::pipeline {

class Pattern {
 public:
  // A text that stands for itself.
  static Pattern literal(std::string text);
  // Raises `unsupported`, naming `where` and the expression.
  static Pattern regex(std::string_view expression, const std::string& where);
  // The pattern of GPT-2, which the pre-tokenizer ByteLevel has built in.
  static Pattern gpt2();

  // The bytes of a match that begins at `at`; 0 for none. Matches are never empty. `text` is valid
  // UTF-8.
  size_t match(std::string_view text, size_t at) const;

 private:
  enum class Kind { literal, gpt2, llama3, qwen2, blanks, spaces };

  Kind kind_ = Kind::literal;
  std::string text_{};       // of a literal
  size_t least_blanks_ = 1;  // of a run of blanks
};

}  // namespace tril::pipeline
