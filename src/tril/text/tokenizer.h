// Tokenizer: text to the ids of subword pieces and back.
//
// Of two origins. train() learns one with SentencePiece, in which one vocabulary serves source and
// target; with identity normalisation a line without U+2581 (which SentencePiece writes for a
// blank) comes back exactly: decode(encode(line)) == line, for every valid line of UTF-8;
// characters that no piece covers are spelt in bytes. from_files() reads the tokenizers of Hugging
// Face folders and gives the ids that transformers gives; few of them are lossless, some have two
// vocabularies, several languages, no START, or fewer pieces than their model has rows.
// A Tokenizer is a handle to something that never changes: copies are cheap, and any number of
// threads may use one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tril/base/function.h"
#include "tril/base/shared.h"

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

// Which text a tokenizer is given: in some folders each side has pieces of its own.
enum class TextSide : uint8_t { source, target };

struct Language {
  std::string code;  // "deu_Latn", "de_DE", "de": as the model's authors write it
  int32_t token = 0;
};

// Codes of languages(). Empty: the one that the tokenizer's files name as its default.
struct LanguagePair {
  std::string from{};
  std::string to{};
  bool operator==(const LanguagePair&) const = default;
};

// What a folder's other files say about its tokenizer; the importer collects it.
struct TokenizerSettings {
  std::string family{};  // config.json: model_type, "marian"
  // What a decoder reads first: decoder_start_token_id. Where there is no encoder it is what the
  // tokenizer puts before a text, if anything, and this is not used.
  std::optional<int32_t> start{};
  std::vector<int32_t> ends{};  // eos_token_id, one or several; none: as the tokenizer says
  int64_t source_vocab = 0;     // rows of the model's embeddings, which may be more than the
  int64_t target_vocab = 0;     // tokenizer has pieces; 0: just as many
};

// The contents of files by name.
using TokenizerFiles = std::map<std::string, std::string>;

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
  static Tokenizer train(const Function<bool(std::string& line)>& next,
                         const TokenizerOptions& options, TokenizerReport* report = nullptr);
  // From the bytes of a tokenizer.model, which are not trusted; `file` is for errors: `bad_format`,
  // or `unsupported` for features of SentencePiece that train() never uses (models of words or
  // characters, without bytes, with user-defined pieces).
  static Tokenizer from_bytes(std::string bytes, const std::string& file);
  // From the files of a Hugging Face folder, which are not trusted: those of file_names() that the
  // folder has. `folder` is for errors, which name the file and its field: `bad_format`, or
  // `unsupported` for a component that is not understood.
  static Tokenizer from_files(TokenizerFiles files, const TokenizerSettings& settings,
                              const std::string& folder);
  static std::span<const std::string_view> file_names();

  // The contents of a tokenizer.model, which from_bytes() reads back, whatever the origin.
  const std::string& bytes() const;
  // What from_files() was given; empty for any other origin. Copies: for exports, not for loops.
  TokenizerFiles files() const;
  // Whether every line comes back from decode(encode(line)), but for U+2581 and for the texts of
  // special tokens.
  bool lossless() const;

  // Ids are below vocab(side): the number of the model's rows where settings give it.
  int64_t vocab(TextSide side = TextSide::target) const;
  // The ids that encode() can give: below pieces(side). Ids from there to vocab() are padding of
  // the model's tables; they write nothing.
  int64_t pieces(TextSide side = TextSide::target) const;

  // What a decoder reads before its first token. Raises `unsupported` where there is none; for some
  // models it is the token of the language to write, so that the default must be known.
  int32_t start(const LanguagePair& languages = {}) const;
  bool has_start() const;
  // The first of ends(), which is what a target text ends with.
  int32_t end() const;
  const std::vector<int32_t>& ends() const;
  std::optional<int32_t> pad() const;
  std::optional<int32_t> unknown() const;
  // Tokens that no line of output may contain, ascending: the special tokens other than END, and
  // pieces with a control character (bytes 0x00 to 0x1F, and 0x7F): a line feed would end the line,
  // a tab the column, and others command the terminal. Every decoder of text forbids these.
  std::vector<int32_t> unwritable() const;

  // Those of unwritable() that are no special tokens: pieces with a control character, and padding.
  // For models whose special tokens may be written, where they show as nothing.
  std::vector<int32_t> unshowable() const;

  // In the order of the model's tokens; empty for a model of one direction.
  const std::vector<Language>& languages() const;
  const LanguagePair& default_languages() const;  // as the tokenizer's files say; may be empty

  // The text alone, without START, END and languages. Raises `invalid_argument` for text that is
  // not UTF-8.
  std::vector<int32_t> encode(std::string_view line, TextSide side = TextSide::source) const;
  // Raises `unsupported` when the tokenizer is not BPE, or has pieces spanning several words.
  std::vector<int32_t> encode(std::string_view line, const BpeDropout& dropout) const;
  // All that an encoder reads, in the model's layout: as "X </s>", "lang X </s>", "X </s> lang".
  // This and the next two raise `invalid_argument` for a language that the tokenizer does not
  // have, and for one that is needed, not named, and has no default.
  std::vector<int32_t> encode_source(std::string_view line,
                                     const LanguagePair& languages = {}) const;
  // All that a decoder writes after START: "X </s>", "lang X </s>".
  std::vector<int32_t> encode_target(std::string_view line,
                                     const LanguagePair& languages = {}) const;
  // The tokens with which encode_target() begins, whatever the text; a search forces them.
  std::vector<int32_t> target_prefix(const LanguagePair& languages = {}) const;

  // Special tokens write nothing. Bytes that are not valid UTF-8 become U+FFFD: a model may produce
  // anything. Raises `invalid_argument` for an id outside the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;
  // How many of the first tokens form whole characters: the last ones may be bytes of an incomplete
  // one, which further tokens complete.
  size_t whole_tokens(std::span<const int32_t> ids) const;
  // A piece as SentencePiece writes it: "▁the", "<0xE0>", "<s>"; padding as "<padding>".
  std::string piece(int32_t id, TextSide side = TextSide::target) const;
  // The id of a piece as its file writes it, and of a special token.
  std::optional<int32_t> find(std::string_view piece, TextSide side = TextSide::target) const;

 private:
  struct State;
  friend class TokenizerBuilder;
  explicit Tokenizer(const Shared<const State>& state) : state_(state) {}
  Shared<const State> state_;
};

}  // namespace tril
