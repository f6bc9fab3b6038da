#include "tril/autograd/functions.h"

#include <algorithm>
#include <array>

namespace tril::autograd {
namespace {

// The recording tape, if it tracks any of the inputs.
template <class... Inputs>
Recording* tape_of(Context& context, const Inputs&... inputs) {
  return context.tape != nullptr && (context.tape->tracks(inputs) || ...) ? context.tape : nullptr;
}

// For a gradient that its operation computed aside, in the lane of sums.
void accumulate_aside(Recording& tape, const Tensor& parameter, const Tensor& gradient) {
  tape.context().aside(Lane::sums, [&] { tape.accumulate(parameter, gradient); });
}

}  // namespace

Tensor add(Context& context, const Tensor& a, const Tensor& b) {
  const Tensor out = ops::add(context, a, b);
  if (Recording* tape = tape_of(context, a, b)) {
    tape->record(out, [=](Recording& t, const Tensor& gradient) {
      t.accumulate(a, gradient, Recording::Ownership::shared);
      t.accumulate(b, gradient, Recording::Ownership::shared);
    });
  }
  return out;
}

Tensor scaled(Context& context, const Tensor& x, float factor) {
  const Tensor y = ops::scaled(context, x, factor);
  if (Recording* tape = tape_of(context, x)) {
    tape->record(y, [=](Recording& t, const Tensor& dy) {
      t.accumulate(x, ops::scaled(t.context(), dy, factor));
    });
  }
  return y;
}

namespace {

void pass_on_to_input(Recording& t, const Tensor& x,
                      std::span<const ops::LinearWeight* const> weights, const Tensor& dy) {
  if (!t.tracks(x)) return;
  const Tensor so_far = t.to_add_to(x);
  if (so_far.defined()) {
    ops::add_linear_input_gradient(t.context(), dy, weights, so_far);
  } else if (weights.size() == 1) {
    t.accumulate(x, ops::linear_input_gradient(t.context(), dy, *weights[0]));
  } else {
    t.accumulate(x, ops::linears_input_gradient(t.context(), dy, weights));
  }
}

void pass_on_linear(Recording& t, const Tensor& x, const ops::LinearWeight& weight,
                    const Tensor& gradient) {
  // Gradients of sums in fp32 are rounded as activations are.
  const Tensor dy = ops::as_activations(t.context(), gradient);
  if (t.tracks(weight.weight)) {
    t.context().aside(Lane::products, [&] {
      t.accumulate(weight.weight, ops::linear_weight_gradient(t.context(), dy, x));
    });
  }
  if (t.tracks(weight.bias)) {
    t.context().aside(
        Lane::sums, [&] { t.accumulate(weight.bias, ops::linear_bias_gradient(t.context(), dy)); });
  }
  const ops::LinearWeight* const weights[] = {&weight};
  pass_on_to_input(t, x, weights, dy);
}

// Stacked weights whose outputs' gradients form one matrix are passed on as one layer.
void pass_on_stacked(Recording& t, const Tensor& x,
                     std::span<const ops::LinearWeight* const> weights, const Tensor& dy) {
  const auto accumulate_parts = [&](const Tensor& gradient, Tensor ops::LinearWeight::*part) {
    int64_t begin = 0;
    for (const ops::LinearWeight* weight : weights) {
      t.accumulate(weight->*part, gradient.slice(begin, begin + weight->out));
      begin += weight->out;
    }
  };
  t.context().aside(Lane::products, [&] {
    accumulate_parts(ops::linear_weight_gradient(t.context(), dy, x), &ops::LinearWeight::weight);
  });
  if (weights[0]->bias.defined()) {
    t.context().aside(Lane::sums, [&] {
      accumulate_parts(ops::linear_bias_gradient(t.context(), dy), &ops::LinearWeight::bias);
    });
  }
  pass_on_to_input(t, x, weights, dy);
}

void record_linears(Context& context, const Tensor& x,
                    std::span<const ops::LinearWeight* const> weights, std::span<const Tensor> y) {
  Recording* tape = nullptr;
  for (const ops::LinearWeight* weight : weights) {
    if (tape == nullptr) tape = tape_of(context, x, weight->weight, weight->bias);
  }
  if (tape == nullptr) return;
  std::array<const ops::LinearWeight*, Recording::kMostOutputs> kept{};
  std::copy(weights.begin(), weights.end(), kept.begin());
  tape->record_all(y, [=](Recording& t, std::span<const Tensor> gradients) {
    const std::span<const ops::LinearWeight* const> all(kept.data(), gradients.size());
    const bool wanted = std::all_of(all.begin(), all.end(), [&](const ops::LinearWeight* weight) {
      return t.tracks(weight->weight);
    });
    if (all.size() > 1 && wanted && ops::are_stacked(t.context(), all)) {
      const Tensor whole = Tensor::joined(gradients);
      if (whole.defined()) return pass_on_stacked(t, x, all, whole);
    }
    for (size_t i = all.size(); i-- > 0;) {
      if (gradients[i].defined()) pass_on_linear(t, x, *all[i], gradients[i]);
    }
  });
}

}  // namespace

void linears(Context& context, const Tensor& x, std::span<const ops::LinearWeight* const> weights,
             std::span<Tensor> y) {
  ops::linears(context, x, weights, y);
  record_linears(context, x, weights, y);
}

Tensor linear(Context& context, const Tensor& x, const ops::LinearWeight& linear) {
  const ops::LinearWeight* const weights[] = {&linear};
  Tensor y[1];
  autograd::linears(context, x, weights, y);
  return y[0];
}

Tensor linear_relu(Context& context, const Tensor& x, const ops::LinearWeight& linear) {
  constexpr auto kRelu = ops::Activation::relu;
  if (!ops::has_linear_relu(context, linear)) {
    return activation(context, kRelu, autograd::linear(context, x, linear));
  }
  const Tensor y = ops::linear_relu(context, x, linear);
  if (Recording* tape = tape_of(context, x, linear.weight, linear.bias)) {
    tape->record(y, [=, weight = &linear](Recording& t, const Tensor& dy) {
      // The result is above zero exactly where the sum was, so y can stand for the input of the
      // ReLU.
      pass_on_linear(t, x, *weight, ops::activation_gradient(t.context(), kRelu, y, dy));
    });
  }
  return y;
}

Tensor logits(Context& context, const Tensor& x, const ops::LinearWeight& linear) {
  const Tensor y = ops::linear(context, x, linear, ops::LinearOutput::sums);
  const ops::LinearWeight* const weights[] = {&linear};
  record_linears(context, x, weights, {&y, 1});
  return y;
}

Tensor norm(Context& context, ops::NormKind kind, float epsilon, const Tensor& x,
            const Tensor& weight, const Tensor& bias) {
  const ops::NormResult result = ops::norm(context, kind, epsilon, x, weight, bias);
  if (Recording* tape = tape_of(context, x, weight, bias)) {
    tape->record(result.y, [=, stats = result.stats](Recording& t, const Tensor& dy) {
      const ops::NormGradients gradients =
          ops::norm_gradients(t.context(), kind, epsilon, x, weight, bias, stats, dy);
      t.accumulate(x, gradients.dx);
      accumulate_aside(t, weight, gradients.dweight);
      accumulate_aside(t, bias, gradients.dbias);
    });
  }
  return result.y;
}

Tensor residual_norm(Context& context, ops::NormKind kind, float epsilon, const Tensor& x,
                     const Tensor& f, const ops::DropoutKey& key, const Tensor& weight,
                     const Tensor& bias) {
  const ops::ResidualNorm result =
      ops::residual_norm(context, kind, epsilon, x, f, key, weight, bias);
  if (Recording* tape = tape_of(context, x, f, weight, bias)) {
    tape->record(result.y, [=](Recording& t, const Tensor& dy) {
      const ops::ResidualNormGradients gradients =
          ops::residual_norm_gradients(t.context(), kind, epsilon, result, weight, bias, dy);
      if (gradients.df.defined()) {
        t.accumulate(x, gradients.dx);
        t.accumulate(f, gradients.df);
      } else {
        t.accumulate(x, gradients.dx, Recording::Ownership::shared);
        t.accumulate(f, gradients.dx, Recording::Ownership::shared);
      }
      accumulate_aside(t, weight, gradients.dweight);
      accumulate_aside(t, bias, gradients.dbias);
    });
  }
  return result.y;
}

namespace {

// How a table was looked up, and its gradient rule.
struct LookedUp {
  Tensor table{};  // undefined where it has no gradient
  Mirrored<int32_t> ids{};
  ops::LookupOrder order{};
  float scale = 1.0f;

