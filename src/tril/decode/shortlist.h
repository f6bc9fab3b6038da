// Shortlist: which target tokens a sentence may be translated with, chosen by its source tokens.
//
// A vocabulary is wide and a sentence needs little of it. The set of a sentence is the union of the
// tokens listed for each of its source tokens, of the tokens that are in every set (END, the most
// frequent ones), and of its forced prefix. Logits, the normaliser and the choice are then computed
// over the set alone: every other token has probability 0, a log-probability of -infinity. The set
// depends on the sentence alone, so the result still does; the logits are those of the whole
// vocabulary, bit for bit, and a set that is the whole vocabulary changes nothing.
//
// A Shortlist is a handle to something that never changes: copies are cheap, and any number of
// threads may use one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/shared.h"

namespace tril {

struct TransformerConfig;  // models/config.h

// The contents of a shortlist. Tokens may come in any order, and twice.
struct ShortlistTable {
  int64_t target_vocab = 0;
  std::vector<int32_t> always;               // in every set; END belongs here
  std::vector<std::vector<int32_t>> listed;  // by source token
  // Identifies the tokenizer it was made with: with text, the fingerprint of its bytes.
  std::string tokenizer{};
};

class Shortlist {
 public:
  // Raises `invalid_argument` for a token outside the vocabulary, and if no token is in every set.
  explicit Shortlist(const ShortlistTable& table);

  // From a model folder (kShortlistFile). A file that is missing, cut short, or made by another
  // program is one Error that names it (`io`, `bad_format`); nothing in it is trusted.
  static Shortlist load(const std::string& folder);
  // Replaces the file whole or not at all; the same table gives the same bytes.
  void save(const std::string& folder) const;

  int64_t source_vocab() const;
  int64_t target_vocab() const;
  const std::string& tokenizer() const;

  // The set of a sentence, ascending. The given tokens must be in the vocabularies.
  void choose(std::span<const int32_t> source, std::span<const int32_t> prefix,
              std::vector<int32_t>& set) const;
  // Whether a token is in every set.
  bool always(int32_t token) const;
  // Raises `invalid_argument`, with a text that begins with the operation, if it does not belong to
  // a model with this configuration; `unsupported` for a decoder-only one.
  void check_fits(std::string_view operation, const TransformerConfig& config) const;

  // Whether they are copies of one: tables are not compared.
  bool operator==(const Shortlist&) const = default;

 private:
  struct State;
  explicit Shortlist(const Shared<const State>& state) : state_(state) {}
  Shared<const State> state_;
};

}  // namespace tril
