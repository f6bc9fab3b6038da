#include "tril/data/corpus.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.h"
#include "support/testing.h"

namespace tril::corpus_test {
namespace {

using testing::raised_by;
using testing::TempFolder;

class CorpusTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  CorpusFiles pair_of(std::string_view source, std::string_view target) {
    return {.source = {file("s", source)}, .target = {file("t", target)}};
  }
  CorpusOptions options(int64_t memory_bytes = 1 << 20) {
    return {.max_line_bytes = 100, .spool_folder = folder_.path(), .memory_bytes = memory_bytes};
  }
  TempFolder folder_;
};

TEST_F(CorpusTest, KeepsPairsInOrder) {
  const Corpus corpus(pair_of("a\nb b\n", "A\nB\xE0\xA4\x95\n"), options());
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_EQ(corpus.source(0), "a");
  EXPECT_EQ(corpus.target(0), "A");
  EXPECT_EQ(corpus.source(1), "b b");
  EXPECT_EQ(corpus.target(1), "B\xE0\xA4\x95");
  EXPECT_EQ(corpus.report().skipped_pairs(), 0);
  EXPECT_TRUE(corpus.report().lines().empty());
}

TEST_F(CorpusTest, CountsAndNamesWhatItLeavesOut) {
  const std::string longer(101, 'x');
  const Corpus corpus(
      pair_of("good\n\nb\xFFtter\n" + longer + "\nfine\nlast\n", "GOOD\nA\nB\nC\n \t\nLAST\n"),
      options());
  EXPECT_EQ(corpus.size(), 2);
  EXPECT_EQ(corpus.source(1), "last");
  const CorpusReport& report = corpus.report();
  EXPECT_EQ(report.pairs, 2);
  EXPECT_EQ(report.skipped_pairs(), 4);
  EXPECT_EQ(report.lines(),
            (std::vector<std::string>{
                "2 pairs left out for an empty side, first " + (folder_ / "s") + ":2 (empty)",
                "1 pair left out for invalid UTF-8, first " + (folder_ / "s") +
                    ":3 (not UTF-8 at byte 2)",
                "1 pair left out for a line too long, first " + (folder_ / "s") +
                    ":4 (more than 100 bytes)"}));
}

TEST_F(CorpusTest, FilesOfUnequalLengthAreAnErrorThatNamesTheLine) {
  const auto raised = raised_by([&] { Corpus corpus(pair_of("a\nb\nc\n", "A\nB\n"), options()); });
  EXPECT_EQ(raised.code, ErrorCode::bad_format);
  EXPECT_EQ(raised.text.find((folder_ / "t") + " ends after line 2, but " + (folder_ / "s")), 0u)
      << raised.text;
}

TEST_F(CorpusTest, ReadsTsv) {
  const Corpus corpus({.tsv = {file("x.tsv", "a b\tA B\n\nc\tC\n")}}, options());
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_EQ(corpus.source(0), "a b");
  EXPECT_EQ(corpus.target(1), "C");
  EXPECT_EQ(corpus.report().skipped_pairs(), 1);
  for (const char* bad : {"a\tb\nno tab here\n", "a\tb\tc\n"}) {
    const auto raised = raised_by([&] { Corpus({.tsv = {file("y.tsv", bad)}}, options()); });
    EXPECT_EQ(raised.code, ErrorCode::bad_format);
    EXPECT_NE(raised.text.find("y.tsv:"), std::string::npos) << raised.text;
  }
}

TEST_F(CorpusTest, ReadsATextAlone) {
  const Corpus corpus({.text = {file("x", "one\n\ntwo\ttabs\tare text\n")}}, options());
  EXPECT_FALSE(corpus.has_source());
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_EQ(corpus.source(0), "");
  EXPECT_EQ(corpus.target(1), "two\ttabs\tare text");
}

TEST_F(CorpusTest, RefusesWhatIsNoCorpus) {
  EXPECT_EQ(raised_by([&] { Corpus({}, options()); }).code, ErrorCode::invalid_argument);
  const std::string s = file("s", "a\n");
  EXPECT_NE(raised_by([&] {
              Corpus({.source = {s}, .target = {s}}, options());
            }).text.find("as source and as target"),
            std::string::npos);
  EXPECT_EQ(raised_by([&] { Corpus({.source = {s}}, options()); }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(raised_by([&] { Corpus({.source = {s}, .target = {s}, .tsv = {s}}, options()); }).code,
            ErrorCode::invalid_argument);
  const auto empty = raised_by([&] { Corpus(pair_of("", ""), options()); });
  EXPECT_EQ(empty.code, ErrorCode::bad_format);
  EXPECT_NE(empty.text.find("nothing to learn from"), std::string::npos) << empty.text;
}

// The same corpus in memory and on disk.
TEST_F(CorpusTest, SpoolsToDiskPastItsShareOfMemory) {
  std::string source;
  std::string target;
  for (int i = 0; i < 3000; ++i) {
    source += "source " + std::to_string(i) + "\n";
    target += "target " + std::to_string(i * i) + "\n";
  }
  const CorpusFiles files = pair_of(source, target);
  const auto before = folder_.names();
  const Corpus small(files, options());
  const Corpus large(files, options(/*memory_bytes=*/1000));
  EXPECT_EQ(folder_.names(), before) << "the spool has no name";
  ASSERT_EQ(large.size(), small.size());
  for (int64_t i = 0; i < small.size(); ++i) {
    ASSERT_EQ(large.source(i), small.source(i));
    ASSERT_EQ(large.target(i), small.target(i));
  }
  EXPECT_EQ(large.fingerprint(), small.fingerprint());
}

TEST_F(CorpusTest, TheFingerprintTellsTextsApart) {
  const auto print = [&](std::string_view source, std::string_view target) {
    return Corpus(pair_of(source, target), options()).fingerprint();
  };
  const uint64_t one = print("ab\nc\n", "d\ne\n");
  EXPECT_EQ(print("ab\nc\n", "d\ne\n"), one);
  EXPECT_NE(print("a\nbc\n", "d\ne\n"), one);
  EXPECT_NE(print("ab\nc\n", "d\nf\n"), one);
  EXPECT_NE(print("abd\nce\n", "x\ny\n"), one);
}

TEST_F(CorpusTest, LimitsTokens) {
  std::vector<std::string> lines = {"aa bb", "aa bb aa bb aa bb aa bb aa bb", "bb"};
  size_t next = 0;
  const Tokenizer tokenizer = Tokenizer::train(
      [&](std::string& line) {
        if (next == 100) return false;
        line = lines[next++ % lines.size()];
        return true;
      },
      {.vocab = 270});
  Corpus corpus(pair_of("aa bb\n" + lines[1] + "\nbb\n", "aa\naa\nbb\n"), options());
  const auto tokens = [&](std::string_view text) {
    return static_cast<int64_t>(tokenizer.encode(text).size()) + 1;
  };
  ASSERT_GT(tokens(lines[1]), tokens("aa bb"));
  corpus.limit_tokens(tokenizer, tokens("aa bb"));
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_EQ(corpus.source(1), "bb");
  EXPECT_EQ(corpus.source_tokens(), tokens("aa bb") + tokens("bb"));
  EXPECT_EQ(corpus.target_tokens(), tokens("aa") + tokens("bb"));
  ASSERT_EQ(corpus.report().lines().size(), 1u);
  EXPECT_NE(corpus.report().lines()[0].find("s:2 ("), std::string::npos);
  EXPECT_EQ(raised_by([&] { corpus.limit_tokens(tokenizer, 1); }).code, ErrorCode::bad_format);
}

}  // namespace
}  // namespace tril::corpus_test
