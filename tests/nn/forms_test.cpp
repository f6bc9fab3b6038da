// Forms of weights: what each says of itself, and sets of parameters that keep nothing else.
#include <algorithm>
#include <map>

#include "support/testing.h"
#include "tril/nn/attention.h"

namespace tril::forms_test {
namespace {

using testing::activations_of;
using testing::floats_of;
using testing::raised_by;
using testing::random_floats;
using testing::same_bits;
using testing::tensor_of;

TEST(Forms, AreFoundByPlacementAndName) {
  const std::vector<Compute> here = ops::computes_for(testing::placement());
  ASSERT_FALSE(here.empty());
  for (const Compute compute : here) {
    const ops::WeightForm& form = ops::form_for(testing::placement(), compute);
    EXPECT_EQ(form.compute(), compute);
    EXPECT_TRUE(form.suits(testing::placement()));
  }
  for (const Compute compute : {Compute::fp32, Compute::bf16, Compute::int8, Compute::bf16_dot}) {
    if (std::find(here.begin(), here.end(), compute) != here.end()) continue;
    EXPECT_EQ(raised_by([&] { ops::form_for(testing::placement(), compute); }).code,
              ErrorCode::unsupported);
  }
}

TEST(Forms, SayWhatTheyKeep) {
  Random random(1);
  Context context(1, testing::placement());
  for (const Compute compute : ops::computes_for(testing::placement())) {
    const ops::WeightForm& form = ops::form_for(testing::placement(), compute);
    Arena host, arena(testing::device());
    const Tensor weight = tensor_of(host, {70, 37}, random_floats(random, 70 * 37));
    const ops::LinearWeight packed = ops::packed_for(context, weight, compute, arena);
    const auto parts = form.parts(70, 37);
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(packed.parts[i].shape(), parts[i].shape) << parts[i].name;
      EXPECT_EQ(packed.parts[i].dtype(), parts[i].type) << parts[i].name;
    }
    EXPECT_FALSE(packed.weight.defined());
  }
}

// A form that is there twice over gives the same bits as the weight packed for each use.
TEST(Forms, PackWhatProductsPackForThemselves) {
  Random random(2);
  Context context(2, testing::placement());
  Arena host, arena(testing::device());
  const std::vector<float> numbers = random_floats(random, 70 * 37);
  const Tensor x = activations_of(context, {9, 37}, random_floats(random, 9 * 37));
  const Tensor there = tensor_of(arena, {70, 37}, numbers);
  const Tensor expected = ops::linear(context, x, ops::linear_weight(there));
  const ops::WeightForm& form = ops::form_for(testing::placement());
  const ops::LinearWeight from_host =
      ops::packed_for(context, tensor_of(host, {70, 37}, numbers), form.compute(), arena);
  EXPECT_TRUE(same_bits(floats_of(ops::linear(context, x, from_host)), floats_of(expected)));
  const auto refused = raised_by([&] { ops::linear_input_gradient(context, expected, from_host); });
  EXPECT_EQ(refused.code, ErrorCode::unsupported);
}

// An attention layer and a table, in a set of parameters.
struct Layers {
  nn::MultiHeadAttention attention;
  const ops::LinearWeight* table;

  Layers(nn::ParameterSet& set, int64_t model)
      : attention(set, "a", {.model = model, .heads = 2, .kv_heads = 2, .head_dim = model / 2},
                  nn::Bias::present, nn::Bias::present),
        table(&set.add_matrix("table", 19, model, nn::Init::normal, nn::ParameterSet::Use::table)) {
  }
  std::vector<const ops::LinearWeight*> weights() const {
    return {attention.query.weight, attention.key.weight, attention.value.weight};
  }
};

// Inference needs no weights beside what is packed: no bit tells.
TEST(ParameterSet, KeepsNothingButThePackedForm) {
  for (const int64_t model : {128, 40}) {
    Context context(2, testing::placement());
    nn::ParameterSet all(testing::placement());
    nn::ParameterSet least(testing::placement(), ops::form_for(testing::placement()).compute());
    const Layers kept(all, model), packed(least, model);
    Arena host;
    Random random(3);
    std::map<std::string, Tensor> values;
    for (const nn::Parameter& parameter : all.list()) {
      const Shape& shape = parameter.tensor.shape();
      values[parameter.name] = tensor_of(host, shape, random_floats(random, shape.size()));
    }
    const auto source = [&](const std::string& name) { return values.at(name); };
    all.fill(context, source);
    least.fill(context, source);
    EXPECT_EQ(least.count(), all.count());
    EXPECT_EQ(all.compute(), ops::form_for(testing::placement()).compute());
    EXPECT_EQ(least.compute(), all.compute());
    EXPECT_EQ(least.list().size(), 4u);  // the biases
    EXPECT_FALSE(packed.table->weight.defined());
    EXPECT_EQ(ops::are_stacked(context, packed.weights()),
              ops::are_stacked(context, kept.weights()));

    const Tensor x = activations_of(context, {7, model}, random_floats(random, 7 * model));
    const auto expected = kept.attention.queries_keys_values(context, x);
    const auto got = packed.attention.queries_keys_values(context, x);
    EXPECT_TRUE(same_bits(floats_of(got.queries), floats_of(expected.queries)));
    EXPECT_TRUE(same_bits(floats_of(got.keys), floats_of(expected.keys)));
    EXPECT_TRUE(same_bits(floats_of(got.values), floats_of(expected.values)));
    const auto looked_up = [&](const ops::LinearWeight& table) {
      const int32_t ids[] = {3, 18, 0, 3};
      return floats_of(ops::embedding(context, {.ids = ids,
                                                .table = table.weight,
                                                .packed = &table,
                                                .scale = 1.5f,
                                                .position_ids = {},
                                                .positions = {}}));
    };
    EXPECT_TRUE(same_bits(looked_up(*packed.table), looked_up(*kept.table)));
    EXPECT_EQ(raised_by([&] { least.prepare_training(); }).code, ErrorCode::unsupported);
  }
}

}  // namespace
}  // namespace tril::forms_test
