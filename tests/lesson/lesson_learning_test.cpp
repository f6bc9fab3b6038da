// The lessons that learn, with few updates: their figures, and that verdicts are computed. Whole
// runs are tests/e2e/lesson.sh's.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "support/models.h"
#include "support/testing.h"
#include "tril/lesson/bank_sentences.h"
#include "tril/lesson/demo.h"
#include "tril/lesson/learn_phrasebook.h"
#include "tril/lesson/lesson_context.h"
#include "tril/lesson/lesson_leakage.h"
#include "tril/lesson/lesson_sequential.h"
#include "tril/lesson/lesson_series.h"
#include "tril/lesson/lesson_teacher_forcing.h"
#include "tril/lesson/pictures.h"
#include "tril/lesson/word_list.h"
#include "tril/text/unicode.h"

namespace tril::lesson_learning_test {
namespace {

using testing::raised_by;

TEST(WordList, WordsToTokensAndBack) {
  WordList words;
  words.add("the river bank");
  words.add("the bank");
  EXPECT_EQ(words.size(), 5);
  EXPECT_EQ(words.encode("the bank  river"), (std::vector<int32_t>{2, 4, 3}));
  EXPECT_EQ(words.decode(std::vector<int32_t>{0, 4, 2, 1}), "bank the");
  EXPECT_EQ(raised_by([&] { words.encode("the sea"); }).text, "word list: 'sea' is not in it");
  EXPECT_EQ(raised_by([&] { words.decode(std::vector<int32_t>{5}); }).text,
            "word list: token 5 is not below 5");
}

TEST(LessonLeakage, TheLossFallsFasterWithoutTheMask) {
  const LeakageLesson l = teach_leakage({.updates = 60});
  ASSERT_EQ(l.masked.curve.size(), 10u);
  ASSERT_EQ(l.unmasked.curve.size(), 10u);
  // Both begin at log(vocabulary) = 7.6 or so, from the same weights.
  EXPECT_NEAR(l.masked.curve[0], 7.6, 0.8);
  EXPECT_NEAR(l.unmasked.curve[0], l.masked.curve[0], 0.1);
  EXPECT_LT(l.unmasked.curve.back(), 0.8 * l.masked.curve.back());
  EXPECT_LT(l.unmasked.held_out_loss, 0.8 * l.masked.held_out_loss);
  EXPECT_GT(l.unmasked.held_out_loss_masked, l.masked.held_out_loss);
  EXPECT_EQ(l.masked.held_out_loss_masked, l.masked.held_out_loss);
  EXPECT_EQ(l.unmasked.exact, 0);
  EXPECT_EQ(l.masked.rows, l.unmasked.rows);
  EXPECT_EQ(l.masked.cut, l.unmasked.cut);
  EXPECT_GT(l.unmasked.ended, l.masked.ended);
  EXPECT_GT(l.unmasked.copied, 2 * l.masked.copied);
  EXPECT_EQ(l.masked.writes.size(), 4u);
  for (const std::string& text : l.unmasked.forced) EXPECT_FALSE(text.empty());
  // A model that has learnt so little writes most sentences wrong: the verdict must not hold.
  EXPECT_FALSE(l.holds);
  EXPECT_EQ(raised_by([] { teach_leakage({.updates = 9}); }).code, ErrorCode::invalid_argument);
}

void expect_consistent(const TeacherExample& e) {
  ASSERT_FALSE(e.steps.empty());
  for (size_t i = 0; i < e.steps.size(); ++i) {
    const TeacherStep& s = e.steps[i];
    if (!s.right.empty()) {
      EXPECT_EQ(s.fed_in_training, i == 0 ? "START" : e.steps[i - 1].right);
      EXPECT_GT(s.right_probability, 0.0);
      EXPECT_EQ(s.mistake, s.predicted_in_training != s.right);
    }
    if (!s.predicted_in_inference.empty()) {
      EXPECT_EQ(s.fed_in_inference, i == 0 ? "START" : e.steps[i - 1].predicted_in_inference);
    }
  }
}

TEST(LessonTeacherForcing, AMistakeIsCorrectedOrFollowed) {
  const Phrasebook phrasebook = make_phrasebook();
  const Translator translator = learn_phrasebook(phrasebook, {.updates = 100});
  const std::vector<PhrasePair> some(phrasebook.held_out.begin(),
                                     phrasebook.held_out.begin() + 150);
  const TeacherLesson l = teach_teacher_forcing(translator, some);
  EXPECT_EQ(l.sentences, 150);
  EXPECT_GT(l.with_mistake, 0);
  EXPECT_TRUE(l.same_until_mistake);
  ASSERT_TRUE(l.real);
  EXPECT_GT(l.right_when_corrected, l.followed_in_order);
  // Words at their right place are in order, too; one word too many shifts some that are in order.
  EXPECT_GT(l.followed_in_order, l.right_when_followed);
  EXPECT_LE(l.right_when_corrected, l.following);
  EXPECT_TRUE(l.holds);
  const TeacherExample& e = l.example;
  expect_consistent(e);
  const auto at = static_cast<size_t>(e.mistake);
  EXPECT_TRUE(e.steps[at].mistake);
  for (size_t i = 0; i < at; ++i) EXPECT_FALSE(e.steps[i].mistake);
  EXPECT_EQ(e.steps[at].predicted_in_inference, e.steps[at].predicted_in_training);
  EXPECT_EQ(e.steps[at + 1].fed_in_training, e.steps[at].right);
  EXPECT_EQ(e.steps[at + 1].fed_in_inference, e.steps[at].predicted_in_inference);
  EXPECT_EQ(e.right_when_corrected, e.following);
  EXPECT_LT(e.followed_in_order, e.following);
  EXPECT_LE(e.right_when_followed, e.followed_in_order);
}

// A model that knows its sentences makes no mistake: one is invented, and declared as such.
TEST(LessonTeacherForcing, WithoutAMistakeOneIsInserted) {
  Phrasebook tiny;
  tiny.train = lesson_sentences();
  const Translator translator = learn_phrasebook(tiny, {.updates = 60});
  const TeacherLesson l = teach_teacher_forcing(translator, tiny.train);
  EXPECT_EQ(l.sentences, 4);
  EXPECT_EQ(l.left_out, 0);
  EXPECT_EQ(l.with_mistake, 0);
  ASSERT_FALSE(l.real);
  expect_consistent(l.example);
  EXPECT_EQ(l.example.english, "How are you?");
  EXPECT_EQ(l.example.mistake, 0);
  EXPECT_EQ(l.example.steps[0].predicted_in_training, l.example.steps[0].right);
  EXPECT_NE(l.example.steps[0].predicted_in_inference, l.example.steps[0].right);
  EXPECT_EQ(l.example.right_when_corrected, l.example.following);
  EXPECT_EQ(l.holds, l.example.followed_in_order < l.example.following);
  std::vector<PhrasePair> longer = tiny.train;
  for (int i = 0; i < 200; ++i) longer[0].english += " very";
  EXPECT_EQ(teach_teacher_forcing(translator, longer).left_out, 1);
  EXPECT_EQ(raised_by([&] { teach_teacher_forcing(translator, {}); }).text,
            "lesson teacher-forcing: of 0 sentences the model can read none");
}

TEST(BankSentences, AnEnglishSentenceHasOneHindiAndHeldOutOnesAreComposed) {
  const BankSentences text = make_bank_sentences();
  std::map<std::string, std::string> all;
  std::set<std::string, std::less<>> learnt;
  for (const BankSentence& sentence : text.train) {
    EXPECT_TRUE(all.emplace(sentence.english, sentence.hindi).second) << sentence.english;
    for (const auto* side : {&sentence.english, &sentence.hindi}) {
      for (const std::string_view word : split_words(*side)) learnt.emplace(word);
    }
  }
  for (const BankSentence& sentence : text.held_out) {
    EXPECT_TRUE(all.emplace(sentence.english, sentence.hindi).second) << sentence.english;
    for (const auto* side : {&sentence.english, &sentence.hindi}) {
      for (const std::string_view word : split_words(*side)) {
        EXPECT_TRUE(learnt.contains(word)) << word;
      }
    }
  }
  for (const auto& [english, hindi] : all) {
    // Hindi says which; English never does.
    const bool water = hindi.find("किनार") != std::string::npos;
    const bool money = hindi.find("बैंक") != std::string::npos;
    EXPECT_NE(water, money) << hindi;
    EXPECT_NE(english.find(" bank"), std::string::npos) << english;
  }
  ASSERT_EQ(text.near.size(), 8u);
  EXPECT_EQ(text.near[0].english, "the river bank is near");
  EXPECT_EQ(text.near[0].hindi, "किनारा पास है");
  EXPECT_EQ(text.near[4].english, "the money bank is near");
  EXPECT_EQ(text.near[4].hindi, "बैंक पास है");
  for (const BankSentence& sentence : text.near)
    EXPECT_EQ(split_words(sentence.english)[2], "bank");
}

TEST(LessonContext, TheSameGoesInAndContextTellsItApart) {
  const ContextLesson l = teach_context({.updates = 300, .threads = 1});
  EXPECT_TRUE(l.equal_at_first);
  ASSERT_EQ(l.layers.size(), 4u);
  EXPECT_EQ(l.layers[0].river_money.distance, 0.0);
  EXPECT_NEAR(l.layers[0].river_money.cosine, 1.0, 1e-12);
  EXPECT_EQ(l.layers[0].nearest_is_same, 0);
  for (size_t layer = 1; layer < 4; ++layer) {
    EXPECT_GT(l.layers[layer].river_money.distance, 0.0);
    EXPECT_GT(l.layers[layer].same_sense.distance, 0.0);
  }
  EXPECT_EQ(l.translations.size(), 8u);
  EXPECT_FALSE(l.told_later.empty());
  EXPECT_EQ(l.told_later.size(), l.told_later_translations.size());
  EXPECT_GT(10 * l.right_word, 9 * l.held_out);
  // Where a later word tells: apart in the encoder, one vector under a causal mask.
  EXPECT_GT(l.later_same.distance, 0.0);
  EXPECT_GT(l.later_other.distance, 0.0);
  EXPECT_EQ(l.later_differ, static_cast<int64_t>(l.told_later.size()) - 1);
  EXPECT_TRUE(l.twin_is_encoder);
  EXPECT_EQ(l.differ_under_mask, 0);
  EXPECT_EQ(l.learnt, 0);
}

TEST(LessonContext, WithNextToNoLearningTheVerdictDoesNotHoldAndThreadsChangeNothing) {
  const ContextLesson one = teach_context({.updates = 5, .threads = 1});
  const ContextLesson two = teach_context({.updates = 5, .threads = 2});
  EXPECT_TRUE(one.equal_at_first);
  EXPECT_FALSE(one.holds);
  EXPECT_EQ(one.loss, two.loss);
  for (size_t layer = 0; layer < one.layers.size(); ++layer) {
    EXPECT_EQ(one.layers[layer].river_money.distance, two.layers[layer].river_money.distance);
  }
}

TEST(LessonSeries, TheSeriesIsAlwaysTheSame) {
  const std::vector<int64_t> days = price_series(1100 * 7);
  EXPECT_EQ(std::vector<int64_t>(days.begin(), days.begin() + 10), price_series(10));
  for (const int64_t price : days) {
    EXPECT_GE(price, 10);
    EXPECT_LE(price, 50);
  }
  EXPECT_EQ(raised_by([] { price_series(-1); }).text, "price series: -1 days");
}

TEST(LessonSeries, BeatsNaiveForecastsOnUnseenDays) {
  const SeriesLesson l = teach_series({.updates = 120});
  EXPECT_EQ(l.days_learnt, 7000);
  EXPECT_EQ(l.days_forecast, 97 * 7);
  const std::vector<int64_t> days = price_series(1100 * 7);
  double yesterday = 0.0, last_week = 0.0;
  for (size_t t = 1003 * 7; t < days.size(); ++t) {
    yesterday += std::fabs(static_cast<double>(days[t] - days[t - 1]));
    last_week += std::fabs(static_cast<double>(days[t] - days[t - 7]));
  }
  EXPECT_DOUBLE_EQ(l.errors.yesterday, yesterday / 679.0);
  EXPECT_DOUBLE_EQ(l.errors.last_week, last_week / 679.0);
  EXPECT_LT(l.errors.model, l.errors.yesterday);
  EXPECT_LT(l.errors.formula, l.errors.model);
  EXPECT_EQ(l.logits, 28 * 42);
  EXPECT_EQ(l.logits_differing, 0);
  EXPECT_EQ(l.before.size(), 7u);
  EXPECT_EQ(l.ahead.size(), 3u);
  EXPECT_EQ(l.ahead_real[0], l.friday);
  EXPECT_EQ(l.ahead[0], l.forecast);
  EXPECT_LT(l.unmasked_seeming, l.errors.model);
  // One update teaches nothing: the verdict must not hold.
  EXPECT_FALSE(teach_series({.updates = 1}).holds);
}

TEST(LessonSequential, CallsMemoryAndTheSameGradients) {
  const SequentialLesson l =
      teach_sequential({.rows = {{1, 3}, {2, 5}, {1, 100}, {1, 200}}, .long_words = {500, 2000}});
  ASSERT_EQ(l.rows.size(), 4u);
  EXPECT_EQ(l.rows[0].figures.sequential.calls, 4);
  EXPECT_EQ(l.rows[0].figures.parallel.calls, 1);
  EXPECT_EQ(l.rows[1].figures.sequential.calls, 12);
  EXPECT_EQ(l.rows[1].figures.sequential.rows, 2 * (6 * 7 / 2));
  EXPECT_EQ(l.rows[3].figures.sequential.calls, 201);
  EXPECT_GT(l.rows[3].figures.weakest_position, 1.0);
  ASSERT_EQ(l.long_targets.size(), 2u);
  EXPECT_EQ(l.long_targets[1].score_matrix_bytes, 2 * 2 * 2001 * 2001 * 4);
  EXPECT_GT(l.long_targets[0].peak_bytes, l.long_targets[0].score_matrix_bytes);
  EXPECT_LT(l.long_targets[1].peak_bytes, l.long_targets[1].score_matrix_bytes);
  EXPECT_DOUBLE_EQ(l.length_growth, 2001.0 / 501.0);
  EXPECT_LE(l.memory_growth, 1.05 * l.length_growth);
  EXPECT_GE(l.memory_growth, 0.5 * l.length_growth);
  EXPECT_EQ(l.base_matrix_bytes, 6 * 8 * 201 * 201 * 4);
  EXPECT_TRUE(l.holds);
  // Its picture: 4 + 3 + 2 + 1 cells that are read and 6 that are not, beside 4 of one call.
  const std::string svg = draw_sequential(l);
  const auto count = [&](std::string_view what) {
    int64_t found = 0;
    for (size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("class=\"cell\""), 10 + 4);
  EXPECT_EQ(count("class=\"no\""), 6);
  EXPECT_EQ(count(">loss<"), 4 + 4);
  SequentialLesson miscounted = l;
  miscounted.rows[0].figures.sequential.rows += 1;
  EXPECT_THROW(draw_sequential(miscounted), Error);
}

TEST(LessonSequential, AWidenedMaskBreaksTheVerdict) {
  const std::vector<SequentialRow> rows = {{1, 3}, {1, 100}, {1, 120}};
  EXPECT_FALSE(
      teach_sequential({.rows = rows, .long_words = {500, 2000}, .hooks = {.widen_head = 0}})
          .holds);
  // Targets so short that the matrices of scores would be small: nothing is shown.
  EXPECT_FALSE(teach_sequential({.rows = {{1, 3}}, .long_words = {50, 100}}).holds);
  EXPECT_THROW(teach_sequential({.rows = {{1, 3}}, .long_words = {50}}), Error);
  EXPECT_THROW(teach_sequential({.rows = {{1, 3}}, .long_words = {50, 50}}), Error);
  EXPECT_THROW(teach_sequential({.rows = {{1, 5000}}}), Error);
  EXPECT_THROW(teach_sequential({.rows = {}}), Error);
}

}  // namespace
}  // namespace tril::lesson_learning_test
