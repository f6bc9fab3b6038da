#include "tril/models/config.h"

#include "support/models.h"

namespace tril::config_test {
namespace {

using testing::raised_by;
using testing::random_config;

RC_GTEST_PROP(Config, ReadsBackWhatItWrote, ()) {
  const TransformerConfig config = random_config();
  RC_ASSERT(config_from_json(to_json(config), "c.json") == config);
}

TransformerConfig valid() {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = 100;
  return config.completed();
}

std::string with(std::string_view from, std::string_view to) {
  std::string text = to_json(valid());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  const auto raised = raised_by([&] { config_from_json(text, "m/config.json"); });
  EXPECT_EQ(raised.code, ErrorCode::bad_format);
  return raised.text;
}

TEST(Config, NamesFileAndField) {
  EXPECT_EQ(error_of(with("\"heads\": 8", "\"heads\": \"8\"")),
            "m/config.json: heads: expected an integer from 1 to 4096, got \"8\"");
  EXPECT_EQ(error_of(with("\"heads\": 8", "\"heads\": 6")),
            "m/config.json: configuration: heads is 6, kv_heads 8: heads must be a multiple");
  EXPECT_EQ(error_of(with("\"format\": 1", "\"format\": 3")),
            "m/config.json: format: expected an integer from 1 to 2, got 3");
  EXPECT_EQ(error_of(with("\"format\": 1", "\"format\": 2, \"bias_in\": \"norm\"")),
            "m/config.json: bias_in: expected one of \"all\", \"attention-input\", \"attention\", "
            "\"feed-forward\", got \"norm\"");
  EXPECT_NE(error_of(with("\"tied\": true", "\"tied\": true, \"output_scale\": 2.0"))
                .find("output_scale"),
            std::string::npos);
  EXPECT_NE(error_of(with("\"norm_epsilon\": 1e-05", "\"norm_epsilon\": NaN")).find("NaN"),
            std::string::npos);
  EXPECT_NE(error_of(with("\"window\": 0", "\"windoww\": 0")).find("window"), std::string::npos);
  EXPECT_NE(error_of(with("\"tied\": true", "\"tied\": true, \"extra\": 1")).find("extra"),
            std::string::npos);
  EXPECT_NE(
      error_of(with("\"position\": \"sinusoidal\"", "\"position\": \"spiral\"")).find("spiral"),
      std::string::npos);
  EXPECT_NE(error_of(to_json(valid()).substr(0, 100)).find("m/config.json"), std::string::npos);
}

TEST(Config, IsWrittenInFormat2OnlyWhereThatIsNeeded) {
  EXPECT_EQ(to_json(valid()).find("\"sinusoid\""), std::string::npos);
  EXPECT_NE(to_json(valid()).find("\"format\": 1,"), std::string::npos);
  TransformerConfig config = valid();
  config.sinusoid = Sinusoid::halves;
  EXPECT_NE(to_json(config).find("\"format\": 2,"), std::string::npos);
  EXPECT_NE(to_json(config).find("\"sinusoid\": \"halves\""), std::string::npos);
  config = valid();
  config.first_position = 2;
  EXPECT_EQ(config_from_json(to_json(config), "c.json"), config);
  config.sinusoid = Sinusoid::fairseq;
  config.model = 2;
  config.heads = config.kv_heads = 1;
  config.head_dim = 2;
  EXPECT_EQ(raised_by([&] { config.check(); }).text,
            "configuration: model is 2: sinusoids in halves need an even width of at least 4");
}

TEST(Config, WritesOfFormat2WhatDiffersFromItsDefaults) {
  TransformerConfig config = valid();
  config.output_scale = 0.125;
  const std::string text = to_json(config);
  EXPECT_NE(text.find("\"output_scale\": 0.125"), std::string::npos);
  EXPECT_EQ(text.find("\"sinusoid\""), std::string::npos);
  EXPECT_EQ(text.find("\"bias_in\""), std::string::npos);
  // Folders of the first release with format 2 have exactly these two of its fields.
  const std::string older = with("\"format\": 1",
                                 "\"format\": 2, \"sinusoid\": \"interleaved\", "
                                 "\"first_position\": 0");
  EXPECT_EQ(config_from_json(older, "c.json"), valid());
}

TEST(Config, ChecksSharedMatrices) {
  const auto error = [](auto change) {
    TransformerConfig config = valid();
    config.tied = false;
    change(config);
    return raised_by([&] { config.check(); }).text;
  };
  TransformerConfig shared = valid();
  shared.tied = false;
  shared.share_source_target = true;
  shared.check();
  std::swap(shared.share_source_target, shared.share_target_output);
  shared.source_vocab = 50;
  shared.check();
  EXPECT_EQ(error([](auto& c) {
              c.share_source_target = true;
              c.source_vocab = 50;
            }),
            "configuration: share_source_target needs one vocabulary, but source_vocab is 50 and "
            "target_vocab 100");
  EXPECT_EQ(error([](auto& c) { c.share_source_target = c.share_target_output = true; }),
            "configuration: share_source_target and share_target_output together are tied");
  EXPECT_NE(error([](auto& c) { c.tied = c.share_target_output = true; }).find("not tied"),
            std::string::npos);
  EXPECT_NE(error([](auto& c) {
              c.share_target_output = true;
              c.source_vocab = c.encoder_layers = 0;
            }).find("decoder-only"),
            std::string::npos);
}

// The table of rotary positions is as wide as a head, whatever the width of the model.
TEST(Config, LimitsTablesByWhatTheyHold) {
  TransformerConfig config = valid();
  config.model = 4096;
  config.max_length = 131072;
  EXPECT_NE(raised_by([&] { config.check(); }).text.find("its tables"), std::string::npos);
  config.position = PositionType::rotary;
  config.check();
  config.position = PositionType::none;
  config.check();
  config.position = PositionType::relative;
  config.heads = config.kv_heads = 512;
  EXPECT_NE(raised_by([&] { config.check(); }).text.find("its tables"), std::string::npos);
}

TEST(Config, NamesEveryActivation) {
  const std::pair<std::string_view, ActivationType> names[] = {
      {"relu", ActivationType::relu},
      {"gelu", ActivationType::gelu},
      {"silu", ActivationType::silu},
      {"gelu-tanh", ActivationType::gelu_tanh},
  };
  EXPECT_EQ(std::size(names), std::size(Words<ActivationType>::kList));
  for (const auto& [name, kind] : names) {
    TransformerConfig config = valid();
    config.activation = kind;
    const std::string text =
        with("\"activation\": \"relu\"", concat("\"activation\": \"", name, "\""));
    EXPECT_EQ(to_json(config), text);
    EXPECT_EQ(config_from_json(text, "c.json"), config);
  }
  EXPECT_EQ(
      error_of(with("\"activation\": \"relu\"", "\"activation\": \"gelu_tanh\"")),
      "m/config.json: activation: expected one of \"relu\", \"gelu\", \"silu\", \"gelu-tanh\", "
      "got \"gelu_tanh\"");
}

TEST(Config, CompletesWhatIsLeftOut) {
  TransformerConfig config;
  config.model = 96;
  config.heads = 6;
  EXPECT_EQ(config.completed().kv_heads, 6);
  EXPECT_EQ(config.completed().head_dim, 16);
  config.heads = 7;
  EXPECT_EQ(raised_by([&] { config.completed(); }).text,
            "configuration: a model 96 wide cannot be divided among 7 heads");
}

TEST(Config, ChecksWhatCannotBeBuilt) {
  const auto error = [](auto change) {
    TransformerConfig config = valid();
    change(config);
    return raised_by([&] { config.check(); }).text;
  };
  EXPECT_EQ(error([](auto& c) { c.target_vocab = 99; }),
            "configuration: tied embeddings need one vocabulary, but source_vocab is 100 and "
            "target_vocab 99");
  EXPECT_EQ(error([](auto& c) {
              c.position = PositionType::rotary;
              c.head_dim = 63;
            }),
            "configuration: head_dim is 63: rotary positions need an even one");
  EXPECT_EQ(error([](auto& c) { c.encoder_layers = 0; }),
            "configuration: source_vocab is 100 with 0 encoder layers: a decoder-only model has "
            "neither, others have both");
  EXPECT_EQ(error([](auto& c) { c.dropout = std::numeric_limits<double>::quiet_NaN(); }),
            "configuration: dropout is nan, expected 0 to 0.99");
  EXPECT_EQ(error([](auto& c) { c.frozen_token = 100; }),
            "configuration: frozen_token is 100, which is not in every vocabulary");
  EXPECT_EQ(error([](auto& c) {
              c.position = PositionType::relative;
              c.relative_distance = 16;
            }),
            "configuration: relative_buckets is 32 and relative_distance 16: buckets must be even, "
            "and the distance more than half of them");
  EXPECT_EQ(error([](auto& c) {
              c.rotary_scaling = RotaryScaling::llama3;
              c.rotary_low = 4.0;
            }),
            "configuration: rotary_low is 4, rotary_high 4: the first must be smaller");
}

}  // namespace
}  // namespace tril::config_test
