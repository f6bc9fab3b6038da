// BLEU against sacreBLEU: tokens, counts, precisions and printed lines are equal; scores within the
// rounding of two libraries' exp and log.
#include "tril/text/bleu.h"

#include <cmath>
#include <limits>

#include "score_cases.h"
#include "support/testing.h"

namespace tril::bleu_test {
namespace {

using testing::add_all;
using testing::field;
using testing::raised_by;
using testing::score_cases;
using testing::ScoreCase;

BleuTokenizer tokenizer_named(const std::string& name) {
  if (name == "13a") return BleuTokenizer::v13a;
  if (name == "intl") return BleuTokenizer::intl;
  if (name == "char") return BleuTokenizer::character;
  EXPECT_EQ(name, "none");
  return BleuTokenizer::none;
}

BleuSmoothing smoothing_named(const std::string& name) {
  if (name == "exp") return BleuSmoothing::exponential;
  if (name == "floor") return BleuSmoothing::floor;
  if (name == "add-k") return BleuSmoothing::add_k;
  EXPECT_EQ(name, "none");
  return BleuSmoothing::none;
}

// Relative. Each logarithm is below 16 in size, so that two libraries' (2 and 1 units in the last
// place) differ by at most 3 * 2^-49, and so does their mean; its three additions, of sums below
// 64, round by 2^-48 each, on either side, a quarter of which counts: 3 * 2^-49 more. exp turns
// that into a relative error and adds 3 * 2^-52, and so does the penalty's; the product rounds by
// 2^-52. Together below 7 * 2^-49.
constexpr double kBound = 0x1p-46;

void expect_score(const BleuScore& score, const JsonValue& expected) {
  const double value = field(expected, "score").number;
  EXPECT_NEAR(score.score, value, value * kBound);
  const double penalty = field(expected, "brevity_penalty").number;
  EXPECT_NEAR(score.brevity_penalty, penalty, penalty * kBound);
  EXPECT_EQ(score.statistics.hypothesis_length, field(expected, "hypothesis_length").integer);
  EXPECT_EQ(score.statistics.reference_length, field(expected, "reference_length").integer);
  for (size_t i = 0; i < kBleuOrders; ++i) {
    EXPECT_EQ(score.precisions[i], field(expected, "precisions").items.at(i).number);
    EXPECT_EQ(score.statistics.matches[i], field(expected, "matches").items.at(i).integer);
    EXPECT_EQ(score.statistics.totals[i], field(expected, "totals").items.at(i).integer);
  }
  EXPECT_EQ(to_string(score), testing::expected_line(expected));
}

TEST(Bleu, IsThatOfSacrebleu) {
  int scores = 0;
  for (const ScoreCase& corpus : score_cases()) {
    for (const JsonValue& expected : field(corpus.json, "bleu").items) {
      SCOPED_TRACE(corpus.name + ": " + field(expected, "line").text);
      const JsonValue& value = field(expected, "value");
      const BleuStatistics statistics = add_all(
          corpus, BleuStatistics{.tokenizer = tokenizer_named(field(expected, "tokenizer").text)});
      EXPECT_EQ(statistics.segments, std::ssize(corpus.hypotheses));
      expect_score(
          bleu(statistics, smoothing_named(field(expected, "smoothing").text),
               value.kind == JsonValue::Kind::null ? std::nullopt : std::optional(value.number)),
          expected);
      ++scores;
    }
  }
  EXPECT_GT(scores, 150);
}

TEST(Bleu, TokensAreThoseOfSacrebleu) {
  for (const ScoreCase& corpus : score_cases()) {
    for (size_t i = 0; i < corpus.hypotheses.size(); ++i) {
      const JsonValue& expected = field(corpus.json, "tokens").items.at(i);
      ASSERT_EQ(expected.items.size(), 4u);
      for (size_t t = 0; t < expected.items.size(); ++t) {
        EXPECT_EQ(bleu_tokens(corpus.hypotheses[i], tokenizer_named(expected.names[t])),
                  expected.items[t].text)
            << corpus.name << " " << i << " " << expected.names[t];
      }
    }
  }
}

TEST(Bleu, LineIsReadable) {
  BleuStatistics statistics;
  statistics.add("The cat sat on the mat.", "The cat is on the mat.");
  EXPECT_EQ(to_string(bleu(statistics)),
            "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tril.0.1.0 = 48.89 "
            "85.7/66.7/40.0/25.0 (BP = 1.000 ratio = 1.000 hyp_len = 7 ref_len = 7)");
}

TEST(Bleu, PartsAddUp) {
  for (const ScoreCase& corpus : score_cases()) {
    BleuStatistics sum;
    for (size_t i = 0; i < corpus.hypotheses.size(); ++i) {
      ScoreCase segment{.hypotheses = {corpus.hypotheses[i]}, .references = {corpus.references[i]}};
      sum.add(add_all(segment, BleuStatistics{}));
    }
    EXPECT_EQ(to_string(bleu(sum)), to_string(bleu(add_all(corpus, BleuStatistics{}))));
    EXPECT_EQ(sum.segments, std::ssize(corpus.hypotheses));
    const std::string before = to_string(bleu(sum));
    sum.add(BleuStatistics{});  // a part without segments changes nothing
    EXPECT_EQ(to_string(bleu(sum)), before);
  }
}

TEST(Bleu, TextThatIsNoUtf8IsRefusedAndNothingAdded) {
  const std::string bad[] = {
      "ab\xff",
      "ab\x80",
      "ab\xc3",
      "ab\xc0\xaf",
      "ab\xe0\x9f\xbf",
      "ab\xed\xa0\x80",
      "ab\xe2\x82",
      "ab\xe2\x82z",
      "ab\xf0\x8f\xbf\xbf",
      "ab\xf4\x90\x80\x80",
      "ab\xf5\x80\x80\x80",
      "ab\xf0\x9f\x98",
  };
  for (const std::string& text : bad) {
    BleuStatistics statistics;
    auto raised = raised_by([&] { statistics.add(text, "good"); });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    EXPECT_EQ(raised.text, "bleu: expected UTF-8, the hypothesis is none at byte 3");
    const std::string_view references[] = {"good", text};
    raised = raised_by([&] { statistics.add("good", references); });
    EXPECT_EQ(raised.text, "bleu: expected UTF-8, reference 2 is none at byte 3");
    EXPECT_EQ(statistics.segments, 0);
    EXPECT_EQ(statistics.totals[0], 0);
    raised = raised_by([&] { bleu_tokens(text, BleuTokenizer::none); });
    EXPECT_EQ(raised.text, "bleu_tokens: expected UTF-8, the segment is none at byte 3");
  }
  // The limits of what is allowed.
  BleuStatistics statistics;
  statistics.add("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80",
                 "\xef\xbf\xbf\xf4\x8f\xbf\xbf");
  EXPECT_EQ(statistics.segments, 1);
}

TEST(Bleu, RefusesWhatMeansNothing) {
  BleuStatistics statistics;
  EXPECT_EQ(raised_by([&] { bleu(statistics); }).text,
            "bleu: expected at least one segment, got none");
  EXPECT_EQ(raised_by([&] { statistics.add("a", std::span<const std::string_view>()); }).text,
            "bleu: expected at least one reference, got none");
  statistics.add("a", "a");
  EXPECT_EQ(raised_by([&] { bleu(statistics, BleuSmoothing::exponential, 0.5); }).text,
            "bleu: expected no value, as smoothing exp has none, got 0.5");
  EXPECT_EQ(raised_by([&] { bleu(statistics, BleuSmoothing::floor, -0.5); }).text,
            "bleu: expected a finite value of smoothing, at least 0, got -0.5");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(raised_by([&] { bleu(statistics, BleuSmoothing::add_k, nan); }).code,
            ErrorCode::invalid_argument);
  const BleuStatistics other{.tokenizer = BleuTokenizer::intl};
  EXPECT_EQ(raised_by([&] { statistics.add(other); }).text,
            "bleu: statistics of tokenizer 13a cannot take those of intl");
  EXPECT_EQ(raised_by([&] {
              BleuStatistics{.tokenizer = static_cast<BleuTokenizer>(9)}.add("a", "a");
            }).text,
            "bleu: unknown tokenizer 9");
}

}  // namespace
}  // namespace tril::bleu_test
