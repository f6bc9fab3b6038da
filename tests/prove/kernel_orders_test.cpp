// The proof for every input in the order of CUDA's kernels, in fp32 and in bf16: it holds, and it
// fails where it fails in the CPU's (for_every_input_test.cpp compares those places).
#include <array>
#include <cstdlib>

#include "support/models.h"
#include "support/property.h"
#include "tril/kernels/model/cuda_attention.h"
#include "tril/kernels/model/cuda_linear.h"
#include "tril/kernels/model/cuda_rows.h"
#include "tril/kernels/model/linear.h"
#include "tril/ops/attention.h"
#include "tril/ops/rows.h"
#include "tril/prove/for_every_input.h"

namespace tril::kernel_orders_test {
namespace {

using testing::Family;

constexpr const char* kOnCpu = "expressions have no device";
constexpr OperationOrder kOnCuda[] = {OperationOrder::cuda_fp32, OperationOrder::cuda_bf16};

EveryInputOptions short_options(OperationOrder order) {
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
  for (const OperationOrder order : kOnCuda) {
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
  for (const OperationOrder order : kOnCuda) {
    EveryInputOptions options = short_options(order);
    options.length = 2100;
    options.every_length = false;
    const EveryInputResult result =
        prove_for_every_input(testing::tiny_config(Family::decoder_only), options);
    EXPECT_TRUE(result.holds()) << faults_of(result);
  }
}

// ---- which model an operation's result is made by, operation by operation
namespace model = kernels::model;

constexpr int64_t kColumns = 20;  // more than a step of a tensor core
constexpr int64_t kKeys = 3;

struct KeysOfTest {
  const Expression* keys;
  const Expression* values;
  Expression key(int64_t j, int64_t d) const { return keys[j * kColumns + d]; }
  Expression value(int64_t j, int64_t d) const { return values[j * kColumns + d]; }
};

// Each operation on the same leaves: by the operation, and by the model that it should take.
class InOrder {
 public:
  struct Made {
    std::string name;
    ExpressionHash by_operation{}, by_model{};
  };

  explicit InOrder(OperationOrder order) : order_(order), context_(1, Placement::expressions()) {
    context_.expressions->order = order;
    x_ = leaves(1, {1, kColumns});
    y_ = leaves(2, {1, kColumns});
  }

  std::vector<Made> all() {
    return {norm(), product(), attention(), activation(), gated(), rotary(), embedding(), sum()};
  }

 private:
  using Numbers = std::array<Expression, kColumns>;

  bool on_cpu() const { return order_ == OperationOrder::cpu; }
  Tensor leaves(uint64_t name, const Shape& shape) {
    const Tensor tensor(context_.arena, shape, DType::expression);
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.data<Expression>()[i] = weight_leaf(name, i);
    return tensor;
  }
  const Expression* x() const { return x_.data<Expression>(); }
  const Expression* y() const { return y_.data<Expression>(); }
  // In bf16 results are rounded when they are stored.
  Made made(const char* name, const Tensor& result, const Expression& sum) const {
    return {name, result.data<Expression>()[0].hash,
            (order_ == OperationOrder::cuda_bf16 ? model::round_to_bf16(sum) : sum).hash};
  }

  Made norm() {
    const Tensor weight = leaves(3, {kColumns});
    const model::NormOf<Expression> of{ops::NormKind::layer, kColumns, 1e-5f,
                                       weight.data<Expression>(), nullptr};
    Numbers row;
    on_cpu() ? model::norm_row(of, x(), row.data()) : model::cuda_norm_row(of, x(), row.data());
    return made("norm", ops::norm(context_, ops::NormKind::layer, 1e-5f, x_, weight, {}).y, row[0]);
  }
  Made product() {
    ops::LinearWeight linear{.out = 1, .in = kColumns};
    linear.form = &ops::form_for(context_.placement(), Compute::fp32);
    linear.parts[0] = Tensor(context_.arena, {1}, DType::expression);
    *linear.parts[0].data<Expression>() = {.hash = {4, 0}};
    const auto weight = [](int64_t, int64_t k) { return weight_leaf(4, k); };
    Expression sum;
    order_ == OperationOrder::cuda_bf16
        ? model::tensor_core_product(x(), 1, kColumns, 1, weight, &sum)
        : model::product(x(), 1, kColumns, 1, weight, &sum);
    return made("product", ops::linear(context_, x_, linear), sum);
  }
  Made attention() {
    const Tensor q = leaves(5, {1, 1, kColumns});
    const Tensor k = leaves(6, {kKeys, 1, kColumns}), v = leaves(7, {kKeys, 1, kColumns});
    const std::vector<Interval> intervals{full_interval(0, kKeys)};
    ops::AttentionOptions options;
    options.scale = 0.5f;
    const Tensor out = ops::attention(context_, q, k, v, intervals, options).out;
    const model::AttentionRow<Expression> row{
        .head_dim = kColumns, .scale = 0.5f, .lo = 0, .hi = kKeys, .q = q.data<Expression>()};
    const KeysOfTest keys{k.data<Expression>(), v.data<Expression>()};
    Numbers expected;
    switch (order_) {
      case OperationOrder::cpu: model::attention_row(row, keys, expected.data()); break;
      case OperationOrder::cuda_fp32: model::cuda_attention_row(row, keys, expected.data()); break;
      case OperationOrder::cuda_bf16:  // rounds by itself
        model::tensor_core_attention_row(row, keys, expected.data());
        break;
    }
    return {"attention", out.data<Expression>()[0].hash, expected[0].hash};
  }
  Made activation() {
    constexpr auto kKind = ops::Activation::gelu;
    return made("activation", ops::activation(context_, kKind, x_),
                on_cpu() ? model::activated(kKind, x()[0]) : model::cuda_activated(kKind, x()[0]));
  }
  Made gated() {
    constexpr auto kKind = ops::Activation::silu;
    return made(
        "gate", ops::gated(context_, kKind, x_, y_),
        on_cpu() ? model::gated(kKind, x()[0], y()[0]) : model::cuda_gated(kKind, x()[0], y()[0]));
  }
  Made rotary() {
    const Tensor head = leaves(1, {1, 1, kColumns});
    const Tensor table(context_.arena, {1, kColumns}, DType::f32);
    for (int64_t i = 0; i < kColumns; ++i) table.data()[i] = static_cast<float>(i);
    const std::vector<int32_t> positions{0};
    Numbers turned;
    model::rotated_head(kColumns, table.data(), table.data() + kColumns / 2, x(), turned.data());
    return made("rotary", ops::rotary(context_, ops::Turn::forwards, head, positions, table),
                turned[0]);
  }
  Made embedding() {
    ops::LinearWeight table{.out = 1, .in = kColumns};
    table.parts[0] = Tensor(context_.arena, {1}, DType::expression);
    *table.parts[0].data<Expression>() = {.hash = {8, 0}};
    const std::vector<int32_t> ids{0};
    ops::Lookup lookup;
    lookup.ids = ids;
    lookup.packed = &table;
    lookup.scale = 3.0f;
    return made("embedding", ops::embedding(context_, lookup),
                model::embedded<Expression>(lookup_leaf(8, 0, 0, {}), 3.0f, nullptr));
  }
  Made sum() { return made("sum", ops::add(context_, x_, y_), model::add(x()[0], y()[0])); }

  OperationOrder order_;
  Context context_;
  Tensor x_, y_;
};

TEST(KernelOrders, EveryOperationTakesTheModelOfItsOrder) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  for (const OperationOrder order :
       {OperationOrder::cpu, OperationOrder::cuda_fp32, OperationOrder::cuda_bf16}) {
    for (const InOrder::Made& made : InOrder(order).all()) {
      EXPECT_TRUE(made.by_operation == made.by_model) << made.name << ", " << word_for(order);
    }
  }
}

// In fp32 a product, a rotation, a lookup and a sum are the same formula on both; all else is not.
TEST(KernelOrders, AreNotTheSame) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const auto cpu = InOrder(OperationOrder::cpu).all(),
             fp32 = InOrder(OperationOrder::cuda_fp32).all(),
             bf16 = InOrder(OperationOrder::cuda_bf16).all();
  std::string same;
  for (size_t i = 0; i < cpu.size(); ++i) {
    if (cpu[i].by_operation == fp32[i].by_operation) same += cpu[i].name + " ";
    EXPECT_FALSE(cpu[i].by_operation == bf16[i].by_operation) << cpu[i].name;
    EXPECT_FALSE(fp32[i].by_operation == bf16[i].by_operation) << cpu[i].name;
  }
  EXPECT_EQ(same, "product rotary embedding sum ");
}

TEST(KernelOrders, CudaMultipliesInFp32AndBf16Only) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  EveryInputOptions options = short_options(OperationOrder::cuda_fp32);
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
    const auto found = [&](OperationOrder order) {
      EveryInputOptions options = short_options(order);
      options.hooks = fault.hooks;
      options.masking = fault.masking;
      options.length = fault.length;
      options.every_length = fault.length <= 5;
      return prove_for_every_input(config, options);
    };
    const EveryInputResult on_cpu = found(OperationOrder::cpu);
    EXPECT_FALSE(on_cpu.holds()) << fault.name;
    for (const OperationOrder order : kOnCuda) {
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
