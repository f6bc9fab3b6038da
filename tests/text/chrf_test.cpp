// chrF and chrF++ against sacreBLEU: every count and every bit of the score.
#include "tril/text/chrf.h"

#include "score_cases.h"
#include "support/testing.h"

namespace tril::chrf_test {
namespace {

using testing::add_all;
using testing::field;
using testing::raised_by;
using testing::score_cases;
using testing::ScoreCase;

TEST(Chrf, IsThatOfSacrebleu) {
  int scores = 0;
  for (const ScoreCase& corpus : score_cases()) {
    for (const JsonValue& expected : field(corpus.json, "chrf").items) {
      SCOPED_TRACE(corpus.name + ": " + field(expected, "line").text);
      const auto word_orders = static_cast<int>(field(expected, "word_orders").integer);
      const ChrfScore score = chrf(add_all(corpus, ChrfStatistics{.word_orders = word_orders}));
      EXPECT_EQ(score.score, field(expected, "score").number);
      EXPECT_EQ(score.statistics.segments, std::ssize(corpus.hypotheses));
      const std::vector<JsonValue>& counts = field(expected, "counts").items;
      const size_t orders = static_cast<size_t>(kChrfCharacterOrders + word_orders);
      ASSERT_EQ(counts.size(), 3 * orders);
      for (size_t i = 0; i < score.statistics.counts.size(); ++i) {
        const ChrfStatistics::Counts& actual = score.statistics.counts[i];
        const auto count = [&](size_t j) { return i < orders ? counts[3 * i + j].integer : 0; };
        EXPECT_EQ(actual.hypothesis, count(0)) << i;
        EXPECT_EQ(actual.reference, count(1)) << i;
        EXPECT_EQ(actual.matches, count(2)) << i;
      }
      EXPECT_EQ(to_string(score), testing::expected_line(expected));
      ++scores;
    }
  }
  EXPECT_GT(scores, 60);
}

TEST(Chrf, LinesAreReadable) {
  ChrfStatistics statistics;
  statistics.add("The cat sat on the mat.", "The cat is on the mat.");
  EXPECT_EQ(to_string(chrf(statistics)),
            "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:tril.0.1.0 = 67.17");
  ChrfStatistics with_words{.word_orders = 2};
  with_words.add("The cat sat on the mat.", "The cat is on the mat.");
  EXPECT_EQ(to_string(chrf(with_words)),
            "chrF2++|nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:tril.0.1.0 = 69.44");
}

// By hand: 3 characters of 4 match; of 2-grams "ab" "bc" "cx" against "ab" "bc" "cd" "de" two.
TEST(Chrf, MeansAreOfTheOrdersThatBothHave) {
  ChrfStatistics statistics;
  statistics.add("abcx", "a b c d e");
  const ChrfScore score = chrf(statistics);
  EXPECT_EQ(score.precision, (3.0 / 4 + 2.0 / 3 + 1.0 / 2 + 0.0) / 4);
  EXPECT_EQ(score.recall, (3.0 / 5 + 2.0 / 4 + 1.0 / 3 + 0.0) / 4);
}

TEST(Chrf, PartsAddUp) {
  for (const ScoreCase& corpus : score_cases()) {
    ChrfStatistics sum{.word_orders = 2};
    for (size_t i = 0; i < corpus.hypotheses.size(); ++i) {
      ScoreCase segment{.hypotheses = {corpus.hypotheses[i]}, .references = {corpus.references[i]}};
      sum.add(add_all(segment, ChrfStatistics{.word_orders = 2}));
    }
    sum.add(ChrfStatistics{.word_orders = 2});
    EXPECT_EQ(sum.segments, std::ssize(corpus.hypotheses));
    EXPECT_EQ(to_string(chrf(sum)),
              to_string(chrf(add_all(corpus, ChrfStatistics{.word_orders = 2}))));
  }
}

TEST(Chrf, RefusesWhatMeansNothing) {
  ChrfStatistics statistics;
  EXPECT_EQ(raised_by([&] { chrf(statistics); }).text,
            "chrf: expected at least one segment, got none");
  EXPECT_EQ(raised_by([&] { statistics.add("a", std::span<const std::string_view>()); }).text,
            "chrf: expected at least one reference, got none");
  EXPECT_EQ(raised_by([&] { statistics.add("a\xff", "a"); }).text,
            "chrf: expected UTF-8, the hypothesis is none at byte 2");
  EXPECT_EQ(raised_by([&] { statistics.add("a", "\xff"); }).text,
            "chrf: expected UTF-8, reference 1 is none at byte 1");
  EXPECT_EQ(statistics.segments, 0);
  ChrfStatistics odd{.word_orders = 3};
  EXPECT_EQ(raised_by([&] { odd.add("a", "a"); }).text, "chrf: expected 0 to 2 word orders, got 3");
  EXPECT_EQ(raised_by([&] { statistics.add(odd); }).text,
            "chrf: statistics of 0 word orders cannot take those of 3");
}

}  // namespace
}  // namespace tril::chrf_test
