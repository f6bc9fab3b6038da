// Lesson `heads` on small models: its figures against heads that are known, and that its verdict
// can fail. The whole run is tests/e2e/lesson.sh's.
#include "tril/lesson/lesson_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/models.h"
#include "support/testing.h"
#include "tril/lesson/learn_phrasebook.h"
#include "tril/lesson/pictures.h"

namespace tril::lesson_heads_test {
namespace {

using testing::raised_by;

// The phrasebook with few sentences to measure on.
const Phrasebook& small_phrasebook() {
  static const Phrasebook phrasebook = [] {
    Phrasebook result = make_phrasebook();
    result.held_out.resize(40);
    return result;
  }();
  return phrasebook;
}

const Translator& learnt() {
  static const Translator translator = learn_phrasebook(small_phrasebook(), {.updates = 60});
  return translator;
}

HeadsLesson look_at(const Translator& translator, const TestHooks& hooks = {}, int threads = 0) {
  return teach_heads(translator, small_phrasebook(),
                     {.counts = {}, .threads = threads, .hooks = hooks});
}

// A copy with one head's part of a matrix set to zero: its rows, where the matrix is W_Q (and the
// same part of the bias), or its columns, where it is W_O.
enum class Side { rows, columns };
Translator with_zeros(const Translator& translator, const std::string& matrix, int64_t head,
                      Side side) {
  Transformer model = translator.model().on({});
  const int64_t width = model.config().head_dim;
  testing::change_weights(
      model, [&](const std::string& name, std::vector<float>& values, const Shape& shape) {
        if (!name.starts_with(matrix)) return;
        const bool by_rows = side == Side::rows && shape.rank() == 2;
        for (int64_t i = 0; i < std::ssize(values); ++i) {
          const int64_t at = by_rows ? i / shape.columns() : i % shape.columns();
          if (at / width == head) values[static_cast<size_t>(i)] = 0.0f;
        }
      });
  return Translator(model, translator.tokenizer());
}

const HeadFigures& head_of(const HeadsLesson& l, AttentionKind kind, int64_t layer, int64_t head) {
  return *std::ranges::find_if(l.heads, [&](const HeadFigures& h) {
    return h.kind == kind && h.layer == layer && h.head == head;
  });
}

TEST(LessonHeads, EveryHeadIsMeasured) {
  const HeadsLesson l = look_at(learnt());
  EXPECT_EQ(l.sentences, 40);
  EXPECT_EQ(l.left_out, 0);
  ASSERT_EQ(l.heads.size(), 24u);  // 2 + 2 layers, and the decoder's cross-attention, of 4 heads
  EXPECT_TRUE(l.checked());
  EXPECT_GT(l.translated_rows, l.rows / 2);
  EXPECT_LT(l.translated_rows, l.rows);
  for (const HeadFigures& head : l.heads) {
    const auto has = [&](HeadRelation relation) {
      return head.shares[static_cast<size_t>(relation)].has_value();
    };
    EXPECT_TRUE(has(HeadRelation::itself) && has(HeadRelation::first));
    EXPECT_EQ(has(HeadRelation::previous), head.kind != AttentionKind::cross);
    EXPECT_EQ(has(HeadRelation::next), head.kind == AttentionKind::encoder);
    EXPECT_EQ(has(HeadRelation::end), head.kind != AttentionKind::decoder);
    EXPECT_EQ(has(HeadRelation::translation), head.kind == AttentionKind::cross);
    for (const auto& share : head.shares) {
      EXPECT_GE(share.value_or(0.0), 0.0);
      EXPECT_LE(share.value_or(0.0), 1.0);
    }
    EXPECT_GT(head.entropy, 0.0);
    EXPECT_GT(head.evenness, 0.0);
    EXPECT_LE(head.evenness, 1.0 + 1e-12);
    EXPECT_GT(head.apart, 0.0);
    EXPECT_LE(head.apart, 1.0);
    EXPECT_NE(head.without.loss, l.all_on.loss);
  }
  EXPECT_LE(l.cost(l.heads[l.least]), l.cost(l.heads[l.most]));
  EXPECT_FALSE(l.improve());  // nothing was learnt that could show it
  const HeadsLesson alone = look_at(learnt(), {}, 1);
  for (size_t i = 0; i < l.heads.size(); ++i) {
    EXPECT_EQ(alone.heads[i].entropy, l.heads[i].entropy);
    EXPECT_EQ(alone.heads[i].without.loss, l.heads[i].without.loss);
  }
  const std::string svg = draw_heads(l);
  EXPECT_EQ(svg, draw_heads(alone));
  for (const char* name : {">previous<", ">translation<", ">2.4<"}) {
    EXPECT_NE(svg.find(name), std::string::npos) << name;
  }
}

// Without a query all scores are 0: such a head gives all keys the same weight.
TEST(LessonHeads, AHeadWithoutQueriesIsSpread) {
  const HeadsLesson l =
      look_at(with_zeros(learnt(), "decoder.1.cross_attention.query.", 2, Side::rows));
  const HeadFigures& head = head_of(l, AttentionKind::cross, 1, 2);
  const HeadShares& even = l.even[static_cast<size_t>(AttentionKind::cross)];
  for (size_t i = 0; i < kHeadRelations; ++i) {
    ASSERT_EQ(head.shares[i].has_value(), even[i].has_value());
    EXPECT_NEAR(head.shares[i].value_or(0.0), even[i].value_or(0.0), 1e-12);
  }
  EXPECT_NEAR(head.evenness, 1.0, 1e-12);
  EXPECT_EQ(head.description(), "spread");
  EXPECT_LT(head_of(l, AttentionKind::cross, 1, 1).evenness, 0.99);
}

// A head whose output is not used cannot be missed.
TEST(LessonHeads, AHeadThatIsOffAlreadyCostsNothing) {
  const HeadsLesson l =
      look_at(with_zeros(learnt(), "decoder.0.attention.output.weight", 3, Side::columns));
  EXPECT_EQ(l.cost(head_of(l, AttentionKind::decoder, 0, 3)), 0.0);
  EXPECT_EQ(head_of(l, AttentionKind::decoder, 0, 3).without.exact, l.all_on.exact);
  for (const HeadFigures& head : l.heads) {
    const bool is_off = &head == &head_of(l, AttentionKind::decoder, 0, 3);
    EXPECT_EQ(l.cost(head) == 0.0, is_off);
  }
}

TEST(LessonHeads, AWidenedMaskIsNoticed) {
  const HeadsLesson l = look_at(learnt(), {.widen_head = 0});
  EXPECT_FALSE(l.checked());
  EXPECT_FALSE(l.holds);
}

TEST(LessonHeads, TheDescriptionIsARule) {
  HeadFigures head;
  head.shares[static_cast<size_t>(HeadRelation::previous)] = 0.6;
  head.shares[static_cast<size_t>(HeadRelation::first)] = 0.3;
  EXPECT_EQ(head.description(), "previous");
  head.shares[static_cast<size_t>(HeadRelation::first)] = 0.7;
  EXPECT_EQ(head.description(), "first");
  head.shares = HeadShares{0.4, 0.3};
  head.evenness = 0.5;
  EXPECT_EQ(head.description(), "spread");
  head.evenness = 0.4;
  EXPECT_EQ(head.description(), "varied");
}

TEST(LessonHeads, MoreHeadsAreLearntAtTheSameWidth) {
  const HeadsLesson l =
      teach_heads(learnt(), small_phrasebook(), {.counts = {1, 8}, .seeds = 2, .updates = 8});
  ASSERT_EQ(l.counts.size(), 2u);
  EXPECT_EQ(l.counts[0].head_dim, 64);
  EXPECT_EQ(l.counts[1].head_dim, 8);
  EXPECT_EQ(l.held_out, 40);
  for (const HeadCount& count : l.counts) {
    ASSERT_EQ(count.runs.size(), 2u);
    EXPECT_NE(count.runs[0].loss, count.runs[1].loss);
    EXPECT_DOUBLE_EQ(count.mean().loss, (count.runs[0].loss + count.runs[1].loss) / 2);
  }
  EXPECT_NE(l.counts[0].runs[0].loss, l.counts[1].runs[0].loss);
  // So little learning shows nothing: BLEU is 0 with any number of heads.
  EXPECT_FALSE(l.improve());
  EXPECT_FALSE(l.holds);

  HeadsLesson made = l;
  made.counts[0].runs = {{0.2, 10, 70.0}, {0.2, 10, 70.0}};
  made.counts[1].runs = {{0.1, 20, 80.0}, {0.1, 20, 80.0}};
  made.lower_loss = 2;
  EXPECT_TRUE(made.improve());
  made.lower_loss = 1;  // not for every seed
  EXPECT_FALSE(made.improve());
  made.lower_loss = 2;
  std::swap(made.counts[0].runs, made.counts[1].runs);
  EXPECT_FALSE(made.improve());
}

TEST(LessonHeads, WhatCannotBeMeasuredIsAnError) {
  Phrasebook none = small_phrasebook();
  none.held_out.clear();
  EXPECT_EQ(raised_by([&] { teach_heads(learnt(), none); }).text,
            "lesson heads: of 0 sentences the model can read none");
  EXPECT_EQ(raised_by([&] {
              teach_heads(learnt(), none, {.counts = {2, 1}});
            }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(raised_by([&] { teach_heads(learnt(), none, {.seeds = 0}); }).code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tril::lesson_heads_test
