// The cache: the same answer again, the oldest forgotten first, never more bytes than allowed.
#include "tril/serve/cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "support/sanitizers.h"

namespace tril::cache_test {
namespace {

using serve::AnswerCache;
using serve::UnitResult;

std::shared_ptr<const UnitResult> answer(const std::string& text) {
  UnitResult result;
  result.translation.hypotheses.emplace_back().text = text;
  return std::make_shared<const UnitResult>(std::move(result));
}

const std::string& text_of(const std::shared_ptr<const UnitResult>& found) {
  return found->translation.text();
}

// What one answer with this key takes.
int64_t size_of_one(const std::string& key, const std::string& text) {
  AnswerCache cache(1 << 20);
  cache.put(key, answer(text));
  return cache.bytes();
}

TEST(AnswerCache, GivesTheAnswerOfTheWholeKey) {
  AnswerCache cache(1 << 20);
  const auto kept = answer("x");
  cache.put("key", kept);
  EXPECT_EQ(cache.find("key"), kept);  // the same object
  for (const char* other : {"", "ke", "key ", "Key", "kez"}) EXPECT_EQ(cache.find(other), nullptr);
  cache.put(std::string("a\0b", 3), answer("y"));
  EXPECT_EQ(cache.find("a"), nullptr);
  EXPECT_EQ(text_of(cache.find(std::string("a\0b", 3))), "y");
}

TEST(AnswerCache, KeepsTheFirstAnswerOfAKey) {
  AnswerCache cache(1 << 20);
  cache.put("key", answer("first"));
  const int64_t bytes = cache.bytes();
  cache.put("key", answer("second"));
  EXPECT_EQ(text_of(cache.find("key")), "first");
  EXPECT_EQ(cache.size(), 1);
  EXPECT_EQ(cache.bytes(), bytes);
}

TEST(AnswerCache, ForgetsWhatWasNotAskedForTheLongest) {
  const int64_t one = size_of_one("a", "x");
  AnswerCache cache(4 * one);
  for (const char* key : {"a", "b", "c", "d"}) cache.put(key, answer("x"));
  ASSERT_EQ(cache.size(), 4);
  EXPECT_NE(cache.find("a"), nullptr);  // b is the oldest now
  cache.put("e", answer("x"));
  EXPECT_EQ(cache.find("b"), nullptr);
  EXPECT_NE(cache.find("c"), nullptr);  // then a, d, e
  cache.put("f", answer("x"));
  cache.put("g", answer("x"));
  EXPECT_EQ(cache.find("d"), nullptr);
  EXPECT_EQ(cache.find("a"), nullptr);
  for (const char* key : {"c", "e", "f", "g"}) EXPECT_NE(cache.find(key), nullptr) << key;
  EXPECT_EQ(cache.bytes(), 4 * one);
}

TEST(AnswerCache, HoldsNoMoreBytesThanAllowed) {
  constexpr int64_t kMost = 10'000;
  AnswerCache cache(kMost);
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    cache.put(std::to_string(i), answer(std::string(random() % 4000, 'x')));
    ASSERT_LE(cache.bytes(), kMost);
  }
  EXPECT_GT(cache.size(), 1);
  // One answer may not push out all others.
  const int64_t before = cache.size();
  cache.put("large", answer(std::string(kMost / 2, 'x')));
  EXPECT_EQ(cache.find("large"), nullptr);
  EXPECT_EQ(cache.size(), before);
}

TEST(AnswerCache, CountsEverythingAnAnswerHolds) {
  UnitResult result;
  TextHypothesis& h = result.translation.hypotheses.emplace_back();
  h.text = std::string(1000, 'x');
  h.tokens.resize(1000);
  h.log_probs.resize(1000);
  h.pieces.resize(1000);
  h.alignment.weights.resize(1000);
  h.links.resize(1000);
  AnswerCache cache(1 << 20);
  cache.put(std::string(1000, 'k'), std::make_shared<const UnitResult>(result));
  const size_t held = 1000 + 1000 +
                      1000 * (sizeof(int32_t) + sizeof(float) + sizeof(std::string) +
                              sizeof(double) + sizeof(WordLink));
  EXPECT_GE(cache.bytes(), static_cast<int64_t>(held));
}

TEST(AnswerCache, OfNothingHoldsNothing) {
  AnswerCache cache(0);
  cache.put("key", answer("x"));
  EXPECT_EQ(cache.find("key"), nullptr);
  EXPECT_EQ(cache.bytes(), 0);
}

TEST(AnswerCache, ThreadsFindWhatBelongsToTheirKeys) {
  AnswerCache cache(20 * size_of_one("10", "10"));
  std::atomic<int> wrong = 0, found = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < (TRIL_SANITIZED ? 2000 : 20'000); ++i) {
        const std::string key = std::to_string(10 + random() % 50);
        if (const auto there = cache.find(key)) {
          ++found;
          wrong += text_of(there) != key;
        } else {
          cache.put(key, answer(key));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 0);
  EXPECT_LE(cache.size(), 20);
  EXPECT_EQ(cache.bytes(), cache.size() * size_of_one("10", "10"));
}

}  // namespace
}  // namespace tril::cache_test
