#include "tril/text/tokenizer.h"

#include "support/property.h"
#include "support/testing.h"

namespace tril {
namespace {

Tokenizer train(const std::vector<std::string>& lines, const TokenizerOptions& options) {
  size_t at = 0;
  return Tokenizer::train(
      [&](std::string& line) {
        if (at == lines.size()) return false;
        line = lines[at++];
        return true;
      },
      options);
}

TEST(Tokenizer, ComesBack) {
  const Tokenizer tokenizer = train({"how are you", "I am fine", "मैं ठीक हूँ"}, {.vocab = 300});
  for (const std::string line : {"how are you", " you  fine ", ""}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(line)), line);
    EXPECT_EQ(tokenizer.encode(line, BpeDropout{}), tokenizer.encode(line));
  }
}

}  // namespace
}  // namespace tril
