#include "tril/data/batches.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/property.h"
#include "support/testing.h"
#include "tril/data/permutation.h"

namespace tril::batches_test {
namespace {

using testing::raised_by;

RC_GTEST_PROP(Permutation, HoldsEveryNumberOnce, ()) {
  const auto size = *rc::gen::inRange<int64_t>(1, 3000);
  const Permutation order(size, *rc::gen::arbitrary<uint64_t>(), *rc::gen::arbitrary<uint64_t>());
  std::vector<bool> seen(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t to = order[i];
    RC_ASSERT(to >= 0);
    RC_ASSERT(to < size);
    RC_ASSERT(!seen[static_cast<size_t>(to)]);
    seen[static_cast<size_t>(to)] = true;
  }
}

// Where number 0 goes over many epochs: every place about equally often. 16 counts of 4,096 draws
// have a mean of 256 and a deviation of 15.5; six deviations happen once in 10^8.
TEST(Permutation, SpreadsEvenlyOverEpochs) {
  std::map<int64_t, int> counts;
  for (uint64_t epoch = 0; epoch < 4096; ++epoch) ++counts[Permutation(16, 7, epoch)[0]];
  for (int64_t place = 0; place < 16; ++place) EXPECT_NEAR(counts[place], 256, 93);
}

// Words of one to three letters; sentences of some.
class BatchesTest : public ::testing::Test {
 protected:
  BatchesTest() : tokenizer_(learn()), corpus_(Corpus::of(pairs())) {
    corpus_.limit_tokens(tokenizer_, kLongest);
  }
  static std::vector<std::pair<std::string, std::string>> pairs() {
    Random random(3);
    std::vector<std::pair<std::string, std::string>> result;
    for (int i = 0; i < 400; ++i) {
      const auto words = [&] {
        std::string text;
        for (uint32_t n = random.below(9) + 1; n > 0; --n) {
          text += std::string(random.below(3) + 1, static_cast<char>('a' + random.below(6)));
          if (n > 1) text += ' ';
        }
        return text;
      };
      result.emplace_back(words(), words());
    }
    return result;
  }
  static Tokenizer learn() {
    const auto text = pairs();
    size_t next = 0;
    return Tokenizer::train(
        [&](std::string& line) {
          if (next == text.size()) return false;
          line = text[next].first + " " + text[next].second;
          ++next;
          return true;
        },
        {.vocab = 290});
  }
  BatchOptions options() const {
    return {.source_rows = balanced_source_rows(corpus_, 256, kLongest),
            .target_rows = 256,
            .window = 64,
            .seed = 5};
  }
  static constexpr int64_t kLongest = 64;
  Tokenizer tokenizer_;
  Corpus corpus_;
};

// Takes a batch apart again into sentences, checking how each is laid out.
std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>> unpack(
    const Batch& batch, const Tokenizer& tokenizer) {
  std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>> result(
      static_cast<size_t>(batch.sentences));
  for (int64_t row = 0; row < batch.source.size(); ++row) {
    const auto r = static_cast<size_t>(row);
    if (batch.source.slots[r] < 0) continue;
    auto& tokens = result[static_cast<size_t>(batch.source.slots[r])].first;
    EXPECT_EQ(batch.source.positions[r], static_cast<int32_t>(tokens.size()));
    tokens.push_back(batch.source.tokens[r]);
  }
  for (int64_t row = 0; row < batch.target.size(); ++row) {
    const auto r = static_cast<size_t>(row);
    if (batch.target.slots[r] < 0) {
      EXPECT_EQ(batch.labels[r], -1);
      continue;
    }
    EXPECT_EQ(batch.target.segments[r], batch.target.slots[r]);
    auto& tokens = result[static_cast<size_t>(batch.target.slots[r])].second;
    EXPECT_EQ(batch.target.positions[r], static_cast<int32_t>(tokens.size()));
    // The input is the label of the row before, START at first.
    EXPECT_EQ(batch.target.tokens[r], tokens.empty() ? tokenizer.start() : tokens.back());
    tokens.push_back(batch.labels[r]);
  }
  for (auto& [source, target] : result) {
    EXPECT_EQ(source.back(), tokenizer.end());
    EXPECT_EQ(target.back(), tokenizer.end());
    source.pop_back();
    target.pop_back();
  }
  return result;
}

TEST_F(BatchesTest, EachEpochHoldsEveryPairOnceAndBatchesAreFull) {
  BatchStream stream(corpus_, tokenizer_, options());
  std::map<std::pair<std::string, std::string>, int> seen;
  std::map<std::pair<std::string, std::string>, int> expected;
  Batch batch;
  int64_t rows = 0;
  int64_t tokens = 0;
  while (stream.place().epoch < 3) {
    stream.next(batch);
    ASSERT_EQ(batch.target.size(), 256);
    ASSERT_EQ(batch.source.size(), options().source_rows);
    ASSERT_EQ(static_cast<int64_t>(batch.labels.size()), 256);
    rows += batch.target.size();
    tokens += batch.target_tokens;
    for (const auto& [source, target] : unpack(batch, tokenizer_)) {
      ++seen[{tokenizer_.decode(source), tokenizer_.decode(target)}];
    }
  }
  EXPECT_GE(static_cast<double>(tokens) / static_cast<double>(rows), 0.97);
  // Sentences handed out, and those waiting: three epochs and the beginning of the fourth.
  const StreamPlace place = stream.place();
  for (const auto& waiting : place.waiting) {
    ++seen[{std::string(corpus_.source(waiting.pair)), std::string(corpus_.target(waiting.pair))}];
  }
  const Permutation order(corpus_.size(), options().seed, 3);
  for (int64_t i = 0; i < corpus_.size(); ++i) {
    expected[{std::string(corpus_.source(i)), std::string(corpus_.target(i))}] += 3;
  }
  for (int64_t i = 0; i < place.next; ++i) {
    const int64_t pair = order[i];
    ++expected[{std::string(corpus_.source(pair)), std::string(corpus_.target(pair))}];
  }
  EXPECT_EQ(seen, expected);
}

bool same(const Batch& a, const Batch& b) {
  return a.source.tokens == b.source.tokens && a.source.slots == b.source.slots &&
         a.source.sentences == b.source.sentences && a.target.tokens == b.target.tokens &&
         a.target.positions == b.target.positions && a.labels == b.labels;
}

TEST_F(BatchesTest, AStreamTakenUpAgainGoesOnAsItWouldHave) {
  for (const double dropout : {0.0, 0.3}) {
    BatchOptions o = options();
    o.bpe_dropout = dropout;
    BatchStream whole(corpus_, tokenizer_, o);
    Batch expected;
    Batch batch;
    for (int stop = 0; stop < 30; stop += 7) {
      for (int i = 0; i < 7; ++i) whole.next(expected);
      BatchStream resumed(corpus_, tokenizer_, o, whole.place());
      BatchStream ahead(corpus_, tokenizer_, o, whole.place());
      for (int i = 0; i < 5; ++i) {
        resumed.next(batch);
        ahead.next(expected);
        ASSERT_TRUE(same(batch, expected));
      }
      whole.next(expected);
      BatchStream(corpus_, tokenizer_, o, {}).next(batch);
      EXPECT_FALSE(same(batch, expected)) << "the place matters";
    }
  }
}

TEST_F(BatchesTest, ResumingEqualsNeverStopping) {
  BatchOptions o = options();
  o.bpe_dropout = 0.2;
  BatchStream whole(corpus_, tokenizer_, o);
  auto broken = std::make_unique<BatchStream>(corpus_, tokenizer_, o);
  Batch expected;
  Batch batch;
  for (int i = 0; i < 60; ++i) {
    if (i % 3 == 2) {
      broken = std::make_unique<BatchStream>(corpus_, tokenizer_, o, broken->place());
    }
    whole.next(expected);
    broken->next(batch);
    ASSERT_TRUE(same(batch, expected)) << i;
  }
}

TEST_F(BatchesTest, DropoutChangesPiecesFromEpochToEpochButNotTheText) {
  BatchOptions o = options();
  o.bpe_dropout = 0.5;
  BatchStream stream(corpus_, tokenizer_, o);
  std::map<std::string, std::set<std::vector<int32_t>>> pieces;
  Batch batch;
  while (stream.place().epoch < 4) {
    stream.next(batch);
    for (const auto& [source, target] : unpack(batch, tokenizer_)) {
      pieces[tokenizer_.decode(source)].insert(source);
    }
  }
  size_t most = 0;
  for (int64_t i = 0; i < corpus_.size(); ++i) {
    const auto found = pieces.find(std::string(corpus_.source(i)));
    if (found != pieces.end()) most = std::max(most, found->second.size());
  }
  EXPECT_LE(pieces.size(), static_cast<size_t>(corpus_.size()));
  EXPECT_GE(most, 3u);
}

TEST_F(BatchesTest, RefusesWhatDoesNotFit) {
  BatchOptions o = options();
  o.target_rows = 4;
  BatchStream stream(corpus_, tokenizer_, o);
  Batch batch;
  EXPECT_EQ(raised_by([&] { stream.next(batch); }).code, ErrorCode::invalid_argument);
  StreamPlace place;
  place.waiting = {{0, corpus_.size()}};
  EXPECT_EQ(raised_by([&] { BatchStream(corpus_, tokenizer_, options(), place); }).code,
            ErrorCode::invalid_argument);
  place = {.epoch = 0, .next = corpus_.size() + 1, .waiting = {}};
  EXPECT_EQ(raised_by([&] { BatchStream(corpus_, tokenizer_, options(), place); }).code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tril::batches_test
