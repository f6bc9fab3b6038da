// What ties the run on expressions to the model: with the numbers that a model has for leaves, the
// expressions of its logits, its loss and its gradients have the values that the model computes.
// Kernels are compared with their order-exact models elsewhere (tests/kernels/model_test.cpp); here
// it is everything between those models and the layers: which operands they get, what is done
// before and after them, and in which order sums over rows and heads go on.
#include "prove/valuation.h"

#include <algorithm>
#include <cmath>

#include "support/models.h"
#include "support/property.h"
#include "tril/kernels/model/linear.h"
#include "tril/models/session_state.h"

namespace tril::valuation_test {
namespace {

using testing::Batch;
using testing::Family;
using testing::Pass;
using testing::Valuation;

constexpr const char* kOnCpu = "expressions have no device";

// ---- leaves
bool is_matrix(const NamedConstTensor& parameter) {  // and stored in the model's form of weights
  return parameter.tensor.shape().rank() == 2 && !parameter.name.ends_with("position.weight") &&
         !parameter.name.ends_with("relative_bias.weight");
}

// A matrix in a form of weights: what a lookup finds there.
std::vector<float> set_matrix(Valuation& valuation, const NamedConstTensor& matrix,
                              Compute compute) {
  const uint64_t name = hash_of_name(matrix.name);
  std::vector<float> values = testing::floats_of(matrix.tensor);
  const int64_t out = matrix.tensor.shape()[0], in = matrix.tensor.shape()[1];
  if (compute == Compute::int8) {
    const auto rows = kernels::model::quantized(values.data(), out, in);
    const uint64_t scales =
        (ExpressionHasher(Operation::weight) << name << uint64_t{1}).finish().low;
    for (int64_t i = 0; i < out * in; ++i) {
      const auto at = static_cast<size_t>(i);
      const float scale = rows.scales[static_cast<size_t>(i / in)];
      valuation.set_integer(weight_leaf(name, i), rows.values[at]);
      valuation.set(weight_leaf(scales, i / in), scale);
      values[at] = static_cast<float>(rows.values[at]) * scale;
    }
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (compute == Compute::bf16) values[i] = kernels::model::round_to_bf16(values[i]);
    valuation.set(weight_leaf(name, static_cast<int64_t>(i)), values[i]);
  }
  return values;
}

void set_leaves(Valuation& valuation, const Transformer& model, const Batch& batch,
                Compute compute) {
  for (const NamedConstTensor& parameter : model.parameters()) {
    const uint64_t name = hash_of_name(parameter.name);
    const auto values =
        set_matrix(valuation, parameter, is_matrix(parameter) ? compute : Compute::fp32);
    if (!parameter.name.ends_with("embedding.weight")) continue;
    const int64_t columns = parameter.tensor.shape()[1];
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      valuation.set(lookup_leaf(name, at / columns, at % columns, {}), values[i]);
    }
  }
  for (const int32_t label : batch.labels) {
    for (int64_t token = 0; token < model.config().target_vocab; ++token) {
      valuation.set_condition(label_leaf(label, token), label == token);
    }
  }
}

// ---- a pass over a batch, on numbers or on expressions; `read` gives a tensor's numbers
template <class Read>
Pass training_pass(const Transformer& model, const Batch& batch, float smoothing,
                   const Read& read) {
  Session session(model, 1);  // a valuation sees its own thread alone
  Tape tape(session);
  const Memory memory =
      model.config().decoder_only() ? Memory() : model.encode(batch.source, session);
  const Tensor hidden = model.forward(batch.target, memory, session);
  const Tensor loss =
      model.loss(hidden, batch.labels, {.smoothing = smoothing, .factor = 0.3f}, session);
  const Gradients gradients = tape.backward(loss);
  Pass pass;
  pass.logits = read(model.logits(hidden, session));
  pass.loss = read(loss)[0];
  for (const auto& parameter : model.parameters()) {
    const Tensor gradient = gradients.of(parameter.tensor);
    pass.gradients.push_back(
        gradient.defined() ? read(gradient)
                           : std::vector<float>(static_cast<size_t>(parameter.tensor.size())));
  }
  return pass;
}
// As scoring does it: without a tape, so keys and values go through the cache.
template <class Read>
std::vector<float> logits_of(const Transformer& model, const Batch& batch, const Read& read) {
  Session session(model, 1);
  Memory memory;
  if (!model.config().decoder_only()) memory = model.encode(batch.source, session);
  for (size_t i = 0; i < batch.first_row.size(); ++i) session->cache.open();
  return read(model.logits(model.forward(batch.target, memory, session), session));
}

// The numbers of expressions. One that has no value is NaN, which equals nothing.
auto values_in(Valuation& valuation) {
  return [&valuation](const Tensor& tensor) {
    std::vector<float> values;
    for (int64_t i = 0; i < tensor.size(); ++i) {
      values.push_back(valuation.value_of(tensor.data<Expression>()[i])
                           .value_or(std::numeric_limits<float>::quiet_NaN()));
    }
    return values;
  };
}

// ---- comparison; the text says what differs first
enum class As { bits, numbers };  // a gradient's zero may have either sign

std::string difference(const std::string& name, std::span<const float> formula,
                       std::span<const float> model, As as) {
  if (formula.size() != model.size()) return name + ": another size";
  for (size_t i = 0; i < model.size(); ++i) {
    const bool same = formula[i] == model[i] &&
                      (as == As::numbers || testing::equal_bits({&formula[i], 1}, {&model[i], 1}));
    if (!same) {
      return concat(name, ", element ", i, ": the formula gives ", formula[i], ", the model ",
                    model[i]);
    }
  }
  return {};
}

std::string difference(const Pass& formula, const Pass& model, const Transformer& named) {
  std::string text = difference("logits", formula.logits, model.logits, As::bits);
  if (text.empty()) text = difference("loss", {&formula.loss, 1}, {&model.loss, 1}, As::bits);
  for (size_t i = 0; text.empty() && i < model.gradients.size(); ++i) {
    text = difference("gradient of " + named.parameters()[i].name, formula.gradients[i],
                      model.gradients[i], As::numbers);
  }
  return text;
}

std::string difference_of_training(const Transformer& model, const Batch& batch, float smoothing) {
  Valuation valuation;
  set_leaves(valuation, model, batch, Compute::fp32);
  const Transformer formulas =
      Transformer::of_expressions(model.config(), Compute::fp32, Purpose::study);
  return difference(training_pass(formulas, batch, smoothing, values_in(valuation)),
                    training_pass(model, batch, smoothing, testing::floats_of), model);
}
std::string difference_of_logits(const Transformer& model, const Batch& batch, Compute compute) {
  Valuation valuation;
  set_leaves(valuation, model, batch, compute);
  const Transformer formulas = Transformer::of_expressions(model.config(), compute);
  return difference(concat("logits in ", word_for(compute)),
                    logits_of(formulas, batch, values_in(valuation)),
                    logits_of(model.packed(compute), batch, testing::floats_of), As::bits);
}

// ---- models
// Every option, in sizes that take little time.
TransformerConfig small_config() {
  TransformerConfig c = testing::random_config();
  const auto below = [](int64_t& size, int64_t most) { size = 1 + size % most; };
  below(c.model, 17);
  if (c.sinusoid != Sinusoid::interleaved) c.model = 4 + 2 * (c.model % 7);  // an even width
  below(c.feed_forward, 17);
  below(c.head_dim, 5);
  if (c.position == PositionType::rotary) c.head_dim *= 2;
  below(c.decoder_layers, 2);
  c.encoder_layers = std::min<int64_t>(c.encoder_layers, 1);
  below(c.target_vocab, 17);
  if (c.source_vocab > 0) below(c.source_vocab, c.tied || c.share_source_target ? 17 : 9);
  c.frozen_token = -1;
  if (c.window > 0) below(c.window, 4);
  c.max_length = 8;
  return c;
}
Batch small_batch(const TransformerConfig& config) {
  const auto sentences = testing::random_sentences(config, 2, 4);
  const int32_t prefix = config.decoder_only() ? *rc::gen::inRange<int32_t>(0, 3) : 0;
  return testing::pack(sentences, {1, 0}, {*rc::gen::inRange(0, 3)}, config, prefix);
}

RC_GTEST_PROP(Valuation, LogitsLossAndGradientsAreTheModels, ()) {
  if (testing::device() != Device::cpu) return;
  TransformerConfig config = small_config();
  if (!testing::has_gradients(config)) config.position = PositionType::none;
  const Transformer model = testing::random_model(config, *rc::gen::arbitrary<uint64_t>());
  const std::string text =
      difference_of_training(model, small_batch(config), *rc::gen::element(0.0f, 0.1f));
  if (!text.empty()) RC_FAIL(text);
}

RC_GTEST_PROP(Valuation, LogitsAreTheModelsInEveryForm, ()) {
  if (testing::device() != Device::cpu) return;
  const TransformerConfig config = small_config();
  const Transformer model = testing::random_model(config, *rc::gen::arbitrary<uint64_t>());
  const Batch batch = small_batch(config);
  const Compute compute = *rc::gen::element(Compute::fp32, Compute::bf16, Compute::int8);
  const std::string text = difference_of_logits(model, batch, compute);
  if (!text.empty()) RC_FAIL(text);
}

// Rows that see several blocks of keys, in heads that share them.
TEST(Valuation, HoldsAcrossBlocks) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  TransformerConfig config = testing::tiny_config(Family::decoder_only);
  config.kv_heads = 1;
  config.model = config.feed_forward = 4;
  testing::Sentence sentence;
  for (int32_t i = 0; i < 66; ++i) sentence.target.push_back(i * 7 % 11);
  const Batch batch = testing::pack({sentence}, config);
  EXPECT_EQ(difference_of_training(testing::random_model(config, 5), batch, 0.1f), "");
}

