// int8 on the CPU (kernels/gemm_int8.h): weights in bytes with a scale and a sum per output, and
// inputs rounded to bytes row by row.
#include "tril/base/error.h"
#include "tril/kernels/gemm_int8.h"
#include "tril/ops/forms/cpu_form.h"
#include "tril/ops/forms/forms.h"

namespace tril::ops {
namespace {

constexpr size_t kBytes = 0;   // panels
constexpr size_t kScales = 1;  // [out]
constexpr size_t kSums = 2;    // [out]

struct BytesInput {
  using Product = kernels::GemmInt8;
  const uint8_t* bytes;
  const float* scales;

  BytesInput(Context& context, const Tensor& x) {
    auto* to = context.arena.allocate_array<uint8_t>(x.rows() * kernels::int8_padded(x.columns()));
    auto* scale = context.arena.allocate_array<float>(x.rows());
    kernels::quantize_rows(context.parallel, x.data(), x.rows(), x.columns(), to, scale);
    bytes = to;
    scales = scale;
  }
  Product times(const LinearWeight& linear, int64_t row, int64_t rows, const Tensor& y) const {
    return {.m = rows,
            .n = linear.out,
            .k = linear.in,
            .a = bytes + row * kernels::int8_padded(linear.in),
            .a_scales = scales + row,
            .panels = panels_of(linear).data<int8_t>(),
            .scales = linear.parts[kScales].data(),
            .sums = linear.parts[kSums].data<int32_t>(),
            .bias = bias_of(linear),
            .c = y.data()};
  }
  static void run(const Parallel& parallel, std::span<const Product> products) {
    kernels::gemm_int8(parallel, products);
  }
};

class Int8Form final : public CpuFormOf<BytesInput> {
 public:
  Int8Form() : CpuFormOf(Compute::int8) {}

  void check_terms(int64_t in) const override {
    require(in <= kernels::kInt8MaxTerms, ErrorCode::unsupported, "int8: a weight has ", in,
            " columns, at most ", kernels::kInt8MaxTerms, " can be summed");
  }
  std::vector<Part> parts(int64_t out, int64_t in) const override {
    return {{".panels", {kernels::int8_panel_size(in, out)}, DType::i8},
            {".scales", {out}, DType::f32},
            {".sums", {out}, DType::i32}};
  }

  void unpack_row(const LinearWeight& linear, int64_t row, float* to) const override {
    kernels::unpack_int8_row(panels_of(linear).data<int8_t>(), linear.parts[kScales].data(),
                             linear.in, row, to);
  }

 private:
  Layout layout(int64_t in) const override {
    return {kernels::kInt8Terms, kernels::int8_padded(in) / kernels::kInt8Terms};
  }
  void fill(Context& context, const Tensor& weight, const Tensor& /*bias*/,
            const LinearWeight& to) const override {
    kernels::pack_int8(context.parallel, weight.data(), to.out, to.in,
                       {to.parts[kBytes].data<int8_t>(), to.parts[kScales].data(),
                        to.parts[kSums].data<int32_t>()});
  }
};

}  // namespace

const WeightForm& int8_form() {
  static const Int8Form form;
  return form;
}

}  // namespace tril::ops
