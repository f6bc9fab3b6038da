// bf16 on the CPU, as storage: the panels of fp32, rounded once, and products whose chains are
// those of fp32.
#include "tril/ops/forms/cpu_form.h"
#include "tril/ops/forms/forms.h"

namespace tril::ops {
namespace {

struct Bf16Input {
  using Product = kernels::GemmOf<BFloat16>;
  const float* x;

  Bf16Input(Context& /*context*/, const Tensor& rows) : x(rows.data()) {}
  Product times(const LinearWeight& linear, int64_t row, int64_t rows, const Tensor& y) const {
    return {.m = rows,
            .n = linear.out,
            .k = linear.in,
            .a = x + row * linear.in,
            .panels = panels_of(linear).data<BFloat16>(),
            .bias = bias_of(linear),
            .c = y.data()};
  }
  static void run(const Parallel& parallel, std::span<const Product> products) {
    kernels::gemm(parallel, products);
  }
};

class Bf16Form final : public CpuFormOf<Bf16Input> {
 public:
  Bf16Form() : CpuFormOf(Compute::bf16) {}

  std::vector<Part> parts(int64_t out, int64_t in) const override {
    return {{".panels", {kernels::panel_size(in, out)}, DType::bf16}};
  }

  void unpack_row(const LinearWeight& linear, int64_t row, float* to) const override {
    kernels::unpack_column(panels_of(linear).data<BFloat16>(), linear.in, row, to);
  }

 private:
  Layout layout(int64_t in) const override { return {sizeof(BFloat16), in}; }
  void fill(Context& context, const Tensor& weight, const Tensor& /*bias*/,
            const LinearWeight& to) const override {
    const Arena::Scope scratch(context.arena);
    const Tensor& rounded = panels_of(to);
    auto* panels = context.arena.allocate_array<float>(rounded.size());
    kernels::pack_panels_transposed(context.parallel, weight.data(), to.in, to.out, panels);
    kernels::round_panels(context.parallel, panels, rounded.size(), rounded.data<BFloat16>());
  }
};

}  // namespace

const WeightForm& bf16_form() {
  static const Bf16Form form;
  return form;
}

}  // namespace tril::ops
