// Names of devices, and what is said of one that is not there.
#include "tril/device/device.h"

#include "support/testing.h"
#include "tril/base/error.h"
#include "tril/device/queue.h"

namespace tril::device_test {
namespace {

Gpus machine_with(size_t count) {
  Gpus found;
  found.driver = 13000;
  for (size_t i = 0; i < count; ++i) found.list.push_back({.name = "GPU", .capability = 90});
  return found;
}

TEST(Device, IsTheCpuUnlessSaidOtherwise) {
  EXPECT_EQ(Device(), Device::cpu);
  EXPECT_EQ(Device::cuda(), Device::cuda(0));
  EXPECT_NE(Device::cuda(0), Device::cuda(1));
  EXPECT_NE(Device::cuda(0), Device::cpu);
  EXPECT_EQ(Device::cuda(1).type, DeviceType::cuda);
  static_assert(Device::cpu.type == DeviceType::cpu);
}

// Every function tells the CPU by its type: memory with any index is the host's.
TEST(Device, OfTheCpuHasNoIndex) {
  const Device cpu{DeviceType::cpu, 3};
  EXPECT_EQ(cpu, Device::cpu);
  constexpr int64_t kBytes = 8;
  void* const memory = allocate(cpu, kBytes);
  fill_zero(cpu, memory, kBytes);
  int64_t value = 1;
  copy(Device::cpu, &value, cpu, memory, kBytes);
  release(cpu, memory);
  EXPECT_EQ(value, 0);
  Queue queue(cpu);
  EXPECT_EQ(queue.upload(&value, kBytes), &value) << "nothing to copy";
}

TEST(Device, IsReadFromItsName) {
  EXPECT_EQ(device_from("cpu"), Device::cpu);
  EXPECT_EQ(device_from("cuda"), Device::cuda(0));
  EXPECT_EQ(device_from("cuda:0"), Device::cuda(0));
  EXPECT_EQ(device_from("cuda:12"), Device::cuda(12));
  for (const Device device : {Device::cpu, Device::cuda(), Device::cuda(1), Device::cuda(10)}) {
    EXPECT_EQ(device_from(to_string(device)), device);
  }
  EXPECT_EQ(to_string(Device::cuda(0)), "cuda");
  EXPECT_EQ(concat("on ", Device::cuda(1)), "on cuda:1");
}

TEST(Device, AnythingElseIsNoName) {
  for (const char* text : {"", "tpu", "CPU", "cpu:0", "cud", "cuda1", "cuda:", "cuda:-1", "cuda:+1",
                           "cuda: 1", "cuda:1 ", "cuda:01", "cuda:x", "cuda:1x", "cuda:1:1",
                           "cuda:4294967296", "cuda:99999999999999999999"}) {
    EXPECT_FALSE(device_from(text)) << "'" << text << "'";
  }
}

TEST(Device, AGpuThatIsNotThereIsNamedWithThoseThatAre) {
  EXPECT_EQ(problem_with(Device::cuda(3), machine_with(1)),
            "cuda:3: this machine has 1 GPU (cuda:0)");
  EXPECT_EQ(problem_with(Device::cuda(2), machine_with(2)),
            "cuda:2: this machine has 2 GPUs (cuda:0 to cuda:1)");
  EXPECT_EQ(problem_with(Device::cuda(-1), machine_with(1)),
            "cuda:-1: this machine has 1 GPU (cuda:0)");
  EXPECT_EQ(problem_with(Device::cuda(1), machine_with(2)), "");
  EXPECT_EQ(problem_with(Device::cpu, machine_with(0)), "");
}

TEST(Device, WithoutAnyGpuTheReasonIsGivenWhateverTheIndex) {
  Gpus none;
  none.problem = "cuda: no NVIDIA driver";
  EXPECT_EQ(problem_with(Device::cuda(0), none), none.problem);
  EXPECT_EQ(problem_with(Device::cuda(5), none), none.problem);
}

TEST(Device, OneGpuMayBeUnusableBesideOthers) {
  Gpus found = machine_with(2);
  found.list[0].problem = "cuda: too old";
  EXPECT_EQ(problem_with(Device::cuda(0), found), "cuda: too old");
  EXPECT_EQ(problem_with(Device::cuda(1), found), "");
}

TEST(Device, WhatCannotBeUsedRaisesItsProblem) {
  EXPECT_NO_THROW(check_usable(Device::cpu));
  constexpr int kTooHigh = 1000;
  const testing::Raised raised = testing::raised_by([] { check_usable(Device::cuda(kTooHigh)); });
  EXPECT_EQ(raised.code, ErrorCode::device);
  EXPECT_EQ(raised.text, problem_with(Device::cuda(kTooHigh), gpus()));
  EXPECT_EQ(testing::raised_by([] { gpu_at(Device::cpu); }).code, ErrorCode::internal);
}

}  // namespace
}  // namespace tril::device_test
