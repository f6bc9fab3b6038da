// Parts of the pipeline of a tokenizer.json, by hand.
#include "support/testing.h"
#include "text_support.h"
#include "tril/text/pipeline/added_tokens.h"
#include "tril/text/pipeline/byte_letters.h"
#include "tril/text/pipeline/characters.h"
#include "tril/text/pipeline/hash_table.h"
#include "tril/text/pipeline/pattern.h"
#include "tril/text/pipeline/prefix_tree.h"
#include "tril/text/tokenizer.h"
#include "tril/text/utf8.h"

namespace tril::pipeline_test {
namespace {

using namespace pipeline;

std::string parts(const Pattern& pattern, std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = pattern.match(text, at);
    if (bytes == 0) return result + "STUCK";
    result += std::string(text.substr(at, bytes)) + "|";
    at += bytes;
  }
  return result;
}

const char* const kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

TEST(Pattern, CutsAsTheirExpressionsDo) {
  const Pattern gpt2 = Pattern::gpt2();
  EXPECT_EQ(parts(gpt2, "they'll see 12345 it's!? "), "they|'ll| see| 12345| it|'s|!?| |");
  EXPECT_EQ(parts(gpt2, "a   b\n\n c"), "a|  | b|\n\n| c|");
  EXPECT_EQ(parts(gpt2, "x'LL"), "x|'|LL|");
  EXPECT_EQ(parts(gpt2, "   "), "   |");
  const Pattern llama3 = Pattern::regex(kLlama3, "");
  EXPECT_EQ(parts(llama3, "they'LL see 12345 \"x\""), "they|'LL| see| |123|45| \"|x|\"|");
  EXPECT_EQ(parts(llama3, "a  \n\n  b"), "a|  \n\n| | b|");
  EXPECT_EQ(parts(llama3, "!!\n\nx"), "!!\n\n|x|");
  EXPECT_EQ(parts(llama3, "x'ſ"), "x|'ſ|");
}

TEST(Pattern, CoversAnyText) {
  rc::check([] {
    const std::string text = *testing::any_line();
    for (const Pattern& pattern : {Pattern::gpt2(), Pattern::regex(kLlama3, "")}) {
      size_t at = 0;
      while (at < text.size()) {
        const size_t bytes = pattern.match(text, at);
        RC_ASSERT(bytes > 0u);
        RC_ASSERT(!first_invalid_utf8(std::string_view(text).substr(at, bytes)));
        at += bytes;
      }
      RC_ASSERT(at == text.size());
    }
  });
}

TEST(Clusters, AreWhatPeopleSeeAsOneCharacter) {
  for (const std::string one :
       {"a", "\r\n", "e\u0301", "\u0915\u094D\u0937\u093F",
        "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F1EE\U0001F1F3", "\u1100\u1161\u11A8",
        "\uAC01\u11A8", "\U0001F44D\U0001F3FD", "\u0600a"}) {
    EXPECT_EQ(cluster_bytes(one + "x"), one.size()) << one;
    EXPECT_EQ(cluster_bytes(one), one.size()) << one;
  }
  EXPECT_EQ(cluster_bytes("\u0915\u0937"), 3u);                    // no virama between
  EXPECT_EQ(cluster_bytes("\U0001F1EE\U0001F1F3\U0001F1EE"), 8u);  // a flag and a half
  EXPECT_EQ(cluster_bytes("a\u200D\U0001F469"), 4u);               // joined to no picture
  EXPECT_EQ(cluster_bytes("\n\u0301"), 1u);
}

TEST(ByteLetters, StandForEveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_FALSE(first_invalid_utf8(to_byte_letters(all)));
  EXPECT_EQ(from_byte_letters(to_byte_letters(all)), all);
  EXPECT_EQ(to_byte_letters(" a\n"), "ĠaĊ");
  EXPECT_EQ(from_byte_letters("Ġ一"), "Ġ一");  // no letter of the alphabet
}

TEST(ByteLetters, ReplaceWhatIsNoText) {
  EXPECT_EQ(replace_invalid("a\xE0\xA4z\xFF\xF0\x9F\x91"), "a\uFFFDz\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid("\xE0\x80\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid("\xF4\x90\x80"), "\uFFFD\uFFFD\uFFFD");
}

TEST(HashTable, FindsWhatWasAdded) {
  HashTable table;
  EXPECT_EQ(table.find(1), HashTable::kNone);
  for (uint64_t i = 0; i < 10'000; ++i) table.add(i * i, static_cast<int32_t>(i));
  table.add(4, 77);  // the first value stays
  for (uint64_t i = 0; i < 10'000; ++i) ASSERT_EQ(table.find(i * i), static_cast<int32_t>(i));
  EXPECT_EQ(table.find(3), HashTable::kNone);
}

TEST(PrefixTree, FindsEveryPrefix) {
  PrefixTree tree;
  tree.add("a", 1);
  tree.add("abc", 2);
  tree.add("b", 3);
  tree.add("a", 4);
  std::vector<std::pair<size_t, int32_t>> found;
  tree.each_prefix("abcd", [&](size_t bytes, int32_t value) { found.emplace_back(bytes, value); });
  EXPECT_EQ(found, (std::vector<std::pair<size_t, int32_t>>{{1, 4}, {3, 2}}));
  EXPECT_EQ(tree.find("ab"), PrefixTree::kNone);
  EXPECT_EQ(tree.find("abc"), 2);
}

// ---- small tokenizer.json files by hand, whose results follow from the rules

std::vector<int32_t> ids(const std::string& json, std::string_view text) {
  TokenizerSettings settings;
  settings.ends = {0};
  return Tokenizer::from_files({{"tokenizer.json", json}}, settings, "hand").encode(text);
}
using Ids = std::vector<int32_t>;

TEST(Unigram, KeepsTheFirstOfEquals) {
  const std::string json =
      R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["a", -1], ["aa", -2]]}})";
  // At the end of "aa" the piece of two came first, at the end of "aaa" the one that began earlier.
  EXPECT_EQ(ids(json, "aa"), (Ids{2}));
  EXPECT_EQ(ids(json, "aaa"), (Ids{1, 2}));
}

