// What stands behind a Tokenizer: one class per kind of tokenizer file, and what is known about the
// special tokens. Internal to text/. Kinds never change once made; any number of threads may use
// one.
#pragma once

#include <memory>

#include "tril/text/tokenizer.h"

namespace tril {

class TokenizerKind {
 public:
  TokenizerKind() = default;
  TokenizerKind(const TokenizerKind&) = delete;
  TokenizerKind& operator=(const TokenizerKind&) = delete;
  virtual ~TokenizerKind() = default;

  // Ids are below this.
  virtual int64_t size(TextSide side) const = 0;
  // The ids of text, which is valid UTF-8. Ids may be those of special tokens that the text spells.
  virtual std::vector<int32_t> encode(std::string_view text, TextSide side) const = 0;
  virtual std::vector<int32_t> encode(std::string_view text, const BpeDropout& dropout) const;
  // Text on the target's side, for ids below its size. Special tokens write nothing.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  virtual std::string piece(int32_t id, TextSide side) const = 0;
  virtual std::optional<int32_t> find(std::string_view piece, TextSide side) const = 0;
  // On the target's side: a token that is no text.
  virtual bool is_special(int32_t id) const = 0;
  // On the target's side: the bytes that a token writes in the middle of a text, before bytes that
  // are not UTF-8 are replaced.
  virtual std::string bytes_of(int32_t id) const = 0;
};

// A token of a layout: a certain one, or that of a language of the pair; `to_if_named` is none
// where no language was named.
struct LayoutToken {
  enum class Kind : uint8_t { token, from, to, to_if_named };
  Kind kind = Kind::token;
  int32_t token = 0;
};

struct TokenLayout {
  std::vector<LayoutToken> before, after;  // of the text
};

struct TokenizerFacts {
  std::optional<int32_t> start, pad, unknown;
  std::vector<int32_t> ends;
  std::vector<Language> languages;
  LanguagePair default_languages;
  TokenLayout source, target;
  bool start_is_language = false;  // START is the token of the language to write
  bool lossless = false;
};

struct MadeTokenizer {
  std::unique_ptr<const TokenizerKind> kind;
  TokenizerFacts facts;
};

// The one way to make a Tokenizer.
class TokenizerBuilder {
 public:
  // `bytes` is what Tokenizer::bytes() returns; the kind may refer to it. Raises `bad_format`,
  // naming `file`, where facts and settings do not fit the kind.
  static Tokenizer build(MadeTokenizer made, std::shared_ptr<const std::string> bytes,
                         const TokenizerSettings& settings, const std::string& file);
};

}  // namespace tril
