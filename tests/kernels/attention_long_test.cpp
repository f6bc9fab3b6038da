// Attention in sequences of more than 128 keys, which on CUDA have kernels of their own.
#include <algorithm>

#include "kernels/attention_support.h"

namespace tril::attention_long_test {
namespace {

using testing::Case;
using testing::expect_right;
using testing::expect_rows_match_alone;
using testing::forbidden_keys_keep_their_bits;
using testing::forbidden_rows_keep_their_bits;
using testing::kAllKinds;
using testing::Kind;
using testing::kInfinity;
using testing::kNaN;
using testing::long_case;
using testing::make_case;
using testing::Outcome;
using testing::run;
using testing::same_bits;

TEST(LongAttention, AgreesWithTheTextbook) {
  for (const Kind kind : kAllKinds) {
    for (const int64_t head_dim : {64, 128}) {
      SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << ", " << head_dim);
      expect_right(long_case(kind, head_dim));
    }
  }
}

// One tile of rows, less or all of it, and two heads a group: what streams past keys is two steps,
// for which every kernel has a place each. scripts/cuda_sanitize.sh wants such a case.
TEST(LongAttention, OfFewRowsAgreesWithTheTextbook) {
  for (const int32_t rows : {60, 64}) {
    for (const int64_t head_dim : {64, 128}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, " << head_dim);
      expect_right(make_case({{3, 300}, {304, 161}}, Kind::cross, 2, 1, head_dim, rows, false, 8));
    }
  }
}

TEST(LongAttention, ARowAloneHasTheSameBits) {
  for (const Kind kind : kAllKinds) {
    for (const int64_t head_dim : {64, 128}) {
      SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << ", " << head_dim);
      const Case c = long_case(kind, head_dim);
      expect_rows_match_alone(c, run(c, 2).out, kind == Kind::cross ? 37 : 11);
    }
  }
}

TEST(LongAttention, ARowAloneHasTheSameBitsOverSeveralSpans) {
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(::testing::Message() << "head_dim " << head_dim);
    const Case c = make_case({{1, 4300}}, Kind::cross, 1, 1, head_dim, 70, false, 3);
    expect_rows_match_alone(c, run(c, 2).out, 23);
    const Case window = make_case({{0, 2500}}, Kind::window, 1, 1, head_dim, 2200, false, 5);
    expect_rows_match_alone(window, run(window, 2).out, 499);
  }
}

// Scales that are powers of two may be treated in their own way.
TEST(LongAttention, ARowAloneHasTheSameBitsWithAnyScale) {
  for (const int64_t head_dim : {64, 128}) {
    for (const float scale : {0.3f, 0.25f, 1.0f, 4.0f}) {
      SCOPED_TRACE(::testing::Message() << "head_dim " << head_dim << ", scale " << scale);
      Case c = long_case(Kind::causal, head_dim);
      c.own_scale = scale;
      // Large scores that differ little, so that their roundings show.
      for (size_t i = 0; i < c.q.size(); i += static_cast<size_t>(head_dim)) c.q[i] = 64.0f;
      for (size_t i = 0; i < c.k.size(); i += static_cast<size_t>(head_dim)) c.k[i] = 64.0f;
      expect_rows_match_alone(c, run(c, 2).out, 7);
    }
  }
}

// A hook that widens a row that is not there changes only the code path: with it the kernels for
// long sequences are not used.
Outcome run_the_other_way(const Case& c) { return run(c, 2, 0, int64_t{1} << 30); }

// A bias for every distance.
Case with_bias(Case c) {
  c.bias_zero = std::max(c.n.key, c.n.query);
  Random random(11);
  c.bias.clear();
  for (int64_t i = 0; i < c.n.heads * (2 * c.bias_zero + 1); ++i) {
    c.bias.push_back(random.uniform(-2.0f, 2.0f));
  }
  return c;
}

TEST(LongAttention, EitherWayHasTheSameBits) {
  for (const Kind kind : kAllKinds) {
    for (const int64_t head_dim : {64, 128}) {
      SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << ", " << head_dim);
      const Case c = long_case(kind, head_dim);
      EXPECT_TRUE(same_bits(run(c, 2), run_the_other_way(c)));
    }
  }
}

