#include "support/models.h"

#include <numeric>

namespace tril::testing {

TransformerConfig tiny_config(Family family) {
  TransformerConfig config;
  const bool decoder_only = family == Family::decoder_only;
  config.source_vocab = decoder_only ? 0 : 11;
  config.target_vocab = 11;
  config.model = 8;
  config.heads = config.kv_heads = 2;
  config.head_dim = 4;
  config.feed_forward = 16;
  config.encoder_layers = decoder_only ? 0 : 1;
  config.decoder_layers = 1;
  return config;
}

TransformerConfig random_config(Family family) {
  TransformerConfig c;
  const bool decoder_only =
      family == Family::decoder_only || (family == Family::any && *rc::gen::inRange(0, 3) == 0);
  c.target_vocab = *rc::gen::inRange<int64_t>(3, 70);
  c.tied = *rc::gen::arbitrary<bool>();
  c.encoder_layers = decoder_only ? 0 : *rc::gen::inRange<int64_t>(1, 3);
  if (!c.tied && !decoder_only) {
    const int pair = *rc::gen::inRange(0, 4);
    c.share_source_target = pair == 1;
    c.share_target_output = pair == 2;
  }
  const bool one_vocabulary = c.tied || c.share_source_target;
  c.source_vocab =
      decoder_only ? 0 : (one_vocabulary ? c.target_vocab : *rc::gen::inRange<int64_t>(3, 40));
  c.decoder_layers = *rc::gen::inRange<int64_t>(1, 4);
  c.model = *rc::gen::inRange<int64_t>(2, 70);
  c.kv_heads = *rc::gen::inRange<int64_t>(1, 3);
  c.heads = c.kv_heads * *rc::gen::inRange<int64_t>(1, 4);
  c.head_dim = *rc::gen::inRange(0, 4) == 0 ? *rc::gen::element<int64_t>(48, 64, 70)
                                            : *rc::gen::inRange<int64_t>(1, 24);
  // Widths that need no padding: on CUDA queries, keys and values are then one product.
  if (*rc::gen::inRange(0, 4) == 0) c.head_dim = 64 / c.kv_heads;
  c.feed_forward = *rc::gen::inRange<int64_t>(1, 90);
  c.norm = *rc::gen::element(NormType::layer, NormType::rms);
  c.norm_position = *rc::gen::element(NormPosition::pre, NormPosition::post);
  c.activation = *rc::gen::element(ActivationType::relu, ActivationType::gelu, ActivationType::silu,
                                   ActivationType::gelu_tanh);
  c.gated = *rc::gen::arbitrary<bool>();
  c.position =
      *rc::gen::element(PositionType::sinusoidal, PositionType::learned, PositionType::rotary,
                        PositionType::alibi, PositionType::none, PositionType::relative);
  if (c.position == PositionType::rotary) c.head_dim *= 2;
  c.max_length = 160;
  c.window = *rc::gen::inRange(0, 3) == 0 ? *rc::gen::inRange<int64_t>(1, 90) : 0;
  c.bias = *rc::gen::arbitrary<bool>();
  c.output_bias = *rc::gen::arbitrary<bool>();
  c.embedding_norm = *rc::gen::arbitrary<bool>();
  c.embedding_scale = *rc::gen::arbitrary<bool>();
  if (c.model % 2 == 0 && c.model >= 4) {
    c.sinusoid = *rc::gen::element(Sinusoid::interleaved, Sinusoid::halves, Sinusoid::fairseq);
  }
  c.first_position = *rc::gen::inRange<int64_t>(0, 3);
  c.bias_in = *rc::gen::element(BiasIn::all, BiasIn::all, BiasIn::attention_input,
                                BiasIn::attention, BiasIn::feed_forward);
  if (*rc::gen::inRange(0, 3) == 0) c.attention_scale = *rc::gen::element(0.25, 0.7, 1.0);
  if (*rc::gen::inRange(0, 3) == 0) c.output_scale = *rc::gen::element(0.35, 1.5);
  c.alibi_slopes = *rc::gen::element(AlibiSlopes::geometric, AlibiSlopes::authors);
  c.relative_buckets = *rc::gen::element<int64_t>(4, 10, 32);
  c.relative_distance = *rc::gen::element<int64_t>(17, 40, 128);
  c.rotary_base = *rc::gen::element(10000.0, 500000.0);
  c.rotary_rounded = *rc::gen::arbitrary<bool>();
  c.rotary_scaling =
      *rc::gen::element(RotaryScaling::none, RotaryScaling::linear, RotaryScaling::llama3);
  c.rotary_factor = *rc::gen::element(1.0, 8.0);
  c.rotary_length = *rc::gen::element<int64_t>(64, 8192);
  c.frozen_token = *rc::gen::inRange<int64_t>(-1, 3);
  return c;
}

bool has_gradients(const TransformerConfig& config) {
  return config.position != PositionType::relative || device() == Device::cpu;
}

TransformerConfig trainable_config(Family family) {
  TransformerConfig config = random_config(family);
  if (!has_gradients(config)) config.position = PositionType::none;
  return config;
}

Transformer random_model(const TransformerConfig& config, uint64_t seed) {
  Transformer model(config, seed, placement());
  Random random(seed, 12345);
  change_weights(model, [&](const std::string&, std::vector<float>& values, const Shape& shape) {
    if (shape.rank() != 1) return;
    for (float& value : values) value += random.uniform(-0.3f, 0.3f);
  });
  return model;
}

LoadOptions loading(Purpose purpose) {
  const Compute compute = activations() == DType::f32 ? Compute::fp32 : Compute::bf16;
  return {.device = device(), .compute = compute, .purpose = purpose};
}

void change_weights(Transformer& model, const ChangeWeights& change) {
  for (const auto& parameter : model.writable_parameters()) {
    std::vector<float> values = floats_of(parameter.tensor);
    change(parameter.name, values, parameter.tensor.shape());
    set_values(parameter.tensor, values);
  }
  Context context(1, model.placement());
  model.weights_changed(context);
  context.queue.wait();
}

std::vector<Compute> all_forms() {
  const Placement cpu;
  std::vector<Compute> forms = ops::computes_for(cpu);
  std::erase_if(forms, [&](Compute compute) {
    try {
      ops::form_for(cpu, compute).check_supported();
      return false;
    } catch (const Error&) {
      return true;
    }
  });
  return forms;
}

Transformer any_form(const Transformer& model) {
  if (device() != Device::cpu || *rc::gen::inRange(0, 4) == 0) return model;
  return model.packed(*rc::gen::elementOf(all_forms()));
}

std::vector<Sentence> random_sentences(const TransformerConfig& config, int count, int longest) {
  const auto tokens = [&](int64_t vocab) {
    const auto length = static_cast<size_t>(*rc::gen::inRange(1, longest));
    return *rc::gen::container<Tokens>(length,
                                       rc::gen::inRange<int32_t>(0, static_cast<int32_t>(vocab)));
  };
  std::vector<Sentence> sentences(static_cast<size_t>(count));
  for (Sentence& sentence : sentences) {
    if (!config.decoder_only()) sentence.source = tokens(config.source_vocab);
    sentence.target = tokens(config.target_vocab);
  }
  return sentences;
}

Batch pack(const std::vector<Sentence>& sentences, const std::vector<size_t>& order,
           const std::vector<int>& filler, const TransformerConfig& config, int32_t prefix) {
  Batch batch;
  batch.first_row.resize(sentences.size());
  int32_t place = 0;
  for (const size_t index : order) {
    const Sentence& sentence = sentences[index];
    const auto number = static_cast<int32_t>(index);
    const int gap = filler[static_cast<size_t>(place) % filler.size()];
    if (!config.decoder_only()) {
      batch.source.add_sequence(sentence.source, {.slot = place, .sentence = number});
      batch.source.add_filler(gap);
    }
    batch.first_row[index] = batch.target.size();
    batch.target.add_sequence(sentence.target, {.slot = place,
                                                .segment = config.decoder_only() ? -1 : place,
                                                .sentence = number,
                                                .prefix = prefix});
    batch.target.add_filler(gap);
    // Any labels do; here the next token, and for the last row the first.
    for (size_t i = 0; i < sentence.target.size(); ++i) {
      batch.labels.push_back(sentence.target[(i + 1) % sentence.target.size()]);
    }
    batch.labels.resize(static_cast<size_t>(batch.target.size()), -1);
    ++place;
  }
  return batch;
}

Batch pack(const std::vector<Sentence>& sentences, const TransformerConfig& config,
           int32_t prefix) {
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  return pack(sentences, order, {0}, config, prefix);
}

Pass training_pass(const Transformer& model, const Batch& batch, Session& session) {
  session.reset();
  Tape tape(session);
  const Memory memory =
      model.config().decoder_only() ? Memory() : model.encode(batch.source, session);
  const Tensor hidden = model.forward(batch.target, memory, session);
  const Tensor loss = model.loss(hidden, batch.labels, {.smoothing = 0.1f}, session);
  Pass pass;
  pass.hidden = floats_of(hidden);
  pass.logits = floats_of(model.logits(hidden, session));
  pass.loss = floats_of(loss)[0];
  if (!has_gradients(model.config())) return pass;
  const Gradients gradients = tape.backward(loss);
  for (const auto& parameter : model.parameters()) {
    const Tensor gradient = gradients.of(parameter.tensor);
    pass.gradients.push_back(gradient.defined() ? floats_of(gradient) : std::vector<float>());
  }
  return pass;
}

std::span<const float> rows_of(const std::vector<float>& matrix, int64_t columns, int64_t row,
                               int64_t count) {
  return std::span(matrix).subspan(static_cast<size_t>(row * columns),
                                   static_cast<size_t>(count * columns));
}

}  // namespace tril::testing
