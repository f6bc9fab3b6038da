// Operations on rows [row, columns]: norms, lookups, activations, dropout, rotary positions, sums.
// Results have the shape and type of their inputs, unless it says otherwise; gradients of weights
// are f32. Shapes or types that do not fit each other raise `shape_mismatch`.
#pragma once

#include "tril/kernels/activation.h"
#include "tril/kernels/norm.h"
#include "tril/kernels/rotary.h"
#include "tril/ops/linear.h"
#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

using kernels::Activation;
using kernels::NormKind;
using kernels::Turn;

Tensor add(Context& context, const Tensor& a, const Tensor& b);
void add_into(Context& context, const Tensor& from, const Tensor& to);   // to += from
void scale_by(Context& context, const Tensor& factor, const Tensor& x);  // x *= factor [1]
Tensor scaled(Context& context, const Tensor& x, float factor);          // factor x
Tensor filled(Context& context, const Shape& shape, float value, DType type = DType::f32);
// to = from, element by element, rounded if its type is narrower.
void assign(Context& context, const Tensor& from, const Tensor& to);
// x itself, or a copy if its rows lie apart.
Tensor dense(Context& context, const Tensor& x);
// x itself, or rounded to the type of activations.
Tensor as_activations(Context& context, const Tensor& x);

struct NormResult {
  Tensor y;
  Tensor stats;  // [row, 2]
};
// On a device dweight and dbias are computed aside. dbias is undefined without a bias.
struct NormGradients {
  Tensor dx, dweight, dbias;
};
NormResult norm(Context& context, NormKind kind, float epsilon, const Tensor& x,
                const Tensor& weight, const Tensor& bias);
NormGradients norm_gradients(Context& context, NormKind kind, float epsilon, const Tensor& x,
                             const Tensor& weight, const Tensor& bias, const Tensor& stats,
                             const Tensor& dy);

// out[row] = scale table[ids[row]] + positions[position_ids[row]]; no positions when undefined.
// On the CPU a row is read from `table` or, if that is undefined, unpacked from `packed`; on CUDA
// it is read where the form of `packed` has it. Where activations are bf16, what is read is
// rounded.
struct Lookup {
  Mirrored<int32_t> ids;
  Tensor table;  // [entries, columns]
  const LinearWeight* packed = nullptr;
  float scale = 1.0f;
  Mirrored<int32_t> position_ids;
  Tensor positions;  // [positions, columns] or undefined
};
Tensor embedding(Context& context, const Lookup& lookup);
// Rows sorted by the entry they look up, for gradients. This depends on ids alone, so on CUDA it
// can be computed long before it is used; on the CPU the gradient sorts by itself, and this is
// empty.
struct LookupOrder {
  Tensor order{}, starts{};  // i32: [row], [entries + 1]
};
LookupOrder lookup_order(Context& context, const Mirrored<int32_t>& ids, int64_t entries);
// [entries, columns].
Tensor embedding_gradient(Context& context, const Mirrored<int32_t>& ids, int64_t entries,
                          float scale, const Tensor& dout, const LookupOrder& known = {});
// The same, added to `dtable`.
void add_embedding_gradient(Context& context, const Mirrored<int32_t>& ids, float scale,
                            const Tensor& dout, const LookupOrder& order, const Tensor& dtable);

Tensor activation(Context& context, Activation kind, const Tensor& x);
Tensor activation_gradient(Context& context, Activation kind, const Tensor& x, const Tensor& dy);
Tensor gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x);
struct GatedGradients {
  Tensor dgate, dx;
};
GatedGradients gated_gradients(Context& context, Activation kind, const Tensor& gate,
                               const Tensor& x, const Tensor& dy);

// What determines a dropout mask: see kernels/dropout.h.
struct DropoutKey {
  float probability = 0.0f;
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t site = 0;
  Mirrored<int32_t> sentences;  // [row]
  Mirrored<int32_t> positions;  // [row]
};
struct Dropped {
  Tensor y;
  Tensor kept;  // i8: one bit per feature, set if it was kept
};
Dropped dropout(Context& context, const DropoutKey& key, const Tensor& x);
// The gradient of x: the same function on dy, from the stored bits.
Tensor dropout_gradient(Context& context, float probability, const Tensor& kept, const Tensor& dy);

// The end of a post-norm layer in one operation: y = norm(s), s = x + dropout(f), with the bits of
// add(), dropout() and norm() one after the other. Nothing is dropped if the probability is 0.
struct ResidualNorm {
  Tensor s{}, y{};
  Tensor stats{};            // as in NormResult
  Tensor kept{};             // as in Dropped, or undefined
  float probability = 0.0f;  // of the dropout
};
ResidualNorm residual_norm(Context& context, NormKind kind, float epsilon, const Tensor& x,
                           const Tensor& f, const DropoutKey& key, const Tensor& weight,
                           const Tensor& bias);
struct ResidualNormGradients {
  Tensor dx;
  Tensor df;  // undefined if nothing was dropped: then it equals dx
  Tensor dweight, dbias;
};
ResidualNormGradients residual_norm_gradients(Context& context, NormKind kind, float epsilon,
                                              const ResidualNorm& forward, const Tensor& weight,
                                              const Tensor& bias, const Tensor& dy);

// x [row, heads, head_dim], whose rows may lie apart on CUDA; table as kernels::fill_rotary_table
// makes it.
Tensor rotary(Context& context, Turn turn, const Tensor& x, const Mirrored<int32_t>& positions,
              const Tensor& table);

// The learnt bias of attention by distance (Raffel et al., arXiv 1910.10683): which of `buckets`
// the distance key - query belongs to. `both` ways, half of the buckets are for keys that come
// later; otherwise later keys share the bucket of distance 0. In either direction half of the
// buckets are for one distance each, the others grow logarithmically up to `furthest`.
enum class BiasDirections { back, both };
int64_t relative_bucket(int64_t distance, BiasDirections directions, int64_t buckets,
                        int64_t furthest);
// Makes the bias of ops::AttentionOptions, [heads, offsets], from weight [buckets, heads]: entry
// (h, i) is that of bucket_of[i].
void relative_bias(Context& context, const Tensor& weight, std::span<const int32_t> bucket_of,
                   const Tensor& bias);
// [buckets, heads]: for each the sum of dbias [heads, offsets] over its entries, one chain of
// additions, ascending. On the CPU.
Tensor relative_bias_gradient(Context& context, const Tensor& dbias,
                              std::span<const int32_t> bucket_of, int64_t buckets);

}  // namespace tril::ops