TEST(Unigram, AnUnknownCharacterCostsTenMoreThanTheWorstPiece) {
  const std::string json =
      R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["a", 3], ["ab", -12]]}})";
  EXPECT_EQ(ids(json, "ab"), (Ids{2}));           // -12, against 3 - 22
  EXPECT_EQ(ids(json, "axyza"), (Ids{1, 0, 1}));  // neighbours become one
}

TEST(Unigram, SpellsTheUnknownInBytesWhereAllOfThemArePieces) {
  const std::string json =
      R"({"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true,
          "vocab": [["?", 0], ["a", -1], ["<0xC3>", -9], ["<0xA9>", -9]]}})";
  EXPECT_EQ(ids(json, "aéa"), (Ids{1, 2, 3, 1}));
  EXPECT_EQ(ids(json, "aèa"), (Ids{1, 0, 1}));  // <0xA8> is no piece
}

std::string bpe(const std::string& options) {
  return R"({"model": {"type": "BPE", "vocab": {"?": 0, "a": 1, "b": 2, "aa": 3, "ab": 4, "aab": 5},
          "merges": ["a a", "a b", "aa b"], "unk_token": "?")" +
         options + "}}";
}

TEST(Bpe, MergesTheFirstRankThenTheLeftmost) {
  EXPECT_EQ(ids(bpe(""), "aaa"), (Ids{3, 1}));
  EXPECT_EQ(ids(bpe(""), "aab"), (Ids{5}));
  EXPECT_EQ(ids(bpe(""), "bab"), (Ids{2, 4}));
}

TEST(Bpe, FusesUnknownsOnlyWhereAsked) {
  EXPECT_EQ(ids(bpe(""), "axya"), (Ids{1, 0, 0, 1}));
  EXPECT_EQ(ids(bpe(R"(, "fuse_unk": true)"), "axya"), (Ids{1, 0, 1}));
}

TEST(Bpe, TakesAWholeWordWithoutMergesWhereAsked) {
  std::string json = bpe("");
  json.replace(json.find(R"(, "aa b")"), 8, "");
  EXPECT_EQ(ids(json, "aab"), (Ids{3, 2}));
  json.replace(json.find(R"("unk_token")"), 0, R"("ignore_merges": true, )");
  EXPECT_EQ(ids(json, "aab"), (Ids{5}));
}

std::string with_token(const std::string& properties, const std::string& more = "") {
  return R"({"added_tokens": [{"id": 9, "content": "<x>")" + properties + "}]" + more +
         R"(, "model": {"type": "BPE", "vocab": {"a": 1, " ": 2, "▁": 3}, "merges": []}})";
}

TEST(AddedTokens, TakeTheWhiteSpaceBesideThem) {
  EXPECT_EQ(ids(with_token(""), "a <x> a"), (Ids{1, 2, 9, 2, 1}));
  EXPECT_EQ(ids(with_token(R"(, "lstrip": true)"), "a  <x> a"), (Ids{1, 9, 2, 1}));
  EXPECT_EQ(ids(with_token(R"(, "rstrip": true)"), "a <x>  a"), (Ids{1, 2, 9, 1}));
  EXPECT_EQ(ids(with_token(R"(, "single_word": true)"), "a<x> <x>"), (Ids{1, 2, 9}));
}

TEST(AddedTokens, AreLookedForBeforeOrAfterNormalisation) {
  const std::string replaces =
      R"(, "normalizer": {"type": "Replace", "pattern": {"String": "x"}, "content": "a"})";
  EXPECT_EQ(ids(with_token(R"(, "normalized": false)", replaces), "x<x>"), (Ids{1, 9}));
  EXPECT_EQ(ids(with_token(R"(, "normalized": true)", replaces), "x<a>"), (Ids{1, 9}));
}

TEST(Metaspace, PrependsToTheFirstWordOnlyWhereAsked) {
  const auto scheme = [](const std::string& name) {
    return with_token("", R"(, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁",
        "prepend_scheme": ")" +
                              name + R"(", "split": false})");
  };
  EXPECT_EQ(ids(scheme("always"), "a<x>a"), (Ids{3, 1, 9, 3, 1}));
  EXPECT_EQ(ids(scheme("first"), "a<x>a"), (Ids{3, 1, 9, 1}));
  EXPECT_EQ(ids(scheme("first"), "<x>a"), (Ids{9, 1}));
  EXPECT_EQ(ids(scheme("never"), "a a"), (Ids{1, 3, 1}));
  EXPECT_EQ(ids(scheme("always"), " a"), (Ids{3, 1}));
}

}  // namespace
}  // namespace tril::pipeline_test
