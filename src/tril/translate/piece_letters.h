// Which letters a tokenizer's source pieces are made of. Internal to translate/. Never changes once
// made; any number of threads may use one.
#pragma once

#include <cstdint>
#include <vector>

#include "tril/text/letters.h"
#include "tril/text/tokenizer.h"

namespace tril {

class PieceLetters {
 public:
  explicit PieceLetters(const Tokenizer& tokenizer);

  struct Letter {
    Script script = Script::none;  // no letter
    bool learnt = false;
    bool blank = false;  // white space
  };
  // A letter is learnt if some piece joins it to another character; one that stands for a syllable
  // or a word (Chinese, Japanese, Korean) also if it is a piece. Capitals are as their small
  // letters. Others become unknown, bytes or single characters in every text.
  Letter operator[](char32_t character) const {
    if (character < kTable) return table_.data()[character];
    const Script script = script_of_letter(character);
    return {script, script == Script::han, false};  // rare signs, which say nothing
  }

 private:
  static constexpr char32_t kTable = 0x10000;
  std::vector<Letter> table_;
};

}  // namespace tril
