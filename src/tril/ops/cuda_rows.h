// The CUDA half of ops/rows.h: everything was checked and results are there; these upload what the
// host knows and launch the kernels. For the sources of this folder.
#pragma once

#include <cstring>

#include "tril/ops/on_cuda.h"
#include "tril/ops/rows.h"

namespace tril::ops::cuda {

// What a kernel is handed of a tensor; null for an undefined one.
template <class T>
T* memory_of(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  require(tensor.device().type == DeviceType::cuda, ErrorCode::internal, "a tensor ",
          tensor.shape(), " on ", tensor.device(), " was given to an operation on cuda");
  return tensor.on_device<T>();
}

// Tells a launch from others of its kind in the step's trace (device/queue.h), by the tensors it
// reads and the constants it is given: a graph that was kept of one must not run for another.
inline void note(Context& context, const Tensor& tensor) { context.queue.note(tensor.address()); }
template <class Constant>
requires(sizeof(Constant) <= sizeof(uintptr_t)) void note(Context& context, Constant value) {
  uintptr_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  context.queue.note(reinterpret_cast<const void*>(bits));  // NOLINT: compared, never read
}
template <class... Things>
void note_all(Context& context, const Things&... things) {
  (note(context, things), ...);
}

void add(Context& context, const Tensor& a, const Tensor& b, const Tensor& out);
void scale_by(Context& context, const Tensor& factor, const Tensor& x);
void fill(Context& context, float value, const Tensor& out);
void assign(Context& context, const Tensor& from, const Tensor& to);

// `args` holds what kernels/norm.h asks for, on the device.
void norm(Context& context, const kernels::Norm& args, const Tensor& x, const NormResult& result);
// forward.s is what was normed; df only where something was dropped.
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