  void pass_on(Recording& t, const Tensor& dout) const {
    if (!table.defined()) return;
    const Tensor so_far = t.to_add_to(table);
    if (so_far.defined()) {
      ops::add_embedding_gradient(t.context(), ids, scale, dout, order, so_far);
    } else {
      t.accumulate(table,
                   ops::embedding_gradient(t.context(), ids, table.shape()[0], scale, dout, order));
    }
  }
};
LookedUp looked_up(Recording& tape, const Tensor& table, const Mirrored<int32_t>& ids,
                   float scale) {
  if (!tape.tracks(table)) return {};
  LookedUp result{table, ids, {}, scale};
  tape.context().aside(
      Lane::sums, [&] { result.order = ops::lookup_order(tape.context(), ids, table.shape()[0]); });
  return result;
}

}  // namespace

Tensor embedding(Context& context, const ops::Lookup& lookup) {
  const Tensor out = ops::embedding(context, lookup);
  if (Recording* tape = tape_of(context, lookup.table, lookup.positions)) {
    const LookedUp table = looked_up(*tape, lookup.table, lookup.ids, lookup.scale);
    const LookedUp positions = looked_up(*tape, lookup.positions, lookup.position_ids, 1.0f);
    tape->record(out, [=](Recording& t, const Tensor& dout) {
      t.context().aside(Lane::sums, [&] {
        table.pass_on(t, dout);
        positions.pass_on(t, dout);
      });
    });
  }
  return out;
}

Tensor activation(Context& context, ops::Activation kind, const Tensor& x) {
  const Tensor y = ops::activation(context, kind, x);
  if (Recording* tape = tape_of(context, x)) {
    tape->record(y, [=](Recording& t, const Tensor& dy) {
      t.accumulate(x, ops::activation_gradient(t.context(), kind, x, dy));
    });
  }
  return y;
}

Tensor gated(Context& context, ops::Activation kind, const Tensor& gate, const Tensor& x) {
  const Tensor y = ops::gated(context, kind, gate, x);
  if (Recording* tape = tape_of(context, gate, x)) {
    tape->record(y, [=](Recording& t, const Tensor& dy) {
      const ops::GatedGradients gradients = ops::gated_gradients(t.context(), kind, gate, x, dy);
      t.accumulate(gate, gradients.dgate);
      t.accumulate(x, gradients.dx);
    });
  }
  return y;
}

Tensor dropout(Context& context, const ops::DropoutKey& key, const Tensor& x) {
  if (key.probability == 0.0f) return x;
  const ops::Dropped dropped = ops::dropout(context, key, x);
  if (Recording* tape = tape_of(context, x)) {
    tape->record(dropped.y, [=, probability = key.probability, kept = dropped.kept](
                                Recording& t, const Tensor& dy) {
      t.accumulate(x, ops::dropout_gradient(t.context(), probability, kept, dy));
    });
  }
  return dropped.y;
}

Tensor rotary(Context& context, const Tensor& x, const Mirrored<int32_t>& positions,
              const Tensor& table) {
  const Tensor y = ops::rotary(context, ops::Turn::forwards, x, positions, table);
  if (Recording* tape = tape_of(context, x)) {
    tape->record(y, [=](Recording& t, const Tensor& dy) {
      t.accumulate(x, ops::rotary(t.context(), ops::Turn::backwards, dy.reshaped(x.shape()),
                                  positions, table));
    });
  }
  return y;
}

Tensor relative_bias(Context& context, const Tensor& weight, std::span<const int32_t> bucket_of) {
  const Tensor bias(context.arena, {weight.shape()[1], static_cast<int64_t>(bucket_of.size())},
                    weight.dtype());
  ops::relative_bias(context, weight, bucket_of, bias);
  if (Recording* tape = tape_of(context, weight)) {
    tape->record(bias, [=, buckets = weight.shape()[0]](Recording& t, const Tensor& dbias) {
      t.accumulate(weight, ops::relative_bias_gradient(t.context(), dbias, bucket_of, buckets));
    });
  }
  return bias;
}

Tensor attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                 const ops::AttentionPlan& plan, const ops::AttentionOptions& options) {
  const ops::AttentionResult result = ops::attention(context, q, k, v, plan, options);
  if (Recording* tape = tape_of(context, q, k, v)) {
    tape->record(result.out, [=](Recording& t, const Tensor& dout) {
      const bool learnt = options.bias.defined() && t.tracks(options.bias);
      const ops::AttentionGradients gradients =
          ops::attention_gradients(t.context(), q, k, v, result, dout, plan, options,
                                   learnt ? ops::BiasGradient::wanted : ops::BiasGradient::none);
      if (learnt) t.accumulate(options.bias, gradients.dbias);
      t.accumulate(q, gradients.dq);
      t.accumulate(k, gradients.dk);
      t.accumulate(v, gradients.dv);
    });
  }
  return result.out;
}

Tensor projected_loss(Context& context, const Tensor& x, const ops::LinearWeight& output,
                      const Mirrored<int32_t>& labels, const LossOptions& options) {
  Recording* tape = tape_of(context, x, output.weight, output.bias);
  const ops::LossResult result =
      ops::projected_loss(context, x, output, labels, options,
                          tape != nullptr ? ops::LossGradients::wanted : ops::LossGradients::none);
  if (tape != nullptr) {
    tape->record(result.loss, [=, weight = &output](Recording& t, const Tensor& dloss) {
      for (const Tensor& gradient : {result.dx, result.dweight, result.dbias}) {
        if (gradient.defined()) ops::scale_by(t.context(), dloss, gradient);
      }
      t.accumulate(x, result.dx);
      t.accumulate(weight->weight, result.dweight);
      if (weight->bias.defined()) t.accumulate(weight->bias, result.dbias);
    });
  }
  return result.loss;
}

}  // namespace tril::autograd