TEST(LongAttention, EitherWayHasTheSameBitsWithABias) {
  for (const Kind kind : kAllKinds) {
    for (const int64_t head_dim : {64, 128}) {
      SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << ", " << head_dim);
      for (const float scale : {0.3f, 1.0f}) {
        Case c = with_bias(long_case(kind, head_dim));
        c.own_scale = scale;
        const Outcome long_way = run(c, 2);
        EXPECT_TRUE(same_bits(long_way, run_the_other_way(c)));
        for (size_t i = 0; i < c.bias.size(); i += 3) c.bias[i] += 0.5f;
        EXPECT_FALSE(same_bits(long_way, run(c, 2))) << "the bias is not read";
      }
    }
  }
}

// A block of 64 keys is seen by all rows of a tile, or by all but one.
TEST(LongAttention, EitherWayHasTheSameBitsAtTheEdgesOfBlocks) {
  for (const int64_t head_dim : {64, 128}) {
    for (const int32_t extent : {63, 64, 65, 127, 128, 129}) {
      for (const Kind kind : {Kind::window, Kind::prefix}) {
        SCOPED_TRACE(::testing::Message()
                     << head_dim << ", kind " << static_cast<int>(kind) << " of " << extent);
        const Case c = make_case({{2, 260}}, kind, 1, 1, head_dim, extent, false, 7);
        EXPECT_TRUE(same_bits(run(c, 2), run_the_other_way(c)));
      }
    }
  }
}

// More keys than rows of a tile see, more tiles than a part has, and a group of heads.
TEST(LongAttention, EitherWayHasTheSameBitsInAll) {
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(head_dim);
    Case c = make_case({{5, 700}}, Kind::causal, 6, 2, head_dim, 0, false, 9);
    c.own_scale = 0.3f;
    EXPECT_TRUE(same_bits(run(c, 2), run_the_other_way(c)));
  }
}

// Rows of two sequences in turns: no tile has many, and those after one are not of its sequence.
TEST(LongAttention, EitherWayHasTheSameBitsOfRowsInTurns) {
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(head_dim);
    Case c = make_case({{0, 150}, {150, 140}}, Kind::causal, 2, 1, head_dim, 0, false, 9);
    std::vector<Interval> turns;
    for (size_t i = 0; i < 140; ++i) {
      const size_t first = i / 20 % 2 == 0 ? i : 150 + i, second = i / 20 % 2 == 0 ? 150 + i : i;
      turns.push_back(c.rows[first]);
      turns.push_back(c.rows[second]);
    }
    c.rows = turns;
    c.n.query = static_cast<int64_t>(turns.size());
    c.positions.resize(turns.size());
    c.q.resize(static_cast<size_t>(c.n.query * 2 * head_dim));
    c.dout.resize(c.q.size());
    expect_right(c);
    EXPECT_TRUE(same_bits(run(c, 2), run_the_other_way(c)));
  }
}

// A row that sees nothing, amid those of a long sequence.
TEST(LongAttention, RowsThatSeeNothingAreZero) {
  for (const int64_t head_dim : {64, 128}) {
    SCOPED_TRACE(head_dim);
    Case c = make_case({{0, 200}}, Kind::causal, 1, 1, head_dim, 0, false, 4);
    c.rows[70] = Interval{};
    expect_right(c);
    EXPECT_TRUE(same_bits(run(c, 2), run_the_other_way(c)));
  }
}

TEST(LongAttention, WhatIsForbiddenCannotLeak) {
  for (const int64_t head_dim : {64, 128}) {
    const Case c = long_case(Kind::causal, head_dim);
    const Outcome before = run(c, 2);
    for (const int64_t key : {3, 100, 302, 303, 304, 440, 565, 726}) {
      for (const float value : {3e38f, kNaN, kInfinity}) {
        EXPECT_TRUE(forbidden_rows_keep_their_bits(c, before, key, value)) << key << " " << value;
      }
    }
  }
}

TEST(LongAttention, KeysAreNotReachedByRowsThatMayNotSeeThem) {
  for (const int64_t head_dim : {64, 128}) {
    const Case c = long_case(Kind::causal, head_dim);
    const Outcome before = run(c, 2);
    for (const int64_t row : {0, 70, 299, 300, 301, 440, 717}) {
      for (const float value : {3e38f, kNaN, kInfinity}) {
        EXPECT_TRUE(forbidden_keys_keep_their_bits(c, before, row, value)) << row << " " << value;
      }
    }
  }
}

}  // namespace
}  // namespace tril::attention_long_test
