// Translating with the pieces that are listed for each line, and how the list is learnt.
#include <algorithm>
#include <limits>
#include <utility>

#include "translate/examples.h"
#include "tril/train/learn_shortlist.h"

namespace tril::shortlist_test {
namespace {

using testing::Family;
using testing::lines;
using testing::quick_options;
using testing::raised_by;
using testing::same_translation;
using testing::score_all;
using testing::tokenizer;
using testing::Tokens;
using testing::translator_for;

// The lines beside themselves in another order of words.
Shortlist learnt_shortlist(int threads = 1) {
  const Corpus corpus = Corpus::of({{"how are you", "you are how"},
                                    {"where are they going today?", "today? going they are where"},
                                    {"I am fine, thank you", "you thank fine, am I"}});
  return learn_shortlist(corpus, tokenizer(), {.best = 4, .frequent = 5, .threads = threads});
}

// Lines with a shortlist: prefixes, samples, several results and alignments as usual, the same bits
// in any batch, and scores that equal the reported ones.
TEST(Translator, TranslatesAndScoresWithAShortlist) {
  if (testing::device() != Device::cpu) {
    GTEST_SKIP() << "parts of a vocabulary are the CPU's";
  }
  const Translator translator = translator_for(Family::encoder_decoder, 2);
  TranslateOptions options = quick_options();
  options.shortlist = learnt_shortlist();
  options.alignments = true;
  options.search.n_best = 2;
  const auto translations = translator.translate(lines(), options);
  ASSERT_EQ(translations.size(), lines().size());
  for (const int64_t slots : {5, 7, 200}) {
    options.slots = slots;
    const auto again = translator.translate(lines(), options);
    for (size_t i = 0; i < again.size(); ++i)
      EXPECT_TRUE(same_translation(again[i], translations[i])) << i;
  }
  TranslateOptions without = options;
  without.shortlist.reset();
  const auto plain = translator.translate(lines(), without);
  int different = 0;
  for (size_t i = 0; i < plain.size(); ++i)
    different += same_translation(plain[i], translations[i]) ? 0 : 1;
  EXPECT_GT(different, 0) << "the shortlist changes nothing";

  options.search.sample = true;
  options.search.beam = 1;
  size_t taken = 0;
  const std::string prefix = "gathered";
  std::vector<ScoreTextRequest> requests;
  std::vector<double> expected;
  translator.translate(
      [&]() -> std::optional<TextRequest> {
        if (taken == lines().size()) return std::nullopt;
        return TextRequest{lines()[taken++], prefix};
      },
      [&](Translation&& t) {
        for (const TextHypothesis& h : t.hypotheses) {
          if (h.tokens.empty()) continue;
          EXPECT_EQ(h.text.substr(0, prefix.size()), prefix);
          requests.push_back({.source = lines()[static_cast<size_t>(t.number)],
                              .target_tokens = h.tokens,
                              .prefix = prefix});
          expected.push_back(h.score);
        }
        return true;
      },
      options);
  ASSERT_GE(requests.size(), 10u);
  const auto scores = score_all(translator, requests, {.shortlist = options.shortlist});
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(scores[i].score, expected[i]);
  // Without its prefix in the set, what began with it is impossible.
  for (ScoreTextRequest& request : requests) request.prefix.clear();
  const auto impossible = score_all(translator, requests, {.shortlist = options.shortlist});
  EXPECT_EQ(impossible[0].score, -std::numeric_limits<double>::infinity());
}

TEST(Translator, RefusesTheShortlistOfAnotherTokenizer) {
  const Translator translator = translator_for(Family::encoder_decoder);
  ShortlistTable table{.target_vocab = tokenizer().vocab(),
                       .always = {Tokenizer::kEnd},
                       .listed = std::vector<Tokens>(static_cast<size_t>(tokenizer().vocab())),
                       .tokenizer = "0123456789abcdef"};
  TranslateOptions options = quick_options();
  options.shortlist = Shortlist(table);
  const std::string why =
      ": the shortlist was made with another tokenizer: 'tril shortlist' makes one for this model";
  const auto raised = raised_by([&] { translator.translate(lines(), options); });
  EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
  EXPECT_EQ(raised.text, "translate" + why);
  EXPECT_EQ(raised_by([&] { score_all(translator, {}, {.shortlist = options.shortlist}); }).text,
            "score" + why);
  const Translator writer = translator_for(Family::decoder_only);
  options.shortlist = learnt_shortlist();
  EXPECT_EQ(raised_by([&] { writer.translate(lines(), options); }).text,
            "search: a decoder-only model has no source to choose a shortlist by");
}

// What is learnt: each piece for itself, END and the frequent ones for all, whatever the threads.
TEST(LearnShortlist, ListsWhatTheHeaderSays) {
  const Shortlist shortlist = learnt_shortlist();
  EXPECT_EQ(shortlist.source_vocab(), tokenizer().vocab());
  EXPECT_TRUE(shortlist.always(Tokenizer::kEnd));
  const auto set_of = [&](const Shortlist& list, int32_t source) {
    Tokens set;
    list.choose({&source, 1}, {}, set);
    return set;
  };
  const auto vocab = static_cast<int32_t>(tokenizer().vocab());
  const Shortlist other = learnt_shortlist(3);
  for (int32_t piece = 0; piece < vocab; ++piece) {
    const Tokens set = set_of(shortlist, piece);
    EXPECT_TRUE(std::binary_search(set.begin(), set.end(), piece));
    EXPECT_LE(set.size(), 1u + 4u + 5u + 1u);
    EXPECT_EQ(set_of(other, piece), set);
  }
  for (const char* word : {"where", "thank"}) {  // each is its own translation
    for (const int32_t piece : tokenizer().encode(word)) {
      const Tokens set = set_of(shortlist, piece);
      EXPECT_TRUE(std::binary_search(set.begin(), set.end(), piece));
    }
  }
}

// The coverage of a shortlist is measured on pairs it was not learnt from: for texts with nothing
// in common it is low, however well they were memorised.
TEST(LearnShortlist, IsMeasuredOnPairsThatWereLeftOut) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const Tokenizer& pieces = tokenizer();
  const int32_t first = static_cast<int32_t>(pieces.vocab()) - 60;  // past bytes and characters
  for (int32_t i = 0; i < 20; ++i) {
    const Tokens source = {first + i}, target = {first + 20 + i};
    pairs.emplace_back(pieces.decode(source), pieces.decode(target));
  }
  ShortlistReport report;
  const ShortlistOptions options{.best = 5, .frequent = 0, .threads = 1};
  learn_shortlist(Corpus::of(pairs), pieces, options, &report);
  EXPECT_EQ(report.pairs, 20);
  EXPECT_EQ(report.measured, 2);
  EXPECT_LT(report.covered, 0.5);
  // The same pair again and again is known when one of it is left out.
  learn_shortlist(Corpus::of({20, pairs[0]}), pieces, options, &report);
  EXPECT_EQ(report.measured, 2);
  EXPECT_EQ(report.covered, 1.0);
  learn_shortlist(Corpus::of({9, pairs[0]}), pieces, options, &report);
  EXPECT_EQ(report.measured, 0);
}

// Progress reports show each part begin and advance, including the tokenizing of a long text.
TEST(LearnShortlist, TellsWhatItDoesAndHowFarItIs) {
  std::vector<std::string> told;
  ShortlistOptions options{.best = 5, .frequent = 0, .rounds = 2, .threads = 1};
  options.progress = [&](std::string_view what, int64_t done, int64_t all) {
    told.push_back(concat(what, ": ", done, " of ", all));
  };
  ShortlistReport report;
  learn_shortlist(Corpus::of({10, {"how are you", "you are how"}}), tokenizer(), options, &report);
  std::vector<std::string> expected;
  for (int i = 0; i < 10; ++i) {
    expected.push_back(concat("cutting the text into pieces: ", i, " of 10"));
  }
  for (const char* what : {"learning without 1 pair, to measure with", "learning from 10 pairs"}) {
    for (int i = 0; i <= 2; ++i) expected.push_back(concat(what, ": ", i, " of 2"));
  }
  EXPECT_EQ(told, expected);
}

TEST(LearnShortlist, OptionsAreChecked) {
  const Corpus corpus = Corpus::of({{"a", "b"}});
  const auto text = [&](const Corpus& c, const ShortlistOptions& options) {
    const auto raised = raised_by([&] { learn_shortlist(c, tokenizer(), options); });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    return raised.text;
  };
  EXPECT_EQ(text(corpus, {.best = 0}), "shortlist: best must be from 1 to 1000, got 0");
  EXPECT_EQ(text(corpus, {.frequent = -1}),
            "shortlist: frequent must be from 0 to 1073741824, got -1");
  EXPECT_EQ(text(corpus, {.rounds = 0}), "shortlist: rounds must be from 1 to 100, got 0");
  EXPECT_EQ(text(corpus, {.most_pairs = 0}),
            "shortlist: most_pairs must be from 1 to 1073741824, got 0");
}

}  // namespace
}  // namespace tril::shortlist_test
