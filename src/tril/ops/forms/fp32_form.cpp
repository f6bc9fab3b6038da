// fp32 on the CPU: panels of the weight's transpose; for training also those of the weight itself,
// which gradients read. What is not kept is packed for each use.
#include "tril/kernels/elementwise.h"
#include "tril/ops/forms/cpu_form.h"
#include "tril/ops/forms/forms.h"

namespace tril::ops {
namespace {

constexpr size_t kForward = 0;   // panels of Wᵀ
constexpr size_t kBackward = 1;  // panels of W

const float* forward_panels(Context& context, const LinearWeight& linear) {
  if (linear.parts[kForward].defined()) return linear.parts[kForward].data();
  auto* packed = context.arena.allocate_array<float>(kernels::panel_size(linear.in, linear.out));
  kernels::pack_panels_transposed(context.parallel, linear.weight.data(), linear.in, linear.out,
                                  packed);
  return packed;
}
const float* backward_panels(Context& context, const LinearWeight& linear) {
  if (linear.parts[kBackward].defined()) return linear.parts[kBackward].data();
  auto* packed = context.arena.allocate_array<float>(kernels::panel_size(linear.out, linear.in));
  kernels::pack_panels(context.parallel, linear.weight.data(), linear.out, linear.in, packed);
  return packed;
}

struct Fp32Input {
  using Product = kernels::Gemm;
  Context& context;
  const float* x;

  Fp32Input(Context& in, const Tensor& rows) : context(in), x(rows.data()) {}
  Product times(const LinearWeight& linear, int64_t row, int64_t rows, const Tensor& y) const {
    return {.m = rows,
            .n = linear.out,
            .k = linear.in,
            .a = x + row * linear.in,
            .panels = forward_panels(context, linear),
            .bias = bias_of(linear),
            .c = y.data()};
  }
  static void run(const Parallel& parallel, std::span<const Product> products) {
    kernels::gemm(parallel, products);
  }
};

class Fp32Form final : public CpuFormOf<Fp32Input> {
 public:
  Fp32Form() : CpuFormOf(Compute::fp32) {}

  std::vector<Part> parts(int64_t out, int64_t in) const override {
    return {{".panels", {kernels::panel_size(in, out)}, DType::f32}};
  }
  void allocate_for_gradients(Arena& arena, LinearWeight& linear) const override {
    if (!linear.parts[kForward].defined() || linear.parts[kBackward].defined()) return;
    linear.parts[kBackward] = Tensor(arena, {kernels::panel_size(linear.out, linear.in)});
  }

  void unpack_row(const LinearWeight& linear, int64_t row, float* to) const override {
    kernels::unpack_column(panels_of(linear).data(), linear.in, row, to);
  }

  void input_gradient(Context& context, const Tensor& dy,
                      std::span<const LinearWeight* const> weights, const Tensor& dx,
                      SliceOfSum slice) const override {
    const LinearWeight& linear = *weights[0];
    const Arena::Scope scratch(context.arena);
    const bool adds = slice == SliceOfSum::further;
    const Tensor product = adds ? Tensor(context.arena, dx.shape()) : dx;
    kernels::gemm(context.parallel, kernels::Gemm{.m = dy.shape()[0],
                                                  .n = linear.in,
                                                  .k = linear.out,
                                                  .a = dy.data(),
                                                  .panels = backward_panels(context, linear),
                                                  .c = product.data()});
    if (adds) kernels::add(context.parallel, dx.size(), dx.data(), product.data(), dx.data());
  }

 private:
  Layout layout(int64_t in) const override { return {sizeof(float), in}; }
  void fill(Context& context, const Tensor& weight, const Tensor& /*bias*/,
            const LinearWeight& to) const override {
    if (to.parts[kForward].defined()) {
      kernels::pack_panels_transposed(context.parallel, weight.data(), to.in, to.out,
                                      to.parts[kForward].data());
    }
    if (to.parts[kBackward].defined()) {
      kernels::pack_panels(context.parallel, weight.data(), to.out, to.in,
                           to.parts[kBackward].data());
    }
  }
};

}  // namespace

const WeightForm& fp32_form() {
  static const Fp32Form form;
  return form;
}

}  // namespace tril::ops
