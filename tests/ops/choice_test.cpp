// The best tokens on CUDA, against sorting the whole row.
#include "tril/ops/choice.h"

#include <algorithm>
#include <cmath>

#include "support/property.h"
#include "support/testing.h"
#include "tril/ops/loss.h"

namespace tril::choice_test {
namespace {

using testing::floats_of;
using testing::raised_by;
using testing::tensor_of;

std::vector<int32_t> ids_of(const Tensor& tensor) {
  std::vector<int32_t> ids(static_cast<size_t>(tensor.size()));
  copy(Device::cpu, ids.data(), tensor.device(), tensor.raw(),
       tensor.size() * int64_t{sizeof(int32_t)});
  return ids;
}

// Few different values, so that there are ties; -infinity now and then, and seldom a row with a NaN
// or an infinity, which leaves no probability to any token.
std::vector<float> random_logits(int64_t rows, int64_t vocab) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  const int different = *rc::gen::element(1, 3, 40, 1 << 20);
  std::vector<float> logits(static_cast<size_t>(rows * vocab));
  for (float& logit : logits) {
    logit = 0.25f * static_cast<float>(random.below(static_cast<uint32_t>(different)));
    if (different > 1 && random.below(7) == 0) logit = -INFINITY;
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (*rc::gen::inRange(0, 10) > 0) continue;
    const auto at = static_cast<size_t>(row * vocab) + random.below(static_cast<uint32_t>(vocab));
    logits[at] = *rc::gen::element(NAN, INFINITY);
  }
  return logits;
}

// The host chooses from log-probabilities (decode/choice.h); this is what a GPU does.
class ChooseTokens : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::device() == Device::cpu) GTEST_SKIP() << "tokens are chosen on CUDA only";
  }
};
using AllTokens = ops::AllowedByRow;

// As a GEMM leaves them: rows with room after them that may hold anything.
Tensor with_room(Context& context, int64_t rows, int64_t vocab, const std::vector<float>& logits) {
  if (*rc::gen::inRange(0, 4) == 0) {
    return tensor_of(context.arena, {rows, vocab}, logits);
  }
  const int64_t stride = ops::padded_size(vocab);
  std::vector<float> all(static_cast<size_t>(rows * stride),
                         *rc::gen::element(NAN, INFINITY, 1000.0f));
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(logits.begin() + row * vocab, vocab, all.begin() + row * stride);
  }
  return tensor_of(context.arena, {rows, stride}, all);
}

RC_GTEST_FIXTURE_PROP(ChooseTokens, AreTheFirstOfAllSorted, ()) {
  if (testing::device() == Device::cpu) return;  // SetUp() has skipped it
  static Context context(2, testing::placement());
  context.reset();
  const int64_t rows = *rc::gen::inRange<int64_t>(1, 9);
  const int64_t vocab =
      *rc::gen::inRange(0, 4) == 0
          ? *rc::gen::element<int64_t>(1, 32, 33, 4096, 4097, 9001, 61950, 70001, 140000)
          : *rc::gen::inRange<int64_t>(1, 700);
  const int64_t count =
      std::min<int64_t>(vocab, *rc::gen::element<int64_t>(1, 2, 5, 8, 16, 17, 64));
  const auto token = rc::gen::inRange<int32_t>(0, static_cast<int32_t>(vocab));
  auto forbidden = *rc::gen::container<std::vector<int32_t>>(token);
  if (*rc::gen::inRange(0, 6) == 0) {  // so many that fewer are left than requested
    for (int32_t i = 2; i < static_cast<int32_t>(vocab); ++i) forbidden.push_back(i);
  }
  auto wanted = *rc::gen::container<std::vector<int32_t>>(static_cast<size_t>(rows), token);
  for (int32_t& one : wanted) one = *rc::gen::arbitrary<bool>() ? one : -1;

  const std::vector<float> given = random_logits(rows, vocab);
  const auto log_probs =
      floats_of(ops::log_probs(context, tensor_of(context.arena, {rows, vocab}, given)));
  const Tensor logits = with_room(context, rows, vocab, given);
  const ops::TokenBits allowed(vocab, forbidden);
  const auto chosen = ops::choose_tokens(context, logits, AllTokens{{&allowed}, {}}, count, wanted);
  const auto tokens = ids_of(chosen.tokens);
  const auto found = floats_of(chosen.log_probs);
  const auto wanted_found = floats_of(chosen.wanted);
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = log_probs.data() + row * vocab;
    std::vector<int32_t> expected;
    for (int32_t t = 0; t < static_cast<int32_t>(vocab); ++t) {
      if (allowed[t] && from[t] > -INFINITY) expected.push_back(t);  // false for NaN
    }
    std::stable_sort(expected.begin(), expected.end(),
                     [&](int32_t a, int32_t b) { return from[a] > from[b]; });
    expected.resize(static_cast<size_t>(count), -1);
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(row * count + i);
      const int32_t best = expected[static_cast<size_t>(i)];
      RC_ASSERT(tokens[at] == best);
      if (best >= 0) RC_ASSERT(found[at] == from[best]);
    }
    const auto r = static_cast<size_t>(row);
    if (wanted[r] < 0) RC_ASSERT(wanted_found[r] == 0.0f);
    if (wanted[r] < 0) continue;
    RC_ASSERT(wanted_found[r] == from[wanted[r]] ||
              (std::isnan(wanted_found[r]) && std::isnan(from[wanted[r]])));
  }
}

