// Tokenizer: text to the ids of subword pieces and back, by SentencePiece.
//
// One vocabulary serves source and target. With identity normalisation a line without U+2581 (which
// SentencePiece writes for a blank) comes back exactly: decode(encode(line)) == line, for every
// valid line of UTF-8; characters that no piece covers are spelt in bytes.
// A Tokenizer is a handle to something that never changes: copies are cheap, and any number of
// threads may use one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tril {

enum class TokenizerType { bpe, unigram };
enum class Normalization { identity, nfkc };

struct TokenizerOptions {
  TokenizerType type = TokenizerType::bpe;
  Normalization normalization = Normalization::identity;
  int64_t vocab = 8000;           // pieces at most; fewer where the text does not have as many
  double coverage = 1.0;          // share of the text's characters that get a piece of their own
                                  // (0.98 to 1); the others are spelt in bytes
  int64_t max_line_bytes = 4096;  // longer lines are not learnt from, and counted (16,000 at most)
};

// Raises `invalid_argument` for options that train() does not accept, whatever the text.
void check(const TokenizerOptions& options);

// What happened to the text in training.
struct TokenizerReport {
  int64_t lines = 0;    // learnt from
  int64_t skipped = 0;  // left out: empty, too long, or with U+2581 or U+2585, which SentencePiece
                        // keeps for itself
};

// Which pieces BPE dropout leaves unmerged (Provilkov et al., arXiv 1910.13267): a function of the
// text and these numbers alone, so that a resumed run continues as it would have. Probability 0
// gives the result of encode() without dropout, 1 gives characters.
struct BpeDropout {
  double probability = 0.0;
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t line = 0;
};

class Tokenizer {
 public:
  // Ids of the special tokens in every tokenizer that train() makes.
  static constexpr int32_t kPad = 0;
  static constexpr int32_t kUnknown = 1;
  static constexpr int32_t kStart = 2;
  static constexpr int32_t kEnd = 3;

  // Learns from the lines that `next` provides until it returns false, at most 1 GiB. The same
  // lines and options give the same bytes with the same SentencePiece, whatever the number of cores
  // (unigram: also with the same C library, whose logarithms SentencePiece uses). Raises
  // `invalid_argument` for a line that is not UTF-8, for no line to learn from, and for a
  // vocabulary too small for the 4 special tokens, the 256 bytes and the characters of the text,
  // naming the smallest that works. Exceptions of `next` are passed on.
  static Tokenizer train(const std::function<bool(std::string& line)>& next,
                         const TokenizerOptions& options, TokenizerReport* report = nullptr);
  // From the bytes of a tokenizer.model, which are not trusted; `file` is for errors: `bad_format`,
  // or `unsupported` for features of SentencePiece that train() never uses (models of words or
  // characters, without bytes, with user-defined pieces).
  static Tokenizer from_bytes(std::string bytes, const std::string& file);
  // The contents of a tokenizer.model.
  const std::string& bytes() const;

  int64_t vocab() const;
  int32_t start() const;
  int32_t end() const;
  // Tokens that no line of output may contain, ascending: the special tokens other than END, and
  // pieces with a control character (bytes 0x00 to 0x1F, and 0x7F): a line feed would end the line,
  // a tab the column, and others command the terminal. Every decoder of text forbids these.
  std::vector<int32_t> unwritable() const;

  // Without START and END. Raises `invalid_argument` for text that is not UTF-8.
  std::vector<int32_t> encode(std::string_view line) const;
  // Raises `unsupported` when the tokenizer is not BPE, or has pieces spanning several words.
  std::vector<int32_t> encode(std::string_view line, const BpeDropout& dropout) const;
  // Special tokens write nothing. Bytes that are not valid UTF-8 become U+FFFD: a model may produce
  // anything. Raises `invalid_argument` for an id outside the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;
  // A piece as SentencePiece writes it: "▁the", "<0xE0>", "<s>".
  std::string piece(int32_t id) const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace tril
