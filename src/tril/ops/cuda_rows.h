// The CUDA half of ops/rows.h: arguments are checked and results allocated; these functions upload
// what the host knows and launch the kernels. For the sources of this folder.
#pragma once

#include "tril/ops/on_cuda.h"
#include "tril/ops/rows.h"

namespace tril::ops::cuda {

inline void check_is_here(const Context& context, const Tensor& tensor) {
  require(tensor.device() == context.device(), ErrorCode::internal, "a tensor ", tensor.shape(),
          " on ", tensor.device(), " was given to an operation on ", context.device());
}
// A tensor's address for a kernel of this context; null for an undefined one.
template <class T>
T* memory_of(const Context& context, const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  check_is_here(context, tensor);
  return tensor.on_device<T>();
}
// The same for one whose rows may lie apart.
template <class T>
T* rows_of(const Context& context, const Tensor& tensor) {
  check_is_here(context, tensor);
  return tensor.rows_on_device<T>();
}

void add(Context& context, const Tensor& a, const Tensor& b, const Tensor& out);
void scale_by(Context& context, const Tensor& factor, const Tensor& x);
void scaled(Context& context, const Tensor& x, float factor, const Tensor& out);
void relative_bias(Context& context, const Tensor& weight, std::span<const int32_t> bucket_of,
                   const Tensor& bias);
void fill(Context& context, float value, const Tensor& out);
void assign(Context& context, const Tensor& from, const Tensor& to);

// `args` holds what kernels/norm.h needs, on the device.
void norm(Context& context, const kernels::Norm& args, const Tensor& x, const NormResult& result);
// forward.s is the input of the norm; df only if something was dropped.
void residual_norm(Context& context, const kernels::Norm& args, const DropoutKey& key,
                   const Tensor& x, const Tensor& f, const ResidualNorm& result);
void residual_norm_gradients(Context& context, const kernels::Norm& args,
                             const ResidualNorm& forward, const Tensor& dy,
                             const ResidualNormGradients& gradients);

void embedding(Context& context, const Lookup& lookup, const Tensor& out);
void lookup_order(Context& context, const Mirrored<int32_t>& ids, const LookupOrder& to);
// `known` may be empty.
void embedding_gradient(Context& context, const Mirrored<int32_t>& ids, float scale,
                        const Tensor& dout, const LookupOrder& known, SliceOfSum slice,
                        const Tensor& dtable);

void activation(Context& context, Activation kind, const Tensor& x, const Tensor& y);
void activation_gradient(Context& context, Activation kind, const Tensor& x, const Tensor& dy,
                         const Tensor& dx);
void gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x, const Tensor& y);
void gated_gradients(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
                     const Tensor& dy, const GatedGradients& gradients);

void dropout(Context& context, const DropoutKey& key, const Tensor& x, const Dropped& dropped);
void dropout_gradient(Context& context, float probability, const Tensor& kept, const Tensor& dy,
                      const Tensor& dx);

void rotary(Context& context, Turn turn, const Tensor& x, const Mirrored<int32_t>& positions,
            const Tensor& table, const Tensor& y);

}  // namespace tril::ops::cuda
