// What decoding whole lines and decoding their sentences share: reading the input, and telling
// people about doubtful and cut lines.
#pragma once

#include <optional>
#include <string>

#include "decoding.h"
#include "lines.h"
#include "tril/data/lines.h"

namespace tril::app {

// Lines, each with its prefix where there is a file of them.
class DecodingInput {
 public:
  explicit DecodingInput(const DecodingFlags& flags);

  std::optional<TextRequest> next(LineReader::Wait wait) {
    return error_.hold([&] { return read(wait); });
  }
  // Called when all lines are answered: raises what was wrong with the files.
  void check_end();

 private:
  std::optional<TextRequest> read(LineReader::Wait wait);

  LineReader lines_;
  std::optional<LineReader> prefixes_;
  LateError error_;
};

// Says which lines are plainly not in the language that the model reads: the first few by their
// numbers, of the others how many there were.
class DoubtNotice {
 public:
  DoubtNotice(const Translator& translator, const LanguagePair& languages);
  // Line number `line`, from 1.
  void look_at(int64_t line, const std::string& text);
  // When all lines are answered.
  void tell_rest() const;

 private:
  const Translator& translator_;
  const LanguagePair languages_;
  int64_t doubted_ = 0;
};

// A hypothesis that was cut at a limit, or ended there.
inline bool is_cut(const TextHypothesis& h) { return !h.ended || h.end_forced; }

// A hypothesis as a JSON object. Of a line's sentence, with `source`.
std::string json_text(const TextHypothesis& hypothesis, const DecodingFlags& flags,
                      const std::string* source = nullptr);

// As decode_lines(), with lines cut into sentences as flags.split says.
void decode_sentences(const Translator& translator, const DecodingFlags& flags,
                      const TranslateOptions& options);

}  // namespace tril::app
