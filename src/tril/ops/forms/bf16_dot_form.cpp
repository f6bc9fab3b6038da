// bf16 on the CPU, multiplied by the processor's own instruction (kernels/gemm_bf16_dot.h): pairs
// of terms lie side by side, and inputs are rounded.
#include "tril/base/error.h"
#include "tril/kernels/gemm_bf16_dot.h"
#include "tril/ops/forms/cpu_form.h"
#include "tril/ops/forms/forms.h"

namespace tril::ops {
namespace {

struct RoundedInput {
  using Product = kernels::GemmBf16Dot;
  const BFloat16* numbers;

  RoundedInput(Context& context, const Tensor& x) {
    auto* to = context.arena.allocate_array<BFloat16>(x.rows() * kernels::bf16_padded(x.columns()));
    kernels::round_rows(context.parallel, x.data(), x.rows(), x.columns(), to);
    numbers = to;
  }
  Product times(const LinearWeight& linear, int64_t row, int64_t rows, const Tensor& y) const {
    return {.m = rows,
            .n = linear.out,
            .k = linear.in,
            .a = numbers + row * kernels::bf16_padded(linear.in),
            .panels = panels_of(linear).data<BFloat16>(),
            .bias = bias_of(linear),
            .c = y.data()};
  }
  static void run(const Parallel& parallel, std::span<const Product> products) {
    kernels::gemm_bf16_dot(parallel, products);
  }
};

class Bf16DotForm final : public CpuFormOf<RoundedInput> {
 public:
  Bf16DotForm() : CpuFormOf(Compute::bf16_dot) {}

  void check_supported() const override {
    require(kernels::has_bf16_dot(), ErrorCode::unsupported, word_for(compute()),
            ": this processor has no bf16 dot products (AVX512_BF16); ", word_for(Compute::bf16),
            " works everywhere");
  }
  std::vector<Part> parts(int64_t out, int64_t in) const override {
    return {{".panels", {kernels::bf16_pair_panel_size(in, out)}, DType::bf16}};
  }

  void unpack_row(const LinearWeight& linear, int64_t row, float* to) const override {
    kernels::unpack_bf16_row(panels_of(linear).data<BFloat16>(), linear.in, row, to);
  }

 private:
  Layout layout(int64_t in) const override {
    return {2 * sizeof(BFloat16), kernels::bf16_padded(in) / 2};
  }
  void fill(Context& context, const Tensor& weight, const Tensor& /*bias*/,
            const LinearWeight& to) const override {
    kernels::pack_bf16_pairs(context.parallel, weight.data(), to.out, to.in,
                             panels_of(to).data<BFloat16>());
  }
};

}  // namespace

const WeightForm& bf16_dot_form() {
  static const Bf16DotForm form;
  return form;
}

}  // namespace tril::ops
