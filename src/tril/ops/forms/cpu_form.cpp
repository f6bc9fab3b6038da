#include "tril/ops/forms/cpu_form.h"

#include "tril/base/error.h"
#include "tril/kernels/columns.h"

namespace tril::ops {
namespace {

constexpr size_t kPanels = 0;

template <class T>
Tensor chosen_as(const Tensor& all, std::span<const int32_t> rows, Arena& arena) {
  const Tensor part(arena, {static_cast<int64_t>(rows.size())}, all.dtype());
  const T* from = all.data<T>();
  T* to = part.data<T>();
  for (size_t i = 0; i < rows.size(); ++i) to[i] = from[rows[i]];
  return part;
}

// Of one number per output.
Tensor chosen(const Tensor& all, std::span<const int32_t> rows, Arena& arena) {
  return all.dtype() == DType::i32 ? chosen_as<int32_t>(all, rows, arena)
                                   : chosen_as<float>(all, rows, arena);
}

}  // namespace

const Tensor& panels_of(const LinearWeight& linear) {
  require(linear.parts[kPanels].defined(), ErrorCode::internal, "linear: the weight [", linear.out,
          ", ", linear.in, "] is not packed");
  return linear.parts[kPanels];
}

LinearWeight CpuForm::part_of(Context& context, const LinearWeight& linear,
                              std::span<const int32_t> rows, Arena& arena) const {
  const Tensor& panels = panels_of(linear);
  LinearWeight part{.out = static_cast<int64_t>(rows.size()), .in = linear.in, .form = this};
  const std::vector<Part> wanted = parts(part.out, part.in);
  part.parts[kPanels] = Tensor(arena, wanted[kPanels].shape, wanted[kPanels].type);
  for (size_t i = kPanels + 1; i < wanted.size(); ++i) {
    part.parts[i] = chosen(linear.parts[i], rows, arena);
  }
  if (linear.bias.defined()) part.bias = chosen(linear.bias, rows, arena);
  const Layout units = layout(linear.in);
  kernels::gather_columns(context.parallel, panels.raw(), units.unit_bytes, units.units, rows,
                          part.parts[kPanels].raw());
  return part;
}

}  // namespace tril::ops
