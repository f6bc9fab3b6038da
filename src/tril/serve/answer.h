// What a finished TextJob is answered with by tril's own API, and receipts.
//
// A receipt names the request, the answer and what the answer depends on. Whoever has the model can
// compute the answer again, offline, and compare: `tril verify-answer`.
#pragma once

#include <string>
#include <string_view>

#include "tril/serve/text_job.h"

namespace tril::serve {

// The answer of /v1/translate and /v1/generate.
std::string answer_text(const TextJob& job);
// What identifies it: of everything the answer depends on, so known before it is computed. With
// quotes.
std::string entity_tag(const TextCall& call, std::string_view path, std::string_view variant);

// Of one result, whether it is complete.
bool is_whole(const TextHypothesis& hypothesis);
// The text that hypothesis number `index` of each unit makes together; units with fewer give their
// best.
std::string joined_text(const TextJob& job, size_t text, size_t index);
// The most hypotheses that any unit of the text has.
size_t alternatives_of(const TextJob& job, size_t text);
// Of all units.
int64_t tokens_read(const TextJob& job);
int64_t tokens_written(const TextJob& job);

struct ReceiptCheck {
  bool same_model = false;     // the fingerprints agree
  std::string fingerprint{};   // of the model at hand
  std::string receipt_says{};  // the receipt's
  int64_t texts = 0;
  int64_t texts_differing = 0;
  std::string first_difference{};  // of the answers, in one line; empty: none
  // What the model translates is known from the receipt alone: its files do not say.
  bool languages_as_stated = false;
  bool holds() const { return same_model && first_difference.empty(); }
};
// Computes a receipt's answer again and compares all of the receipt; of an answer that holds one,
// all of that too. Not compared are the name that the server called the model by, and what it
// detected of a language and how sure it was, which depends on its other models. Raises
// `bad_format` for what is no receipt, `invalid_argument` for one that this model cannot have
// given.
ReceiptCheck check_receipt(std::string_view receipt, const std::string& file,
                           const std::string& folder, Translator translator);

// The form of the weights and the device that a receipt's answer was computed with, to load the
// model likewise. Raises `bad_format`.
struct ReceiptHead {
  std::string model;
  std::string compute;
  std::string device;
  std::string version;
};
ReceiptHead read_receipt_head(std::string_view receipt, const std::string& file);

}  // namespace tril::serve
