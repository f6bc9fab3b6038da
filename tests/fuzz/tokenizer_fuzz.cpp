// Any bytes are either a tokenizer that works for every use, or one tril::Error. SentencePiece
// trusts its files: this tests that nothing harmful reaches it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/error.h"
#include "tril/text/tokenizer.h"
#include "tril/text/utf8.h"

namespace {

using std::literals::operator""sv;

// Blanks, a NUL, characters that NFKC folds, characters that no small vocabulary has.
constexpr std::string_view kLine =
    "  how \u0915\u0948\u0938\u0947\t\0 \ufb01\u3316\u2167 \U0001f980\u0301 <s>aaa "sv;

void check(bool holds) {
  if (!holds) std::abort();
}

void use(const tril::Tokenizer& tokenizer) {
  check(0 <= tokenizer.start() && tokenizer.start() < tokenizer.vocab());
  check(0 <= tokenizer.end() && tokenizer.end() < tokenizer.vocab());
  std::vector<int32_t> all;
  for (int32_t id = 0; id < tokenizer.vocab(); ++id) {
    check(!tokenizer.piece(id).empty());
    all.push_back(id);
  }
  check(!tril::first_invalid_utf8(tokenizer.decode(all)));
  const std::vector<int32_t> ids = tokenizer.encode(kLine);
  for (const int32_t id : ids) check(0 <= id && id < tokenizer.vocab());
  const std::string line = tokenizer.decode(ids);
  check(!tril::first_invalid_utf8(line));
  try {
    check(tokenizer.encode(kLine, tril::BpeDropout{}) == ids);
    tokenizer.encode(kLine, {.probability = 0.5});
  } catch (const tril::Error& error) {
    check(error.code() == tril::ErrorCode::unsupported);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const std::string text(reinterpret_cast<const char*>(bytes), size);
    const tril::Tokenizer tokenizer = tril::Tokenizer::from_bytes(text, "fuzz");
    use(tokenizer);
  } catch (const tril::Error& error) {
    check(std::strncmp(error.what(), "fuzz: ", 6) == 0);
    check(error.code() == tril::ErrorCode::bad_format ||
          error.code() == tril::ErrorCode::unsupported);
  }
  return 0;
}
