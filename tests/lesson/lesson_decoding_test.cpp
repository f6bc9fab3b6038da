// Lesson `decoding` on a small model: which ways are the same bits, and that faults turn the
// verdict.
#include "tril/lesson/lesson_decoding.h"

#include <gtest/gtest.h>

#include "support/testing.h"
#include "tril/lesson/learn_phrasebook.h"

namespace tril::lesson_decoding_test {
namespace {

using testing::raised_by;

// Learnt once for all tests here.
struct Classroom {
  Phrasebook phrasebook = make_phrasebook();
  Translator translator = learn_phrasebook(phrasebook, {.updates = 100});
  std::vector<std::string> lines;
  Classroom() {
    for (const PhrasePair& phrase : phrasebook.train) lines.push_back(phrase.hindi);
  }
};
const Classroom& classroom() {
  static const Classroom room;
  return room;
}
DecodingLesson teach(const DecodingOptions& options) {
  const Classroom& room = classroom();
  return teach_decoding(room.translator, room.phrasebook.held_out, room.lines, options);
}

TEST(LessonDecoding, ThreeWaysAndGuessing) {
  const DecodingLesson l = teach({.sentences = 40});
  EXPECT_EQ(l.sentences, 40);
  EXPECT_EQ(l.left_out, 0);
  EXPECT_EQ(l.decoder_layers, 2);
  EXPECT_TRUE(l.same_as_search);
  // One call per token in all three ways; recomputed, call i reads i tokens.
  EXPECT_EQ(l.cached.calls, l.cached.tokens);
  EXPECT_EQ(l.cached.positions, l.cached.calls);
  EXPECT_EQ(l.masked.calls, l.cached.calls);
  EXPECT_EQ(l.unmasked.calls, l.cached.calls);
  EXPECT_GT(l.masked.positions, 2 * l.cached.positions);
  EXPECT_EQ(l.unmasked.positions, l.masked.positions);
  EXPECT_EQ(l.masked.logits, l.cached.tokens * 2000);
  EXPECT_TRUE(l.same_bits_cached_and_recomputed);
  EXPECT_FALSE(l.same_bits_without_mask);
  EXPECT_GT(l.unmasked.tokens_differing, 0);
  EXPECT_GE(l.unmasked.tokens_differing, l.unmasked.translations_differing);
  ASSERT_FALSE(l.examples.empty());
  EXPECT_NE(l.examples[0].cached, l.examples[0].unmasked);
  // Without the mask earlier keys and values change from the second layer on.
  ASSERT_EQ(l.layers.size(), 2u);
  for (const DecodingLayer& layer : l.layers) {
    EXPECT_EQ(layer.values, (l.masked.positions - l.masked.calls) * 2 * 64);
    EXPECT_EQ(layer.differing_masked, 0);
  }
  EXPECT_EQ(l.layers[0].differing_unmasked, 0);
  EXPECT_GT(l.layers[1].differing_unmasked, l.layers[1].values / 2);
  EXPECT_TRUE(l.one_layer_same_without_mask);
  EXPECT_EQ(l.one_layer.logits, l.masked.logits);

  ASSERT_EQ(l.guessing.size(), 4u);
  for (const GuessRun& run : l.guessing) {
    EXPECT_TRUE(run.way.same_bits()) << run.guesses;
    EXPECT_EQ(run.way.tokens, l.cached.tokens);
    EXPECT_EQ(run.way.translations_differing, 0);
    // A call for each token but those that were guessed.
    EXPECT_EQ(run.way.calls, l.cached.calls - run.accepted);
    EXPECT_EQ(run.way.positions, run.way.calls + run.guessed);
    EXPECT_GT(run.accepted, 0);
    EXPECT_LE(run.guessed, run.guesses * run.way.calls);
  }
  EXPECT_FALSE(l.same_bits_guessing_without_mask);
  EXPECT_LT(l.calls_with_guessing, l.calls_one_by_one);
  EXPECT_EQ(l.calls_one_by_one, l.cached.calls);
  EXPECT_TRUE(l.holds);
}

TEST(LessonDecoding, ThreadsChangeNothing) {
  const DecodingLesson one = teach({.sentences = 10, .threads = 1});
  const DecodingLesson two = teach({.sentences = 10, .threads = 2});
  EXPECT_EQ(one.unmasked.logits_differing, two.unmasked.logits_differing);
  EXPECT_EQ(one.layers[1].differing_unmasked, two.layers[1].differing_unmasked);
  EXPECT_EQ(one.calls_with_guessing, two.calls_with_guessing);
  EXPECT_EQ(one.guessing_unmasked.way.calls, two.guessing_unmasked.way.calls);
}

// A mask that is missing where it is said to be, keys stored at the wrong place: each is seen, by
// the logits and by the verdict.
TEST(LessonDecoding, FaultsTurnTheVerdict) {
  const DecodingLesson bare = teach({.sentences = 10, .mask = Masking::none});
  EXPECT_FALSE(bare.same_bits_cached_and_recomputed);
  EXPECT_FALSE(bare.same_bits_guessing);
  EXPECT_EQ(bare.masked.logits_differing, bare.unmasked.logits_differing);
  EXPECT_EQ(bare.layers[0].differing_masked, 0);
  EXPECT_GT(bare.layers[1].differing_masked, 0);
  EXPECT_TRUE(bare.one_layer_same_without_mask);
  EXPECT_FALSE(bare.holds);
  const DecodingLesson shifted = teach({.sentences = 10, .hooks = {.shift_cache = true}});
  EXPECT_FALSE(shifted.same_bits_cached_and_recomputed);
  EXPECT_FALSE(shifted.one_layer_same_without_mask);
  EXPECT_FALSE(shifted.holds);
}

// At a limit all methods are cut in the same way.
TEST(LessonDecoding, CutAtALimit) {
  const DecodingLesson l = teach({.sentences = 10, .max_tokens = 3});
  EXPECT_GT(l.cut, 0);
  EXPECT_LE(l.cached.tokens, 30);
  EXPECT_TRUE(l.same_as_search);
  EXPECT_TRUE(l.same_bits_cached_and_recomputed);
  EXPECT_TRUE(l.same_bits_guessing);
}

// If nothing is known about what may follow, no call is saved, and the verdict says so. From the
// second sentence on, the first one is known.
TEST(LessonDecoding, WithoutGuessesNoCallIsSaved) {
  const Classroom& room = classroom();
  const auto& phrases = room.phrasebook.held_out;
  EXPECT_GT(teach_decoding(room.translator, phrases, {}, {.sentences = 2}).guessing[0].guessed, 0);
  const DecodingLesson l = teach_decoding(room.translator, phrases, {}, {.sentences = 1});
  EXPECT_EQ(l.guessing[0].guessed, 0);
  EXPECT_EQ(l.calls_with_guessing, l.calls_one_by_one);
  EXPECT_TRUE(l.same_bits_guessing);
  EXPECT_FALSE(l.holds);
  EXPECT_EQ(raised_by([&] { teach_decoding(room.translator, {}, {}); }).text,
            "lesson decoding: of 0 sentences the model can read none");
  EXPECT_EQ(raised_by([] {
              teach({.guesses = {2, 0}});
            }).text,
            "lesson decoding: sentences, tokens and guesses must be at least 1");
}

}  // namespace
}  // namespace tril::lesson_decoding_test
