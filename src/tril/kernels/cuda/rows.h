// The kernels on rows, on CUDA: norms, embeddings, activations, dropout, rotary positions, sums,
// the loss and the optimiser. What each computes is said in the header of the same name in
// kernels/; here is the CUDA form, with its order.
//
// T is float or BFloat16 (both instantiated): the type of activations. Everything is computed in
// f32 and rounded once where it is stored, also inside a fused kernel where the separate ones would
// round. A row depends on that row alone; every sum over columns has an order that the number of
// columns alone decides, every sum over rows one that the number of rows alone decides. No atomic
// operation on floating-point numbers. All pointers are to device memory.
// Kernels neither allocate nor throw. Sizes of zero are legal and do nothing.
#pragma once

#include <cstdint>

#include "tril/base/dtype.h"
#include "tril/base/stream.h"
#include "tril/kernels/activation.h"
#include "tril/kernels/norm.h"

namespace tril::kernels::cuda {

// ---- elementwise --------------------------------------------------------------------------------
template <class T>
void add(Stream stream, int64_t size, const T* a, const T* b, T* out);  // out may be a or b
template <class T>
void scale(Stream stream, int64_t size, const float* factor, T* x);  // x *= *factor
template <class T>
void fill(Stream stream, int64_t size, float value, T* out);
// Between types: rounds, or widens exactly.
template <class From, class To>
void convert(Stream stream, int64_t size, const From* from, To* to);
// to [to_rows, to_columns] = from [rows, columns] rounded, zeros beyond: weights as products read
// them. Both dense.
void round_padded(Stream stream, const float* from, int64_t rows, int64_t columns, BFloat16* to,
                  int64_t to_rows, int64_t to_columns);

// ---- norms --------------------------------------------------------------------------------------
// Weight and bias are f32 (norm.weight and norm.bias point to device memory). stats [rows, 2].
template <class T>
void norm_forward(Stream stream, const Norm& norm, const T* x, T* y, float* stats);
// `partial` has room for norm_backward_partial() floats.
int64_t norm_backward_partial(int64_t rows, int64_t columns);
template <class T>
void norm_backward(Stream stream, const Norm& norm, const T* x, const float* stats, const T* dy,
                   T* dx, float* dweight, float* dbias, float* partial);

// ---- embeddings ---------------------------------------------------------------------------------
// out = round(fma(table, scale, position)); the table in the type of activations, columns apart.
template <class T>
struct Embedding {
  int64_t rows = 0;
  int64_t columns = 0;
  float scale = 1.0f;
  const int32_t* ids = nullptr;  // [rows]
  const T* table = nullptr;      // [entries, table_stride]
  int64_t table_stride = 0;
  const int32_t* position_ids = nullptr;  // [rows], or null for no positions
  const float* position_table = nullptr;  // [positions, columns], f32
};
template <class T>
void embedding_forward(Stream stream, const Embedding<T>& args, T* out);
// Sorts rows stably by id on the device. order [rows]; starts [entries + 1]; workspace of
// sort_by_id_workspace() bytes. No atomics whose order could be seen.
int64_t sort_by_id_workspace(int64_t rows, int64_t entries);
void sort_by_id(Stream stream, const int32_t* ids, int64_t rows, int64_t entries, int32_t* order,
                int32_t* starts, void* workspace);
// dtable [entries, columns], f32: scale times the sum over the rows that looked an entry up,
// ascending; zero for the others. adds: dtable += instead.
template <class T>
void embedding_backward(Stream stream, const int32_t* order, const int32_t* starts, const T* dout,
                        float scale, int64_t entries, int64_t columns, float* dtable, bool adds);

// ---- activations --------------------------------------------------------------------------------
template <class T>
void activation_forward(Stream stream, Activation kind, int64_t size, const T* x, T* y);
template <class T>
void activation_backward(Stream stream, Activation kind, int64_t size, const T* x, const T* dy,
                         T* dx);
template <class T>
void gated_forward(Stream stream, Activation kind, int64_t size, const T* gate, const T* x, T* y);
template <class T>
void gated_backward(Stream stream, Activation kind, int64_t size, const T* gate, const T* x,
                    const T* dy, T* dgate, T* dx);

// ---- dropout ------------------------------------------------------------------------------------
// The very masks of the CPU (kernels/dropout.h). Seed and step are read on the device.
struct DropoutSeed {
  uint64_t seed = 0;
  uint32_t step = 0;
};
struct Dropout {
  int64_t rows = 0;
  int64_t columns = 0;
  float probability = 0.0f;
  const DropoutSeed* seed = nullptr;
  uint32_t site = 0;
  const int32_t* sentences = nullptr;  // [rows]
  const int32_t* positions = nullptr;  // [rows]
};
template <class T>
void dropout(Stream stream, const Dropout& args, const T* x, T* y, uint8_t* kept);
template <class T>
void dropout_by_bits(Stream stream, int64_t rows, int64_t columns, float probability,
                     const uint8_t* kept, const T* x, T* y);

// y = norm(s), s = x + dropout(f), in one pass with the roundings of three: what a post-norm layer
// ends with. A null `args.seed` means no dropout, and no `kept`.
template <class T>
void residual_norm_forward(Stream stream, const Norm& norm, const Dropout& args, const T* x,
                           const T* f, T* s, T* y, float* stats, uint8_t* kept);

// ---- rotary -------------------------------------------------------------------------------------
template <class T>
struct Rotary {
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  const int32_t* positions = nullptr;
  const float* table = nullptr;
  float sign = 1.0f;  // -1 turns backwards
};
template <class T>
void rotary(Stream stream, const Rotary<T>& args, const T* x, T* y);

// ---- softmax over the vocabulary and the loss ---------------------------------------------------
// logits f32 [rows, stride], the first `vocab` of a row count.
void softmax_normalisers(Stream stream, const float* logits, int64_t rows, int64_t vocab,
                         int64_t stride, float* norms);
// out [rows, vocab] dense.
void subtract_rows(Stream stream, const float* logits, const float* norms, int64_t rows,
                   int64_t vocab, int64_t stride, float* out);
struct CrossEntropy {
  int64_t rows = 0;
  int64_t vocab = 0;
  int64_t stride = 0;
  float smoothing = 0.0f;
  const int32_t* labels = nullptr;  // [rows], -1 for filler
  const float* logits = nullptr;
  const float* factor = nullptr;  // [1] on the device
};
// Norms and losses [rows] and, where dlogits is given, the gradients for a total whose own gradient
// is 1, as T, rounded, [rows, stride] with zeros past the vocabulary: one pass over the logits, or
// two.
template <class T>
void cross_entropy(Stream stream, const CrossEntropy& args, float* norms, float* losses,
                   T* dlogits);
// total[0] = factor times the sum of the losses in double, in a fixed order.
void total_loss(Stream stream, const float* losses, int64_t rows, const float* factor,
                float* total);

// ---- the optimiser ------------------------------------------------------------------------------
// squares[0] (+)= the sum of x[i]^2 in double, in a fixed order of chunks. partial: one double a
// chunk of kSquareChunk elements (kernels/elementwise.h).
void sum_of_squares(Stream stream, int64_t size, const float* x, double* partial, double* squares,
                    bool adds);
// What one update needs, on the device.
struct AdamWState {
  float rate = 0.0f, beta1 = 0.9f, beta2 = 0.98f, epsilon = 1e-9f;
  double clip_norm = 0.0;             // 0: none
  double power1 = 1.0, power2 = 1.0;  // beta^steps, kept by adamw_begin()
  int64_t steps = 0;
  // Made by adamw_begin():
  double norm = 0.0;
  float factor = 1.0f, correction1 = 1.0f, correction2 = 1.0f;
  int32_t finite = 1;
};
// From the sum of squares: norm, finite, factor; where finite: steps, powers and corrections.
void adamw_begin(Stream stream, const double* squares, AdamWState* state);
// One tensor; nothing where the state says not finite. Writes the rounded weight too where
// `rounded` is given: [to_rows, rounded_columns] of a weight with `columns` columns.
struct AdamWTensor {
  int64_t size = 0;
  int64_t columns = 1;
  float decay = 0.0f;
  const float* gradient = nullptr;
  float *m = nullptr, *v = nullptr, *w = nullptr;
  BFloat16* rounded = nullptr;
  int64_t rounded_columns = 0;
};
void adamw(Stream stream, const AdamWState* state, const AdamWTensor& tensor);
// Many tensors in one launch; `tensors` lies on the device, `starts` [count + 1] are the chunks of
// 4,096 elements each begins at, `chunks` their total.
void adamw_all(Stream stream, const AdamWState* state, const AdamWTensor* tensors,
               const int32_t* starts, int64_t count, int64_t chunks);

}  // namespace tril::kernels::cuda
