#include "tril/models/weights.h"

#include <algorithm>

#include "tril/autograd/functions.h"
#include "tril/base/rounding.h"
#include "tril/models/position_tables.h"

namespace tril {
namespace {

using nn::Bias;
using nn::Init;

// Builds layers with the sizes of one configuration.
struct Builder {
  const TransformerConfig& c;
  nn::ParameterSet& set;

  // Whether layers have biases that have them in models whose `bias_in` is one of these.
  Bias bias(std::initializer_list<BiasIn> places) const {
    const bool here = c.bias_in == BiasIn::all ||
                      std::find(places.begin(), places.end(), c.bias_in) != places.end();
    return c.bias && here ? Bias::present : Bias::none;
  }
  nn::Norm norm(const std::string& name) const {
    return {set, name, c.norm, c.model, static_cast<float>(c.norm_epsilon)};
  }
  nn::MultiHeadAttention attention(const std::string& name) const {
    const nn::AttentionSizes sizes{c.model, c.heads, c.kv_heads, c.head_dim};
    return {set, name, sizes, bias({BiasIn::attention, BiasIn::attention_input}),
            bias({BiasIn::attention})};
  }
  nn::FeedForward feed_forward(const std::string& name) const {
    const auto form = c.gated ? nn::FeedForward::Form::gated : nn::FeedForward::Form::plain;
    return {set, name, c.model, c.feed_forward, c.activation, form, bias({BiasIn::feed_forward})};
  }
};

}  // namespace

Transformer::State::State(const TransformerConfig& given, const Placement& placement,
                          nn::ParameterSet::Gate gate)
    : config(given.completed()),
      parameters(placement, std::move(gate)),
      tables_arena(placement.device) {
  check_usable(placement.device);
  build();
}

Transformer::State::State(const TransformerConfig& given, const Placement& placement,
                          Compute compute, nn::ParameterSet::Gate gate)
    : config(given.completed()),
      parameters(placement, compute, std::move(gate)),
      tables_arena(placement.device) {
  check_usable(placement.device);
  build();
}

Transformer::State::State(const TransformerConfig& given, Compute compute,
                          nn::ParameterSet::Find find)
    : config(given.completed()), parameters(compute, std::move(find)) {
  build();
}

// Returns the target's, which may be the output's as well.
ops::LinearWeight* Transformer::State::add_embeddings() {
  const TransformerConfig& c = config;
  const auto table = [&](const std::string& name, int64_t vocab) {
    return &parameters.add_matrix(name, vocab, c.model, Init::normal, nn::ParameterSet::Use::table);
  };
  if (!c.tied && !c.share_source_target && !c.decoder_only()) {
    source_embedding = table("source_embedding.weight", c.source_vocab);
  }
  ops::LinearWeight* target =
      table(c.tied ? "embedding.weight" : "target_embedding.weight", c.target_vocab);
  target_embedding = target;
  if (c.tied || c.share_source_target) source_embedding = target;
  return target;
}

void Transformer::State::build() {
  const TransformerConfig& c = config;
  c.check();
  const Builder build{c, parameters};
  const bool with_encoder = !c.decoder_only();
  ops::LinearWeight* const target = add_embeddings();
  if (c.position == PositionType::learned) {
    if (with_encoder) {
      source_positions =
          parameters.add("source_position.weight", {c.max_length, c.model}, Init::normal);
    }
    target_positions =
        parameters.add("target_position.weight", {c.max_length, c.model}, Init::normal);
  }
  if (c.position == PositionType::relative) {
    const Shape shape{c.relative_buckets, c.heads};
    if (with_encoder) {
      encoder_relative_bias = parameters.add("encoder.relative_bias.weight", shape, Init::normal);
    }
    decoder_relative_bias = parameters.add("decoder.relative_bias.weight", shape, Init::normal);
  }
  if (c.embedding_norm) {
    if (with_encoder) source_embedding_norm = build.norm("source_embedding_norm");
    target_embedding_norm = build.norm("target_embedding_norm");
  }
  for (int64_t i = 0; i < c.encoder_layers; ++i) {
    const std::string at = concat("encoder.", i, ".");
    encoder.push_back({build.attention(at + "attention"), build.norm(at + "attention_norm"),
                       build.feed_forward(at + "feed_forward"),
                       build.norm(at + "feed_forward_norm")});
  }
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const std::string at = concat("decoder.", i, ".");
    DecoderBlock block;
    block.attention = build.attention(at + "attention");
    block.attention_norm = build.norm(at + "attention_norm");
    if (with_encoder) {
      block.cross_attention = build.attention(at + "cross_attention");
      block.cross_attention_norm = build.norm(at + "cross_attention_norm");
    }
    block.feed_forward = build.feed_forward(at + "feed_forward");
    block.feed_forward_norm = build.norm(at + "feed_forward_norm");
    decoder.push_back(block);
  }
  if (c.norm_position == NormPosition::pre) {
    if (with_encoder) encoder_norm = build.norm("encoder.norm");
    decoder_norm = build.norm("decoder.norm");
  }
  const Tensor output_bias =
      c.output_bias ? parameters.add("output.bias", {c.target_vocab}, Init::zero) : Tensor();
  ops::LinearWeight& output_weight =
      c.tied || c.share_target_output
          ? *target
          : parameters.add_matrix("output.weight", c.target_vocab, c.model, Init::xavier,
                                  nn::ParameterSet::Use::linear);
  parameters.use_as_linear(output_weight, output_bias);
  output = nn::Linear(output_weight);
  add_tables();  // last: by now the parameters are known to fit
}

