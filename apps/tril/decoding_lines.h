// What decoding whole lines and decoding their sentences share: reading the input, and telling
// people about doubtful and cut lines.
#pragma once

#include <optional>
#include <string>

#include "decoding.h"
#include "lines.h"
#include "shard.h"
#include "tril/data/lines.h"

namespace tril::app {

// Lines, each with its prefix where there is a file of them; of a shard, its lines alone.
class DecodingInput {
 public:
  explicit DecodingInput(const DecodingFlags& flags);

  std::optional<TextRequest> next(LineReader::Wait wait) {
    return error_.hold([&] { return read(wait); });
  }
  // Called when all lines are answered: raises what was wrong with the files.
  void check_end();

  // The number of the first line, from 0.
  int64_t first_number() const { return first_number_; }
  int64_t taken() const { return taken_; }  // lines so far
  // Of a shard: the checksum of what was read so far, prefixes included.
  std::string identity() const { return to_string(checksum_.value()); }

 private:
  void skip_to_shard(const Shard& shard);
  std::optional<TextRequest> read(LineReader::Wait wait);
  void note(const TextRequest& request);

  LineReader lines_;
  std::optional<LineReader> prefixes_;
  LateError error_;
  std::optional<int64_t> end_;  // of a shard: the offset at which the next one begins
  int64_t first_number_ = 0;
  int64_t taken_ = 0;
  bool is_shard_ = false;
  RunningChecksum checksum_;
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
