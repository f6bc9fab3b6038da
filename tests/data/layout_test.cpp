// Batches in the layouts of other people's tokenizers: languages, START, and none.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/testing.h"
#include "tril/data/batches.h"

namespace tril::layout_test {
namespace {

using testing::raised_by;
using Tokens = std::vector<int32_t>;

Tokenizer fixture(const std::string& name, const TokenizerSettings& settings) {
  TokenizerFiles files;
  for (const std::string_view file : Tokenizer::file_names()) {
    std::ifstream in(std::filesystem::path(TRIL_TOKENIZERS_FOLDER) / name / file, std::ios::binary);
    if (in) files.emplace(file, std::string(std::istreambuf_iterator<char>(in), {}));
  }
  return Tokenizer::from_files(std::move(files), settings, name);
}

struct Laid {
  Tokens source, target, labels;
  bool operator==(const Laid&) const = default;
};
// The rows of the only sentence of a corpus, without padding.
Laid laid_out(const Corpus& corpus, const Tokenizer& tokenizer, const LanguagePair& languages) {
  constexpr int64_t kRows = 64;
  BatchStream stream(corpus, tokenizer,
                     {.source_rows = corpus.has_source() ? kRows : 0,
                      .target_rows = kRows,
                      .window = 1,
                      .languages = languages});
  Batch batch;
  stream.next(batch);
  // The one sentence comes again and again: only the first is looked at.
  Laid laid;
  for (size_t row = 0; row < batch.source.tokens.size(); ++row) {
    if (batch.source.slots[row] == 0) laid.source.push_back(batch.source.tokens[row]);
  }
  for (size_t row = 0; row < batch.target.tokens.size(); ++row) {
    if (batch.target.slots[row] != 0) continue;
    EXPECT_EQ(batch.target.positions[row], static_cast<int32_t>(laid.target.size()));
    laid.target.push_back(batch.target.tokens[row]);
    laid.labels.push_back(batch.labels[row]);
  }
  return laid;
}

// As transformers lays them out: the source begins with its language; START is read and the target
// language learnt.
TEST(Layout, LanguagesStandWhereTheModelExpectsThem) {
  const Tokenizer tokenizer = fixture("nllb", {.family = "m2m_100", .start = 2, .ends = {2}});
  const LanguagePair pair{"eng_Latn", "fra_Latn"};
  const Corpus corpus = Corpus::of({{"how are you", "how are you"}});
  const Tokens text = {74, 78, 82, 124, 51, 53};
  const auto with = [&](Tokens before, const Tokens& after) {
    before.insert(before.end(), text.begin(), text.end());
    before.insert(before.end(), after.begin(), after.end());
    return before;
  };
  EXPECT_EQ(laid_out(corpus, tokenizer, pair),
            (Laid{with({192}, {2}), with({2, 193}, {}), with({193}, {2})}));
  EXPECT_EQ(laid_out(corpus, tokenizer, {"fra_Latn", "eng_Latn"}),
            (Laid{with({193}, {2}), with({2, 192}, {}), with({192}, {2})}));
  EXPECT_NE(raised_by([&] {
              laid_out(corpus, tokenizer, {"eng_Latn", "xx"});
            }).text.find("xx"),
            std::string::npos);
}

// Without START a text is read from its first token on, and learnt from its second.
TEST(Layout, ATextWithoutStartIsReadFromItsFirstToken) {
  const Tokenizer tokenizer = fixture("gpt2_files", {.family = "gpt2"});
  ASSERT_FALSE(tokenizer.has_start());
  EXPECT_EQ(laid_out(Corpus::of({{"", "how are you"}}), tokenizer, {}),
            (Laid{{}, {72, 79, 87, 325, 317}, {79, 87, 325, 317, 0}}));
  EXPECT_EQ(raised_by([&] {
              laid_out(Corpus::of({{"a", "how are you"}}), tokenizer, {});
            }).code,
            ErrorCode::unsupported);
}

// Languages and END count where sentences are limited, and a line of nothing else is left out.
TEST(Layout, LimitsCountEveryTokenOfTheLayout) {
  const Tokenizer tokenizer = fixture("nllb", {.family = "m2m_100", .start = 2, .ends = {2}});
  const LanguagePair pair{"eng_Latn", "fra_Latn"};
  constexpr int64_t kTokens = 8;  // lang X </s>
  const auto pairs = [] {
    return Corpus::of({{"how are you", "how are you"}, {"how are you", ""}});
  };
  Corpus corpus = pairs();
  corpus.limit_tokens(tokenizer, kTokens, pair);
  EXPECT_EQ(corpus.size(), 1);
  EXPECT_EQ(corpus.source_tokens(), kTokens);
  EXPECT_EQ(corpus.target_tokens(), kTokens);
  Corpus other = pairs();
  EXPECT_EQ(raised_by([&] { other.limit_tokens(tokenizer, kTokens - 1, pair); }).code,
            ErrorCode::bad_format);
}

}  // namespace
}  // namespace tril::layout_test