void Transformer::State::add_tables() {
  const TransformerConfig& c = config;
  const auto table = [&](const Shape& shape, const std::vector<float>& values) {
    const Tensor result(tables_arena, shape);
    set_values(result, values);
    return result;
  };
  const Shape bias{c.heads, 2 * c.max_length - 1};
  switch (c.position) {
    case PositionType::sinusoidal:
      source_positions = target_positions = table({c.max_length, c.model}, sinusoidal_values(c));
      break;
    case PositionType::rotary:
      rotary_table = table({c.max_length, c.head_dim}, rotary_values(c));
      break;
    case PositionType::alibi: encoder_bias = decoder_bias = table(bias, alibi_values(c)); break;
    case PositionType::relative:
      if (!c.decoder_only()) {
        encoder_bias = Tensor(tables_arena, bias, encoder_relative_bias.dtype());
        encoder_buckets = relative_buckets(c, ops::BiasDirections::both);
      }
      decoder_bias = Tensor(tables_arena, bias, decoder_relative_bias.dtype());
      decoder_buckets = relative_buckets(c, ops::BiasDirections::back);
      break;
    case PositionType::learned:
    case PositionType::none: break;
  }
}

void Transformer::State::derive(Context& context) const {
  if (config.position != PositionType::relative) return;
  if (!config.decoder_only()) {
    ops::relative_bias(context, encoder_relative_bias, encoder_buckets, encoder_bias);
  }
  ops::relative_bias(context, decoder_relative_bias, decoder_buckets, decoder_bias);
}

Tensor Transformer::State::bias_in_encoder(Context& context) const {
  if (context.tape == nullptr || !encoder_relative_bias.defined()) return encoder_bias;
  return autograd::relative_bias(context, encoder_relative_bias, encoder_buckets);
}

Tensor Transformer::State::bias_in_decoder(Context& context) const {
  if (context.tape == nullptr || !decoder_relative_bias.defined()) return decoder_bias;
  return autograd::relative_bias(context, decoder_relative_bias, decoder_buckets);
}

void Transformer::check_trainable(const TransformerConfig& config, const Placement& placement,
                                  std::string_view where) {
  require(config.position != PositionType::relative || ops::has_bias_gradient(placement),
          ErrorCode::unsupported, where,
          ": a model with relative positions (T5) is trained on the CPU only");
}

Transformer::Transformer(const TransformerConfig& config, uint64_t seed, const Placement& placement)
    : state_() {
  const StandardRounding rounding;
  state_ = std::make_shared<State>(config, placement);
  state_->parameters.initialise(seed);
  Context context(1, placement);
  weights_changed(context);
  context.queue.wait();  // sessions read the weights in queues of their own
}

