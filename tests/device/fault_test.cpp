// Faults that are asked for, and what is said of a GPU that cannot be used.
#include "tril/device/fault.h"

#include <cstdlib>

#include "support/testing.h"
#include "tril/base/build.h"
#include "tril/device/cuda.h"

namespace tril::fault_test {
namespace {

using cuda::Fault;
using cuda::fault_from;

TEST(Fault, IsReadFromItsWord) {
  EXPECT_EQ(fault_from("").kind, Fault::none);
  EXPECT_EQ(fault_from("no-driver").kind, Fault::no_driver);
  EXPECT_EQ(fault_from("old-driver").kind, Fault::old_driver);
  EXPECT_EQ(fault_from("no-gpu").kind, Fault::no_gpu);
  EXPECT_EQ(fault_from("old-gpu").kind, Fault::old_gpu);
  EXPECT_EQ(fault_from("memory@3").kind, Fault::memory);
  EXPECT_EQ(fault_from("memory@3").at, 3);
  EXPECT_EQ(fault_from("lost-device@1200").kind, Fault::lost_device);
  EXPECT_EQ(fault_from("lost-device@1200").at, 1200);
}

TEST(Fault, AnythingElseIsAnError) {
  for (const char* text :
       {"lost", "memory", "memory@", "memory@0", "memory@-1", "memory@x", "memory@3x",
        "lost-device", "no-driver@1", "@", "@3", " no-driver", "memory@99999999999999999999"}) {
    const testing::Raised raised = testing::raised_by([&] { fault_from(text); });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument) << text;
    EXPECT_NE(raised.text.find(concat("got '", text, "'")), std::string::npos) << raised.text;
  }
}

// One line each: what is wrong, and what would help.
TEST(Fault, EachIsOneLineThatSaysWhatIsWrong) {
  if (!kCudaBuilt) GTEST_SKIP() << "CUDA is not built in";
  unsetenv("CUDA_VISIBLE_DEVICES");
  const auto problem = [](Fault fault) {
    const Gpus found = cuda::find_gpus({fault});
    EXPECT_FALSE(found.problem.empty());
    EXPECT_EQ(problem_with(Device::cuda(), found), found.problem);
    return found.problem;
  };
  EXPECT_EQ(problem(Fault::no_driver).find("cuda: no NVIDIA driver on this machine: install one"),
            0u);
  EXPECT_EQ(problem(Fault::old_driver)
                .find("cuda: the driver is too old: it knows CUDA 12.4, this program needs 13."),
            0u);
  EXPECT_EQ(problem(Fault::no_gpu), "cuda: no NVIDIA GPU on this machine");
  EXPECT_EQ(problem(Fault::old_gpu),
            "cuda: Tesla V100-SXM2-16GB has compute capability 7.0, this program needs 8.0 or "
            "later");
  setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  EXPECT_EQ(problem(Fault::no_gpu), "cuda: no NVIDIA GPU visible: CUDA_VISIBLE_DEVICES is '7'");
  unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace tril::fault_test
