#include "tril/models/weights.h"

#include <cmath>

#include "tril/base/math.h"
#include "tril/base/rounding.h"
#include "tril/kernels/rotary.h"

namespace tril {
namespace {

using nn::Bias;
using nn::Init;

// One feature of sinusoidal positions.
struct Wave {
  double frequency = 0.0;
  bool cosine = false;
};
Wave wave_of(Sinusoid kind, int64_t feature, int64_t model) {
  const int64_t half = model / 2;
  if (kind == Sinusoid::fairseq) {
    const auto step = static_cast<float>(-math::log(10000.0) / static_cast<double>(half - 1));
    const float exponent = static_cast<float>(feature % half) * step;
    const auto frequency = static_cast<float>(math::exp(static_cast<double>(exponent)));
    return {static_cast<double>(frequency), feature >= half};
  }
  // The paper's section 3.5: sines in the even features, cosines in the odd ones.
  const int64_t in_paper = kind == Sinusoid::interleaved ? feature
                           : feature < half              ? 2 * feature
                                                         : 2 * (feature - half) + 1;
  const double exponent =
      -static_cast<double>(in_paper - in_paper % 2) / static_cast<double>(model);
  return {math::pow(10000.0, exponent), in_paper % 2 == 1};
}

Tensor sinusoidal_table(Arena& arena, const TransformerConfig& c) {
  const Tensor table(arena, {c.max_length, c.model});
  std::vector<float> to(static_cast<size_t>(table.size()));
  for (int64_t feature = 0; feature < c.model; ++feature) {
    const Wave wave = wave_of(c.sinusoid, feature, c.model);
    for (int64_t row = 0; row < c.max_length; ++row) {
      double angle = static_cast<double>(c.first_position + row) * wave.frequency;
      // fairseq rounds the angle, too: of large positions that shows.
      if (c.sinusoid == Sinusoid::fairseq) angle = static_cast<double>(static_cast<float>(angle));
      to[static_cast<size_t>(row * c.model + feature)] =
          static_cast<float>(wave.cosine ? math::cos(angle) : math::sin(angle));
    }
  }
  set_values(table, to);
  return table;
}

// Head h loses 2^(-8 (h+1) / heads) per position of distance.
Tensor alibi_table(Arena& arena, int64_t heads, int64_t max_length) {
  const Tensor table(arena, {heads, 2 * max_length - 1});
  std::vector<float> to;
  to.reserve(static_cast<size_t>(table.size()));
  for (int64_t head = 0; head < heads; ++head) {
    const double slope =
        math::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(heads));
    for (int64_t i = 0; i < 2 * max_length - 1; ++i) {
      const double distance = std::fabs(static_cast<double>(i - (max_length - 1)));
      to.push_back(static_cast<float>(-slope * distance));
    }
  }
  set_values(table, to);
  return table;
}

// Builds layers with the sizes of one configuration.
struct Builder {
  const TransformerConfig& c;
  nn::ParameterSet& set;

  Bias bias() const { return c.bias ? Bias::present : Bias::none; }
  nn::Norm norm(const std::string& name) const {
    return {set, name, c.norm, c.model, static_cast<float>(c.norm_epsilon)};
  }
  nn::MultiHeadAttention attention(const std::string& name) const {
    return {set, name, c.model, c.heads, c.kv_heads, c.head_dim, bias()};
  }
  nn::FeedForward feed_forward(const std::string& name) const {
    const auto form = c.gated ? nn::FeedForward::Form::gated : nn::FeedForward::Form::plain;
    return {set, name, c.model, c.feed_forward, c.activation, form, bias()};
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

void Transformer::State::build() {
  const TransformerConfig& c = config;
  c.check();
  const Builder build{c, parameters};
  const bool with_encoder = !c.decoder_only();
  const auto table = [&](const std::string& name, int64_t vocab) -> ops::LinearWeight& {
    return parameters.add_matrix(name, vocab, c.model, Init::normal, nn::ParameterSet::Use::table);
  };
  ops::LinearWeight* tied = nullptr;
  if (c.tied) {
    tied = &table("embedding.weight", c.target_vocab);
    source_embedding = target_embedding = tied;
  } else {
    if (with_encoder) source_embedding = &table("source_embedding.weight", c.source_vocab);
    target_embedding = &table("target_embedding.weight", c.target_vocab);
  }
  if (c.position == PositionType::learned) {
    if (with_encoder) {
      source_positions =
          parameters.add("source_position.weight", {c.max_length, c.model}, Init::normal);
    }
    target_positions =
        parameters.add("target_position.weight", {c.max_length, c.model}, Init::normal);
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
      tied != nullptr ? *tied
                      : parameters.add_matrix("output.weight", c.target_vocab, c.model,
                                              Init::xavier, nn::ParameterSet::Use::linear);
  parameters.use_as_linear(output_weight, output_bias);
  output = nn::Linear(output_weight);

  // Tables come last: by now the parameters are known to fit.
  if (c.position == PositionType::sinusoidal) {
    target_positions = sinusoidal_table(tables_arena, c);
    source_positions = target_positions;
  } else if (c.position == PositionType::rotary) {
    rotary_table = Tensor(tables_arena, {c.max_length, c.head_dim});
    std::vector<float> values(static_cast<size_t>(rotary_table.size()));
    kernels::fill_rotary_table(c.max_length, c.head_dim, 10000.0, values.data());
    set_values(rotary_table, values);
  } else if (c.position == PositionType::alibi) {
    alibi_bias = alibi_table(tables_arena, c.heads, c.max_length);
  }
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
  state->frozen = true;
  return Transformer(std::move(state));
}

std::vector<Transformer::NamedShape> Transformer::parameter_shapes(
    const TransformerConfig& config) {
  std::vector<NamedShape> shapes;
  // A model of expressions for inference stores no matrices.
  const State state(config, Placement::expressions(), Compute::fp32,
                    [&](const std::string& name, const Shape& shape) {
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
}

void Transformer::prepare_training(Context& context) {
  require_trainable(state_->frozen);
  require_same_place(placement(), context);
  state_->parameters.prepare_training();
  state_->parameters.pack(context);
}

Compute Transformer::compute() const { return state_->parameters.compute(); }

}  // namespace tril
