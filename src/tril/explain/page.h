// What a model does with one sentence, as a page: training and inference side by side, from the
// words to the probabilities of the next one.
//
//   const std::string html = explain_page(translator, "How are you?");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tril/decode/generation.h"
#include "tril/text/tokenizer.h"

namespace tril {

class Translator;

// With more tokens than this on one side the picture is unreadable.
constexpr int64_t kMaxExplainedTokens = 128;

struct ExplainOptions {
  // How the model searches, over its own settings (TranslateOptions). max_tokens 0: as many as can
  // be shown; a decoder-only model then continues its text by at most 24.
  SearchSettings search{};
  LanguagePair languages{};  // as in TranslateOptions
  // The text that the training pass reads; absent: what the model itself wrote. Encoder–decoders
  // only.
  std::optional<std::string> target{};
  int64_t candidates = 8;  // next tokens kept for each position
  int threads = 0;         // 0: all cores
};

// One self-contained HTML page: script, style and numbers inside, no requests. The same model,
// sentence and options give the same bytes. Raises `invalid_argument` for a sentence or a target
// without a word, of several lines, that is not UTF-8 or has more tokens than the model takes or a
// page can show, and for a target without an encoder; `bad_format` when the model computes numbers
// that are not finite.
std::string explain_page(const Translator& translator, std::string_view sentence,
                         const ExplainOptions& options = {});

}  // namespace tril
