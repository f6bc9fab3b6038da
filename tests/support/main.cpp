// The tests' main: runs them on the instruction set that TRIL_TEST_TARGET names, or on the device
// that TRIL_TEST_DEVICE names, or exits with 77 ("skipped") where this machine does not have it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "support/testing.h"
#include "tril/base/cpu.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* wish = std::getenv("TRIL_TEST_TARGET")) {
    bool found = false;
    for (const tril::Target target : tril::available_targets()) {
      if (tril::to_string(target) == wish) {
        tril::use_target(target);
        found = true;
      }
    }
    if (!found) {
      std::printf("skipped: this machine has no %s\n", wish);
      return 77;
    }
  }
  const std::string problem = tril::problem_with(tril::testing::device(), tril::gpus());
  if (!problem.empty()) {
    std::printf("skipped: %s\n", problem.c_str());
    return 77;
  }
  tril::current_target();
  return RUN_ALL_TESTS();
}
