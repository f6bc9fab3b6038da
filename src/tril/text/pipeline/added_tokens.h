// Tokens that are found in a text as they are spelt, before anything else: special tokens,
// languages, and words that somebody added to a vocabulary.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tril/text/pipeline/component.h"
#include "tril/text/pipeline/normalizer.h"
#include "tril/text/pipeline/prefix_tree.h"

namespace tril::pipeline {

struct AddedToken {
  std::string content{};
  int32_t id = 0;
  bool single_word = false;  // only where no word goes on at its ends
  bool lstrip = false;       // takes the white space on its left
  bool rstrip = false;
  bool normalized = false;  // looked for in the normalised text
  bool special = false;     // writes nothing
};

// A stretch of text, or a token that was found there.
struct Found {
  std::string_view text{};
  std::optional<int32_t> token{};
};

class AddedTokens {
 public:
  // A later token with the same id or content replaces an earlier one. `normalizer` may be null.
  void add(AddedToken token, const Normalizer* normalizer);

  // The stretches of a text and the tokens in it, for those looked for before normalisation, or
  // after it. Stretches may be empty.
  std::vector<Found> split(std::string_view text, bool normalized) const;

  // Null where no such token was added.
  const AddedToken* find(int32_t id) const;
  std::optional<int32_t> find(std::string_view content) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  struct Spellings {
    PrefixTree tree{};                  // to places in `tokens_`
    std::array<bool, 256> may_begin{};  // by byte
  };

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> places_;  // by id
  std::unordered_map<std::string, size_t> contents_;
  Spellings plain_, normalized_;
};

// An entry of "added_tokens" in tokenizer.json, or of "added_tokens_decoder" in
// tokenizer_config.json, where the id is the name of the field.
AddedToken read_added_token(Component component, std::optional<int32_t> id = std::nullopt);

}  // namespace tril::pipeline