Transformer Transformer::of_expressions(const TransformerConfig& config, Compute compute,
                                        Purpose purpose) {
  const Placement placement = Placement::expressions();
  require(purpose == Purpose::inference || compute == Compute::fp32, ErrorCode::unsupported,
          "expressions: weights in ", word_for(compute), " have no gradients");
  auto state = purpose == Purpose::inference
                   ? std::make_shared<State>(config, placement, compute, nn::ParameterSet::Gate())
                   : std::make_shared<State>(config, placement);
  state->parameters.name_leaves();
  Context context(1, placement);
  state->derive(context);
  state->frozen = true;
  return Transformer(std::move(state));
}

std::vector<Transformer::NamedShape> Transformer::parameter_shapes(
    const TransformerConfig& config) {
  // A model of expressions for inference stores no matrices; what it stores is bounded, because a
  // configuration may lie.
  constexpr int64_t kMostStored = 1 << 24;
  TransformerConfig bare = config.completed();
  bare.check();
  // Tables that are computed need not be.
  if (bare.position != PositionType::learned && bare.position != PositionType::relative) {
    bare.position = PositionType::none;
  }
  std::vector<NamedShape> shapes;
  int64_t stored = 0;
  const State state(bare, Placement::expressions(), Compute::fp32,
                    [&](const std::string& name, const Shape& shape) {
                      const bool is_matrix =
                          shape.rank() == 2 && !name.ends_with("_position.weight");
                      if (!is_matrix) stored += shape.size();
                      require(stored <= kMostStored, ErrorCode::invalid_argument,
                              "configuration: its norms, biases and positions have more than ",
                              kMostStored, " numbers");
                      shapes.push_back({name, shape});
                    });
  return shapes;
}

Transformer Transformer::on(const Placement& placement) const {
  require(!state_->parameters.only_packed(), ErrorCode::unsupported,
          "a model loaded for inference stays on its device");
  const StandardRounding rounding;
  auto state = std::make_shared<State>(config(), placement);
  const auto& to = state->parameters.list();
  for (size_t i = 0; i < to.size(); ++i) {
    copy_into(state_->parameters.list()[i].tensor, to[i].tensor);
  }
  Transformer moved(std::move(state));
  Context context(1, placement);
  moved.weights_changed(context);
  context.queue.wait();  // as in the constructor
  return moved;
}

const Placement& Transformer::placement() const { return state_->parameters.placement(); }

const TransformerConfig& Transformer::config() const { return state_->config; }

namespace {
void require_trainable(bool frozen) {
  require(!frozen, ErrorCode::unsupported,
          "this model was not loaded for training: its weights cannot be changed");
}
void require_same_place(const Placement& model, const Context& context) {
  require(context.placement() == model, ErrorCode::invalid_argument, "the model is on ",
          model.device, " with activations of ", model.activations, ", the context on ",
          context.device(), " with activations of ", context.activations);
}
}  // namespace

std::vector<NamedConstTensor> Transformer::parameters() const {
  if (state_->parameters.only_packed()) return {};
  std::vector<NamedConstTensor> list;
  for (const nn::Parameter& parameter : state_->parameters.list()) {
    list.push_back({parameter.name, parameter.tensor});
  }
  return list;
}

std::vector<Transformer::NamedParameter> Transformer::writable_parameters() {
  require_trainable(state_->frozen);
  std::vector<NamedParameter> list;
  for (const nn::Parameter& parameter : state_->parameters.list()) {
    list.push_back({parameter.name, parameter.tensor, state_->parameters.rounded(parameter)});
  }
  return list;
}

int64_t Transformer::parameter_count() const { return state_->parameters.count(); }

void Transformer::weights_changed(Context& context) {
  require_trainable(state_->frozen);
  require_same_place(placement(), context);
  state_->parameters.pack(context);
  state_->derive(context);
}

void Transformer::prepare_training(Context& context) {
  require_trainable(state_->frozen);
  require_same_place(placement(), context);
  check_trainable(config(), placement(), "training");
  state_->parameters.prepare_training();
  state_->parameters.pack(context);
}

Compute Transformer::compute() const { return state_->parameters.compute(); }

}  // namespace tril
