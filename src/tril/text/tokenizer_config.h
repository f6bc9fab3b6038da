// What tokenizer_config.json, special_tokens_map.json and added_tokens.json say, as far as it
// matters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/text/pipeline/added_tokens.h"
#include "tril/text/tokenizer_files.h"

namespace tril {

class TokenizerConfig {
 public:
  // Files that are missing say nothing. Raises `bad_format`, naming `folder`, the file and the
  // field.
  TokenizerConfig(const Bundle& bundle, const std::string& folder);

  // "bos_token" and the like: the text of a special token. tokenizer_config.json comes first.
  std::optional<std::string> special_token(std::string_view name) const;
  // The same with its properties, for which a plain text has the defaults.
  std::optional<pipeline::AddedToken> special_added_token(std::string_view name) const;
  std::vector<std::string> additional_special_tokens() const;
  // Tokens with ids: added_tokens_decoder of tokenizer_config.json, and added_tokens.json.
  std::vector<pipeline::AddedToken> added_tokens() const;

  std::optional<std::string> text(std::string_view field) const;
  std::optional<bool> flag(std::string_view field) const;
  std::optional<int64_t> number(std::string_view field) const;

 private:
  const JsonValue* find(std::string_view field) const;
  const JsonValue* find_special(std::string_view field) const;

  JsonValue config_, special_, added_;
  std::string folder_;
};

}  // namespace tril
