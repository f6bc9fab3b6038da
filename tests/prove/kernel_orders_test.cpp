// The proof for every input in the order of CUDA's kernels, in fp32 and in bf16: it holds, and it
// fails where it fails in the CPU's (for_every_input_test.cpp compares those places).
#include <cstdlib>

#include "support/models.h"
#include "support/property.h"
#include "tril/ops/rows.h"
#include "tril/prove/for_every_input.h"

namespace tril::kernel_orders_test {
namespace {

using testing::Family;

constexpr const char* kOnCpu = "expressions have no device";
constexpr KernelOrder kOnCuda[] = {KernelOrder::cuda_fp32, KernelOrder::cuda_bf16};

EveryInputOptions short_options(KernelOrder order) {
  EveryInputOptions options;
  options.length = 5;
  options.source_length = 3;
  options.neighbour = 2;
  options.threads = 2;
  options.order = order;
  return options;
}
std::string faults_of(const EveryInputResult& r) {
  std::string text = concat(r.differing, " differ, ", r.forbidden, " reach too far, ",
                            r.short_reach, " too little, ", r.missing, " missing, ", r.wrong_masks,
                            " masks, ", r.distinct, " of ", r.expected_distinct, " distinct");
  for (const auto& at : {r.first_difference, r.first_leak, r.first_wrong_mask}) {
    if (at) text += "; " + to_string(*at);
  }
  return text;
}

RC_GTEST_PROP(KernelOrders, HoldForAnyConfiguration, ()) {
  if (testing::device() != Device::cpu) return;
  const TransformerConfig config = testing::random_config();
  EveryInputOptions options =
      short_options(*rc::gen::elementOf(std::vector(std::begin(kOnCuda), std::end(kOnCuda))));
  options.length = *rc::gen::inRange(1, 8);
  if (config.decoder_only()) options.prefix = *rc::gen::inRange<int64_t>(0, options.length + 1);
  const EveryInputResult result = prove_for_every_input(config, options);
  if (!result.holds()) RC_FAIL(faults_of(result));
}

// Rows beyond 64 keys see several blocks.
TEST(KernelOrders, HoldAcrossBlocks) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  for (const KernelOrder order : kOnCuda) {
    EveryInputOptions options = short_options(order);
    options.length = 131;
    options.source_length = 70;
    options.every_length = false;
    const EveryInputResult result =
        prove_for_every_input(testing::tiny_config(Family::encoder_decoder), options);
    EXPECT_TRUE(result.holds()) << faults_of(result);
  }
}

TEST(KernelOrders, HoldAcrossSpans) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  if (std::getenv("TRIL_FULL") == nullptr) GTEST_SKIP() << "long: in --full";
  for (const KernelOrder order : kOnCuda) {
    EveryInputOptions options = short_options(order);
    options.length = 2100;
    options.every_length = false;
    const EveryInputResult result =
        prove_for_every_input(testing::tiny_config(Family::decoder_only), options);
    EXPECT_TRUE(result.holds()) << faults_of(result);
  }
}

// Three orders are three formulas: of a norm, for one.
TEST(KernelOrders, AreNotTheSame) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  constexpr int64_t kColumns = 40;
  std::vector<ExpressionHash> made;
  for (const KernelOrder order :
       {KernelOrder::cpu, KernelOrder::cuda_fp32, KernelOrder::cuda_bf16}) {
    Context context(1, Placement::expressions());
    context.expressions->order = order;
    const auto leaves = [&](uint64_t name, const Shape& shape) {
      const Tensor tensor(context.arena, shape, DType::expression);
      for (int64_t i = 0; i < kColumns; ++i) {
        tensor.data<Expression>()[i] = weight_leaf(name, i);
      }
      return tensor;
    };
    const Tensor y = ops::norm(context, ops::NormKind::layer, 1e-5f, leaves(1, {1, kColumns}),
                               leaves(2, {kColumns}), {})
                         .y;
    made.push_back(y.data<Expression>()[0].hash);
  }
  EXPECT_FALSE(made[0] == made[1]);
  EXPECT_FALSE(made[0] == made[2]);
  EXPECT_FALSE(made[1] == made[2]);
}

TEST(KernelOrders, CudaMultipliesInFp32AndBf16Only) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options(KernelOrder::cuda_fp32);
  options.compute = Compute::int8;
  EXPECT_THROW(prove_for_every_input(testing::tiny_config(Family::decoder_only), options), Error);
}

struct Fault {
  const char* name = nullptr;
  TestHooks hooks{};
  Masking masking = Masking::causal;
  int64_t length = 5;  // some need several blocks
};
std::vector<Fault> faults() {
  std::vector<Fault> all;
  const auto fault = [&](const char* name, int64_t length = 5) -> Fault& {
    all.push_back({.name = name, .length = length});
    return all.back();
  };
  Fault& head = fault("a widened head");
  head.hooks.widen_layer = head.hooks.widen_head = 1;
  fault("a mask off by one").hooks.widen_head = TestHooks::kAllHeads;
  Fault& narrow = fault("a mask too narrow");
  narrow.hooks.narrow_position = 2;
  narrow.hooks.narrow_layer = 1;
  fault("a shifted cache").hooks.shift_cache = true;
  fault("an order that depends on the batch", 70).hooks.order_by_batch = true;
  fault("a sum split in two").hooks.split_sums = true;
  fault("a rescaling skipped", 70).hooks.skip_rescaling = true;
  fault("a forbidden key times zero").hooks.multiply_forbidden = true;
  fault("no mask").masking = Masking::none;
  return all;
}

TEST(KernelOrders, FaultsAreFoundWhereTheyAreInTheCpusOrder) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TransformerConfig config = testing::tiny_config(Family::encoder_decoder);
  config.decoder_layers = 2;
  for (const Fault& fault : faults()) {
    const auto found = [&](KernelOrder order) {
      EveryInputOptions options = short_options(order);
      options.hooks = fault.hooks;
      options.masking = fault.masking;
      options.length = fault.length;
      options.every_length = fault.length <= 5;
      return prove_for_every_input(config, options);
    };
    const EveryInputResult on_cpu = found(KernelOrder::cpu);
    EXPECT_FALSE(on_cpu.holds()) << fault.name;
    for (const KernelOrder order : kOnCuda) {
      const EveryInputResult result = found(order);
      EXPECT_FALSE(result.holds()) << fault.name << ", " << word_for(order);
      EXPECT_EQ(result.first_difference, on_cpu.first_difference)
          << fault.name << ", " << word_for(order) << ": " << faults_of(result);
      EXPECT_EQ(result.first_leak, on_cpu.first_leak)
          << fault.name << ", " << word_for(order) << ": " << faults_of(result);
      EXPECT_EQ(result.first_wrong_mask, on_cpu.first_wrong_mask)
          << fault.name << ", " << word_for(order) << ": " << faults_of(result);
    }
  }
}

}  // namespace
}  // namespace tril::kernel_orders_test
