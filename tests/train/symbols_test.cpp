// The library learns: copy and reverse of 20 symbols, exactly, within a fixed number of steps.
#include "tril/train/symbols.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/sanitizers.h"
#include "tril/base/error.h"

namespace tril::symbols_test {
namespace {

TEST(Symbols, ReversesEveryUnseenSequence) {
  if (TRIL_SANITIZED == 1) GTEST_SKIP() << "too long under a sanitizer; a short run follows";
  const SymbolResult result = learn_symbols({.task = SymbolTask::reverse});
  EXPECT_EQ(result.exact, 1000);
}

TEST(Symbols, CopiesEveryUnseenSequence) {
  if (TRIL_SANITIZED == 1) GTEST_SKIP() << "too long under a sanitizer; a short run follows";
  if (std::getenv("TRIL_FULL") == nullptr) GTEST_SKIP() << "easier than reversing: in --full";
  const SymbolResult result = learn_symbols({.task = SymbolTask::copy});
  EXPECT_EQ(result.exact, 1000);
}

TEST(Symbols, TheSameSeedGivesTheSameRun) {
  SymbolOptions options{.length = 5, .steps = 12, .batch = 7, .held_out = 10};
  options.threads = 1;
  const double one = learn_symbols(options).last_loss;
  options.threads = 2;
  EXPECT_EQ(learn_symbols(options).last_loss, one);
}

TEST(Symbols, RejectsImpossibleSizes) {
  EXPECT_THROW(learn_symbols({.length = 0}), Error);
  EXPECT_THROW(learn_symbols({.alphabet = 2, .length = 3, .held_out = 1000}), Error);
}

}  // namespace
}  // namespace tril::symbols_test
