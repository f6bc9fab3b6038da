// Any text: cut into sentences and at the places within them nothing is lost and no character cut;
// its language is one of the candidates, with shares that are shares.
#include <algorithm>
#include <cstdint>
#include <string>

#include "scratch.h"
#include "tril/text/language_lists.h"
#include "tril/text/languages.h"
#include "tril/text/sentences.h"
#include "tril/text/utf8.h"

namespace {

using tril::fuzz::check;

bool is_beginning(std::string_view text, size_t at) {
  return at == text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

void check_sentences(std::string_view text, std::string_view language) {
  const tril::CutText cut = tril::cut_sentences(text, language);
  std::string joined;
  for (const auto& [before, sentence] : cut.units) {
    check(!sentence.empty() && is_beginning(text, joined.size()));
    joined.append(before).append(sentence);
  }
  check(is_beginning(text, joined.size()) && joined.append(cut.after) == text);
}

void check_places(std::string_view text) {
  size_t last = 0;
  for (const auto& [end, next, kind] : tril::cut_places(text)) {
    check(last < end && end <= next && next < text.size());
    check(is_beginning(text, end) && is_beginning(text, next));
    last = end;
  }
}

void check_language(std::string_view text, std::span<const std::string> candidates) {
  double sum = 0.0;
  for (const auto& [code, confidence] : tril::detect_language(text, candidates)) {
    check(tril::find_language(candidates, code).has_value());
    check(confidence > 0.0 && confidence <= 1.0);
    sum += confidence;
  }
  check(sum < 1.0 + 1e-9);
}

}  // namespace

// The first line is a language, the rest a text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::string> candidates = tril::nllb_languages();
  const std::string_view input = tril::fuzz::view(data, size);
  const size_t feed = std::min(input.find('\n'), input.size());
  const std::string_view language = input.substr(0, feed);
  const std::string_view text = input.substr(std::min(feed + 1, input.size()));
  (void)tril::language_name(language);
  const auto found = tril::find_language(candidates, language);
  check(!found || tril::base_language(*found) == tril::base_language(language));
  if (tril::first_invalid_utf8(text)) return 0;
  check_sentences(text, language);
  check_places(text);
  check_language(text, candidates);
  return 0;
}