// The comparison compares: a leaf with another value changes logits, loss and gradients.
TEST(Valuation, AnotherWeightIsAnotherValue) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const TransformerConfig config = testing::tiny_config(Family::decoder_only);
  const Transformer model = testing::random_model(config, 6);
  const Batch batch = testing::pack({{{}, {1, 2, 3}}}, config);
  const Transformer formulas = Transformer::of_expressions(config, Compute::fp32, Purpose::study);
  const Pass expected = training_pass(model, batch, 0.0f, testing::floats_of);
  const auto with = [&](const auto& change) {
    Valuation valuation;
    set_leaves(valuation, model, batch, Compute::fp32);
    change(valuation);
    const Pass pass = training_pass(formulas, batch, 0.0f, values_in(valuation));
    EXPECT_GT(valuation.operations(), 1000);
    return difference(pass, expected, model);
  };
  EXPECT_EQ(with([](Valuation&) {}), "");
  const uint64_t norm = hash_of_name("decoder.0.attention_norm.weight");
  EXPECT_NE(with([&](Valuation& v) { v.set(weight_leaf(norm, 3), 1.75f); }), "");
  EXPECT_NE(with([&](Valuation& v) { v.set_condition(label_leaf(2, 2), false); }), "");
}

TEST(Valuation, ConstantsAreReadBack) {
  Valuation valuation;
  for (const float value : {0.0f, -0.0f, 1.0f, -2.5f, 1e-42f, INFINITY, 0.1f}) {
    const auto back = valuation.value_of(constant_leaf(value));
    ASSERT_TRUE(back);
    EXPECT_TRUE(testing::equal_bits({&*back, 1}, {&value, 1})) << value;
  }
  EXPECT_FALSE(valuation.value_of(Expression{}));
  EXPECT_FALSE(valuation.value_of(weight_leaf(1, 0)));
}

}  // namespace
}  // namespace tril::valuation_test
