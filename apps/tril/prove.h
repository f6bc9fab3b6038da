// Shared by the sources of `tril prove`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tril/prove/report.h"
#include "tril/tril.h"

namespace tril::app {

struct ProveFlags {
  std::string model, text, target;
  LanguagePair languages;
  int threads = 0;
  int64_t every_length = 0, one_length = 0;  // of the proof for every input; 0: chosen
  std::optional<Device> device;
  bool json = false, full = false, unmasked = false;
};

// The sentences used in a proof.
struct ProofText {
  std::vector<TokenPair> pairs;
  std::string origin;             // where they come from, for the report
  int64_t cut = 0;                // sentences of which only the beginning is used
  int32_t end = 0;                // the token that ends a target
  std::vector<int32_t> forced{};  // what every target begins with after START: a language
};
// From --text and --target, or the lesson's own sentences, or samples of the model, or, without a
// tokenizer, random tokens. Raises before anything is computed.
// The languages that --from-language and --to-language name, or else any, since the proof does not
// depend on them.
ProofText proof_text(const ProveFlags& flags, const Transformer& model,
                     const std::optional<Tokenizer>& tokenizer);

struct ProvedModel {
  const ProveFlags& flags;
  const Transformer& model;
  const std::optional<Tokenizer>& tokenizer;
  const ProofText& text;
  const std::vector<VerifiedFile>& files;  // of the model folder, none damaged
  int threads = 0;
  double seconds = 0.0;
};
void print_report(const ProvedModel& proved, const ProofReport& report);
void print_json(const ProvedModel& proved, const ProofReport& report);

}  // namespace tril::app
