// What every fuzz target of tokenizers does with one that was accepted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/error.h"
#include "tril/text/tokenizer.h"
#include "tril/text/utf8.h"

namespace tril::fuzz {

using std::literals::operator""sv;

// Blanks, a NUL, special tokens, characters that NFKC folds, clusters, characters that no small
// vocabulary has.
constexpr std::string_view kTokenizerLine =
    "  how \u0915\u0948\u0938\u0947\t\0 \ufb01\u3316\u2167 \U0001f980\u0301 <s>aaa</s>\r\n>>x<< 12'LL "sv;

inline void check_that(bool holds) {
  if (!holds) std::abort();
}

// An error in use must be one of those that the interface announces.
template <class F>
void allow_errors(const F& use) {
  try {
    use();
  } catch (const Error& error) {
    check_that(error.code() == ErrorCode::invalid_argument ||
               error.code() == ErrorCode::unsupported);
  }
}

inline void use_hub_tokenizer(const Tokenizer& tokenizer) {
  check_that(0 <= tokenizer.end() && tokenizer.end() < tokenizer.vocab());
  const auto some = static_cast<int32_t>(std::min<int64_t>(tokenizer.vocab(), 2000));
  std::vector<int32_t> all;
  for (int32_t id = 0; id < some; ++id) {
    check_that(!tokenizer.piece(id).empty());
    all.push_back(id);
  }
  check_that(tokenizer.whole_tokens(all) <= all.size());
  allow_errors([&] { check_that(!first_invalid_utf8(tokenizer.decode(all))); });
  LanguagePair languages;
  if (!tokenizer.languages().empty()) {
    languages = {tokenizer.languages().front().code, tokenizer.languages().back().code};
  }
  for (const TextSide side : {TextSide::source, TextSide::target}) {
    allow_errors([&] {
      for (const int32_t id : tokenizer.encode(kTokenizerLine, side)) {
        check_that(0 <= id && id < tokenizer.pieces(side));
      }
    });
  }
  allow_errors([&] { tokenizer.encode_source(kTokenizerLine, languages); });
  allow_errors([&] {
    check_that(
        !first_invalid_utf8(tokenizer.decode(tokenizer.encode(kTokenizerLine, TextSide::target))));
  });
  check_that(Tokenizer::from_bytes(tokenizer.bytes(), "fuzz").bytes() == tokenizer.bytes());
}

// Files that are a tokenizer are used, others end in one error that names the folder.
inline void try_files(TokenizerFiles files, std::string family) {
  TokenizerSettings settings;
  settings.family = std::move(family);
  try {
    use_hub_tokenizer(Tokenizer::from_files(std::move(files), settings, "fuzz"));
  } catch (const Error& error) {
    check_that(std::string_view(error.what()).starts_with("fuzz: "));
    check_that(error.code() == ErrorCode::bad_format || error.code() == ErrorCode::unsupported);
  }
}

}  // namespace tril::fuzz
