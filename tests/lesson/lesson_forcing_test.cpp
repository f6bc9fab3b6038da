// Lesson `forcing` with few updates: what depends on teacher forcing and what on the mask, and that
// the verdict is computed.
#include "tril/lesson/lesson_forcing.h"

#include <gtest/gtest.h>

#include "support/testing.h"
#include "tril/lesson/pictures.h"

namespace tril::lesson_forcing_test {
namespace {

using testing::raised_by;

TEST(LessonForcing, ForcingGivesTheInputsAndTheMaskTheFunction) {
  const ForcingLesson l = teach_forcing({.updates = 40});
  const ForcingRun &both = l.forcing_masked, &forcing = l.forcing_unmasked, &mask = l.own_masked,
                   &neither = l.own_unmasked;
  for (const ForcingRun* run : {&both, &forcing, &mask, &neither}) {
    EXPECT_EQ(run->calls_learning, 40);
    ASSERT_EQ(run->curve.size(), 10u);
    ASSERT_EQ(run->norms.size(), 40u);
    EXPECT_GT(run->norm_mean, 0.0);
    EXPECT_GE(run->norm_peak, 1.0);
    EXPECT_EQ(run->first_longest, both.first_longest);
    EXPECT_EQ(run->positions, both.positions);
    // Both begin at log(vocabulary) = 7.6 or so, from the same weights.
    EXPECT_NEAR(run->curve[0], 7.6, 0.9);
  }
  EXPECT_EQ(both.calls_before, 0);
  EXPECT_EQ(forcing.calls_before, 0);
  // START is known; every further input takes one call.
  EXPECT_EQ(mask.first_calls_before, mask.first_longest - 1);
  EXPECT_EQ(neither.calls_before, mask.calls_before);
  EXPECT_GT(mask.calls_before, 40);
  EXPECT_TRUE(l.forcing_gives_inputs);

  EXPECT_EQ(both.loss_one_call, both.loss_token_by_token);
  EXPECT_EQ(mask.loss_one_call, mask.loss_token_by_token);
  EXPECT_NEAR(both.loss_forced, both.loss_one_call, 1e-4);  // summed in another order
  EXPECT_NE(forcing.loss_one_call, forcing.loss_token_by_token);
  EXPECT_NE(neither.loss_one_call, neither.loss_token_by_token);
  EXPECT_TRUE(l.mask_gives_function);
  EXPECT_TRUE(l.both_are_needed);
  // Own predictions are other inputs than the truth.
  EXPECT_NE(mask.loss_one_call, mask.loss_forced);
  // So little learning writes nothing right: the verdict must not hold.
  EXPECT_FALSE(l.holds);

  const std::string svg = draw_forcing(l);
  EXPECT_NE(svg.find("forcing, mask: inputs known, one call = inference: yes"), std::string::npos);
  EXPECT_NE(svg.find("own predictions, no mask: inputs to be written, one call = inference: no"),
            std::string::npos);
}

TEST(LessonForcing, AWidenedMaskIsNotTheFunctionAndThreadsChangeNothing) {
  const ForcingLesson one =
      teach_forcing({.updates = 10, .threads = 1, .hooks = {.widen_head = 0}});
  EXPECT_TRUE(one.forcing_gives_inputs);
  EXPECT_GT(one.forcing_masked.positions_differing, 0);
  EXPECT_FALSE(one.mask_gives_function);
  EXPECT_FALSE(one.both_are_needed);
  EXPECT_FALSE(one.holds);
  const ForcingLesson two = teach_forcing({.updates = 10, .threads = 2});
  EXPECT_EQ(one.own_masked.norms, two.own_masked.norms);
  EXPECT_EQ(one.own_unmasked.curve, two.own_unmasked.curve);
  EXPECT_TRUE(two.mask_gives_function);
  EXPECT_EQ(raised_by([] { teach_forcing({.updates = 9}); }).text,
            "lesson forcing: 9 updates; it needs at least 10");
}

}  // namespace
}  // namespace tril::lesson_forcing_test