// Logits that differ, but by so little that log-probabilities are equal: of those the lower token
// is the better, though its logit is smaller. Some are only just among the best.
TEST_F(ChooseTokens, EqualLogProbabilitiesOfUnequalLogits) {
  Context context(2, testing::placement());
  const int64_t vocab = 20000;
  for (const int64_t count : {int64_t{1}, int64_t{2}, int64_t{8}}) {
    for (const int64_t step : {int64_t{1}, int64_t{8}, int64_t{8192}, int64_t{77}}) {
      // A norm near 1000, whose neighbours are 2^-14 apart; logits above 0 that are 2^-21 apart,
      // within half of that.
      std::vector<float> logits(static_cast<size_t>(vocab), -500.0f);
      logits[static_cast<size_t>(vocab - 1)] = 1000.0f;
      int64_t placed = 0;
      for (int64_t at = 0; at + 1 < vocab && placed < 40; at += step, ++placed) {
        logits[static_cast<size_t>(at)] = 0x1p-21f * static_cast<float>(placed + 1);
      }
      const Tensor tensor = tensor_of(context.arena, {1, vocab}, logits);
      const auto log_probs = floats_of(ops::log_probs(context, tensor));
      const ops::TokenBits allowed(vocab, std::vector<int32_t>{static_cast<int32_t>(vocab - 1)});
      const auto tokens = ids_of(ops::choose_tokens(context, tensor, AllTokens{{&allowed}, {}},
                                                    count, std::vector<int32_t>{-1})
                                     .tokens);
      std::vector<int32_t> expected;
      for (int32_t t = 0; t + 1 < static_cast<int32_t>(vocab); ++t) expected.push_back(t);
      std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
        return log_probs[static_cast<size_t>(a)] > log_probs[static_cast<size_t>(b)];
      });
      ASSERT_EQ(expected[0], 0);  // else the case is none
      expected.resize(static_cast<size_t>(count));
      EXPECT_EQ(tokens, expected) << count << " of those " << step << " apart";
    }
  }
}

// The same bits alone and in a batch.
TEST_F(ChooseTokens, ARowDependsOnItselfAlone) {
  Context context(2, testing::placement());
  Random random(3);
  const int64_t rows = 7, vocab = 5000, count = 8;
  const auto logits = testing::random_floats(random, rows * vocab);
  const ops::TokenBits allowed(vocab, {});
  const std::vector<int32_t> wanted(rows, 11);
  const auto together = ops::choose_tokens(context, tensor_of(context.arena, {rows, vocab}, logits),
                                           AllTokens{{&allowed}, {}}, count, wanted);
  const auto tokens = ids_of(together.tokens);
  const auto found = floats_of(together.log_probs);
  for (int64_t row = 0; row < rows; ++row) {
    const auto own = std::span(logits).subspan(static_cast<size_t>(row * vocab), vocab);
    const auto alone =
        ops::choose_tokens(context, tensor_of(context.arena, {1, vocab}, own),
                           AllTokens{{&allowed}, {}}, count, std::vector<int32_t>{11});
    const auto at = static_cast<size_t>(row * count);
    const auto tokens_alone = ids_of(alone.tokens);
    EXPECT_TRUE(std::equal(tokens_alone.begin(), tokens_alone.end(),
                           tokens.begin() + static_cast<ptrdiff_t>(at)))
        << row;
    EXPECT_TRUE(testing::same_bits(floats_of(alone.log_probs), std::span(found).subspan(at, count)))
        << row;
    EXPECT_EQ(floats_of(alone.wanted)[0], floats_of(together.wanted)[static_cast<size_t>(row)]);
  }
}

