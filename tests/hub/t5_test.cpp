// What is particular to T5: matrices that the weights tell apart, and a bias by distance.
#include "hub/hub_support.h"
#include "tril/autograd/tape.h"
#include "tril/hub/import.h"
#include "tril/models/session.h"
#include "tril/translate/translator.h"

namespace tril::t5_test {
namespace {

using testing::raised_by;
using testing::TheirFolder;

// Its tokenizer has fewer pieces than the models have rows.
TheirFolder folder_of(const std::string& name) { return TheirFolder({name, "t5"}); }

TransformerConfig imported(const TheirFolder& folder) {
  return hub::import(folder.path().string(), folder.to()).config;
}

TEST(T5, TheWeightsTellWhichMatricesAreOne) {
  const TransformerConfig first = imported(folder_of("t5"));
  EXPECT_TRUE(first.tied);
  EXPECT_FALSE(first.share_source_target);
  EXPECT_EQ(first.output_scale, 0.25);  // 16 wide
  EXPECT_EQ(first.attention_scale, 1.0);
  EXPECT_EQ(first.activation, ActivationType::relu);
  for (const char* name : {"t5_v1_1", "mt5"}) {
    const TransformerConfig config = imported(folder_of(name));
    EXPECT_FALSE(config.tied) << name;
    EXPECT_TRUE(config.share_source_target) << name;
    EXPECT_EQ(config.output_scale, 1.0) << name;
    EXPECT_EQ(config.activation, ActivationType::gelu_tanh) << name;
    EXPECT_TRUE(config.gated) << name;
  }
}

TEST(T5, IsUsedAsAnyModel) {
  const TheirFolder folder = folder_of("t5_v1_1");
  imported(folder);
  Transformer::save_packed(folder.to(), folder.to(), Compute::int8);
  for (const Compute compute : {Compute::fp32, Compute::int8}) {
    LoadOptions load;
    load.compute = compute;
    const Translator translator = Translator::load(folder.to(), load, 1);
    TranslateOptions options;
    options.search = {.beam = 2, .max_tokens = 12};
    const std::vector<std::string> lines = {"the house", ""};
    EXPECT_EQ(translator.translate(lines, options).size(), 2u);
  }
}

// The bias of each stack is learnt, through all of its layers.
TEST(T5, TheBiasHasAGradient) {
  const TheirFolder folder = folder_of("t5_v1_1");
  imported(folder);
  Transformer model = Transformer::load(folder.to(), {.purpose = Purpose::training});
  Session session(model, 1);
  model.prepare_training(session);
  Tape tape(session);
  Rows rows;
  rows.add_sequence(std::vector<int32_t>{5, 6, 1}, {.slot = 0});
  const Memory memory = model.encode(rows, session);
  rows.clear();
  rows.add_sequence(std::vector<int32_t>{0, 7}, {.slot = 0, .segment = 0});
  const Tensor hidden = model.forward(rows, memory, session);
  const Tensor loss = model.loss(hidden, std::vector<int32_t>{7, 1}, {}, session);
  const Gradients gradients = tape.backward(loss);
  // Buckets of distances that occur: -2 to 2 in the encoder, 0 and -1 in the decoder.
  const std::map<std::string, int64_t> buckets = {{"encoder.relative_bias.weight", 5},
                                                  {"decoder.relative_bias.weight", 2}};
  for (const auto& [name, tensor] : model.parameters()) {
    const auto found = buckets.find(name);
    if (found == buckets.end()) continue;
    const std::vector<float> gradient = testing::floats_of(gradients.of(tensor));
    const int64_t heads = tensor.shape()[1];
    int64_t learning = 0;
    for (int64_t bucket = 0; bucket < tensor.shape()[0]; ++bucket) {
      const auto row = gradient.begin() + bucket * heads;
      learning += std::any_of(row, row + heads, [](float g) { return g != 0.0f; }) ? 1 : 0;
    }
    EXPECT_EQ(learning, found->second) << name;
  }
}

TEST(T5, WhatIsNotComputedIsNamed) {
  const TheirFolder folder = folder_of("t5");
  const std::string other =
      folder.error_with("config.json", "\"model_type\": \"t5\"", "\"model_type\": \"umt5\"");
  EXPECT_NE(other.find("model_type is \"umt5\""), std::string::npos) << other;
  EXPECT_EQ(
      folder.error_with("config.json", "\"dense_act_fn\": \"relu\"", "\"dense_act_fn\": \"mish\""),
      "config.json: feed_forward_proj is \"mish\", which tril does not compute");
}

}  // namespace
}  // namespace tril::t5_test
