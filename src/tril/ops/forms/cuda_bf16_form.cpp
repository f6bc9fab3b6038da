// bf16 on CUDA: the weight rounded, [round_up(out, 64), round_up(in, 64)] with zeros behind it, and
// its bias rounded, [round_up(out, 64)]. It serves gradients too, so training needs nothing else of
// it: the optimiser writes both whenever it writes the weight. What is not kept is rounded for each
// use.
#include "tril/base/error.h"
#include "tril/ops/forms/cuda_form.h"
#include "tril/ops/forms/forms.h"

namespace tril::ops {
namespace {

constexpr size_t kWeight = 0;
constexpr size_t kBias = 1;

// Whether one begins where the other ends.
bool follows(const Tensor& next, const Tensor& before) {
  const int64_t bytes = before.size() * size_of(DType::bf16);
  return next.address() == static_cast<const char*>(before.address()) + bytes;
}
bool follows(const LinearWeight& next, const LinearWeight& before) {
  const bool biased = next.parts[kBias].defined();
  return next.in == before.in && follows(next.parts[kWeight], before.parts[kWeight]) &&
         before.parts[kBias].defined() == biased && next.bias.defined() == biased &&
         before.bias.defined() == biased &&
         (!biased || follows(next.parts[kBias], before.parts[kBias]));
}

class CudaBf16Form final : public CudaForm {
 public:
  CudaBf16Form() : CudaForm(Compute::bf16, DType::bf16) {}

  std::vector<Part> parts(int64_t out, int64_t in) const override {
    return {{".panels", {padded_size(out), padded_size(in)}, DType::bf16}};
  }
  void allocate(Arena& arena, LinearWeight& linear) const override {
    WeightForm::allocate(arena, linear);
    if (!linear.bias.defined() || linear.parts[kBias].defined()) return;
    linear.parts[kBias] = Tensor(arena, {padded_size(linear.out)}, DType::bf16);
  }

  Rows rows(const LinearWeight& linear) const override {
    if (!linear.parts[kWeight].defined()) return WeightForm::rows(linear);
    return {linear.parts[kWeight], padded_size(linear.in)};
  }
  Tensor rounded(const LinearWeight& linear, const Tensor& parameter) const override {
    if (linear.weight.address() == parameter.address()) return linear.parts[kWeight];
    const bool is_bias = linear.bias.defined() && linear.bias.address() == parameter.address();
    return is_bias ? linear.parts[kBias] : Tensor();
  }

  // Of outputs that need no padding.
  WeightStack stack_for(Arena& arena, std::span<const int64_t> outs, int64_t in) const override {
    int64_t total = 0;
    for (const int64_t out : outs) {
      if (out != padded_size(out)) return {};
      total += out;
    }
    WeightStack stack;
    stack.room[kWeight] = Tensor(arena, {total, padded_size(in)}, DType::bf16);
    stack.room[kBias] = Tensor(arena, {total}, DType::bf16);
    return stack;
  }
  void place(WeightStack& stack, LinearWeight& linear) const override {
    if (!stack.room[kWeight].defined()) return;
    const auto take = [&](size_t part) {
      const int64_t begin = stack.taken[part];
      stack.taken[part] += linear.out;
      return stack.room[part].slice(begin, stack.taken[part]);
    };
    if (!linear.parts[kWeight].defined()) linear.parts[kWeight] = take(kWeight);
    if (linear.bias.defined()) linear.parts[kBias] = take(kBias);
  }
  bool are_stacked(std::span<const LinearWeight* const> weights) const override {
    for (size_t i = 0; i < weights.size(); ++i) {
      const LinearWeight& linear = *weights[i];
      if (!linear.parts[kWeight].defined() || linear.out != padded_size(linear.out)) return false;
      if (i > 0 && !follows(linear, *weights[i - 1])) return false;
    }
    return !weights.empty();
  }

 protected:
  CudaWeight weight_of(Context& context, const LinearWeight& linear) const override {
    CudaWeight weight{.data = nullptr,
                      .stride = padded_size(linear.in),
                      .out = linear.out,
                      .in = linear.in,
                      .rows = padded_size(linear.out)};
    const Tensor& kept = linear.parts[kWeight];
    if (kept.defined()) {
      require(kept.size() == weight.stride * weight.rows, ErrorCode::shape_mismatch,
              "linear: the packed weight has ", kept.size(), " elements, expected ", weight.rows,
              " x ", weight.stride);
      weight.data = in_memory(context, "the packed weight", kept, DType::bf16);
      return weight;
    }
    auto* rounded = context.arena.allocate_array<BFloat16>(weight.stride * weight.rows);
    cuda_round_weight(context, linear.weight, linear, rounded);
    weight.data = rounded;
    return weight;
  }

  const void* bias_of(Context& context, const LinearWeight& linear) const override {
    const Tensor& kept = linear.parts[kBias];
    if (kept.defined()) {
      require(kept.size() == padded_size(linear.out), ErrorCode::shape_mismatch,
              "linear: the rounded bias has ", kept.size(), " entries, expected ",
              padded_size(linear.out));
      return in_memory(context, "the rounded bias", kept, DType::bf16);
    }
    if (!linear.bias.defined()) return nullptr;
    auto* rounded = context.arena.allocate_array<BFloat16>(padded_size(linear.out));
    cuda_round_bias(context, linear.bias, linear, rounded);
    return rounded;
  }

 private:
  static BFloat16* filled(const Context& context, std::string_view what, const Tensor& part) {
    return static_cast<BFloat16*>(in_memory<void*>(context, what, part, DType::bf16));
  }
  void fill(Context& context, const Tensor& weight, const Tensor& bias,
            const LinearWeight& to) const override {
    if (to.parts[kWeight].defined()) {
      cuda_round_weight(context, weight, to,
                        filled(context, "the packed weight", to.parts[kWeight]));
    }
    if (to.parts[kBias].defined()) {
      cuda_round_bias(context, bias, to, filled(context, "the rounded bias", to.parts[kBias]));
    }
  }
};

}  // namespace

const WeightForm& cuda_bf16_form() {
  static const CudaBf16Form form;
  return form;
}

}  // namespace tril::ops