// Each row has its own set of tokens.
TEST_F(ChooseTokens, RowsMayHaveDifferentSets) {
  Context context(2, testing::placement());
  Random random(5);
  const int64_t rows = 6, vocab = 3000, count = 4;
  const auto logits = testing::random_floats(random, rows * vocab);
  std::vector<int32_t> odd, low;
  for (int32_t token = 0; token < static_cast<int32_t>(vocab); ++token) {
    if (token % 2 == 1) odd.push_back(token);
    if (token < 2000) low.push_back(token);
  }
  const std::vector<ops::TokenBits> sets = {{vocab, {}}, {vocab, odd}, {vocab, low}};
  const ops::AllowedByRow allowed{{&sets[0], &sets[1], &sets[2]}, {0, 1, 2, 2, 1, 0}};
  const std::vector<int32_t> wanted(rows, 11);
  const Tensor all = tensor_of(context.arena, {rows, vocab}, logits);
  const auto found = ops::choose_tokens(context, all, allowed, count, wanted);
  const auto tokens = ids_of(found.tokens);
  for (int64_t row = 0; row < rows; ++row) {
    const ops::TokenBits& own =
        sets[static_cast<size_t>(allowed.set_of_row[static_cast<size_t>(row)])];
    const auto alone =
        ids_of(ops::choose_tokens(context, all.slice(row, row + 1), AllTokens{{&own}, {}}, count,
                                  std::vector<int32_t>{11})
                   .tokens);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(tokens[static_cast<size_t>(row * count + i)], alone[static_cast<size_t>(i)]);
      EXPECT_TRUE(own[tokens[static_cast<size_t>(row * count + i)]]);
    }
  }
}

TEST_F(ChooseTokens, SayWhatIsWrong) {
  Context context(1, testing::placement());
  const Tensor logits = tensor_of(context.arena, {2, 3}, std::vector<float>(6));
  const ops::TokenBits three(3, {}), four(4, {});
  const AllTokens allowed{{&three}, {}};
  const std::vector<int32_t> none(2, -1);
  EXPECT_EQ(raised_by([&] {
              ops::choose_tokens(context, logits, AllTokens{{&four}, {}}, 1, none);
            }).text,
            "choice: logits [2, 3] over a vocabulary of 4");
  EXPECT_EQ(raised_by([&] { ops::choose_tokens(context, logits, allowed, 0, none); }).code,
            ErrorCode::shape_mismatch);
  EXPECT_EQ(raised_by([&] {
              ops::choose_tokens(context, logits, allowed, 1, std::vector<int32_t>{-1});
            }).text,
            "choice: 2 rows, 1 tokens asked for");
  EXPECT_EQ(raised_by([&] {
              ops::choose_tokens(context, logits, allowed, 1, std::vector<int32_t>{0, 3});
            }).text,
            "choice: token 3 is not below 3");
  EXPECT_EQ(raised_by([&] {
              ops::choose_tokens(context, logits, {{&three, &three}, {0, 2}}, 1, none);
            }).text,
            "choice: set 2 of 2");
}

TEST(TokenBits, AreOfTheVocabulary) {
  EXPECT_EQ(raised_by([&] { ops::TokenBits(3, std::vector<int32_t>{3}); }).text,
            "tokens: 3 is not below 3");
  const ops::TokenBits bits(40, std::vector<int32_t>{0, 33});
  for (int64_t token = 0; token < 40; ++token) EXPECT_EQ(bits[token], token != 0 && token != 33);
}

}  // namespace
}  // namespace tril::choice_test
