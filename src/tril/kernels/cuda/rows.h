// The kernels on rows, on CUDA: norms, embeddings, activations, dropout, rotary positions, sums,
// the loss and the optimiser. The header of the same name in kernels/ says what each computes; this
// is the CUDA form, with its order.
//
// T is float or BFloat16 (both instantiated): the type of activations. Everything is computed in
// f32 and rounded once where it is stored, also inside a fused kernel where the separate ones would
// round. A row depends on that row alone; the order of a sum over columns depends only on the
// number of columns, that of a sum over rows only on the number of rows; addresses decide only how
// memory is read. No atomic operation on floating-point numbers. All pointers are to device memory.
// Kernels neither allocate nor throw. Sizes of zero are legal and do nothing. Every function takes
// a struct of all its arguments: launches.h lists them.
#pragma once

#include <cstdint>

#include "tril/base/dtype.h"
#include "tril/base/stream.h"
#include "tril/kernels/activation.h"
#include "tril/kernels/norm.h"

namespace tril::kernels::cuda {

// ---- elementwise --------------------------------------------------------------------------------
template <class T>
struct Add {
  int64_t size = 0;
  const T *a = nullptr, *b = nullptr;
  T* out = nullptr;  // may be a or b
};
template <class T>
void add(Stream stream, const Add<T>& args);
// x *= *factor; does nothing for 1.
template <class T>
struct Scale {
  int64_t size = 0;
  const float* factor = nullptr;
  T* x = nullptr;
};
template <class T>
void scale(Stream stream, const Scale<T>& args);
// out = round(factor x).
template <class T>
struct Scaled {
  int64_t size = 0;
  float factor = 1.0f;
  const T* x = nullptr;
  T* out = nullptr;
};
template <class T>
void scaled(Stream stream, const Scaled<T>& args);
// bias [heads, offsets], entry (h, i) is weight [buckets, heads] at (bucket_of[i], h).
struct RelativeBias {
  int64_t heads = 0;
  int64_t offsets = 0;
  const int32_t* bucket_of = nullptr;  // [offsets]
  const float* weight = nullptr;
  float* bias = nullptr;
};
void relative_bias(Stream stream, const RelativeBias& args);
template <class T>
struct Fill {
  int64_t size = 0;
  float value = 0.0f;
  T* out = nullptr;
};
template <class T>
void fill(Stream stream, const Fill<T>& args);
// Between types: rounds, or widens exactly.
template <class From, class To>
struct Convert {
  int64_t size = 0;
  const From* from = nullptr;
  To* to = nullptr;
};
template <class From, class To>
void convert(Stream stream, const Convert<From, To>& args);
// to [to_rows, to_columns] = from [rows, columns] rounded, zeros beyond: weights as products read
// them. Both dense.
struct RoundPadded {
  const float* from = nullptr;
  int64_t rows = 0, columns = 0;
  BFloat16* to = nullptr;
  int64_t to_rows = 0, to_columns = 0;
};
void round_padded(Stream stream, const RoundPadded& args);

// ---- norms --------------------------------------------------------------------------------------
// Weight and bias are f32 (norm.weight and norm.bias point to device memory). stats [rows, 2].
//
// Order of a sum over columns: packs of eight; pack i belongs to lane i mod 32, which adds its
// elements ascending; the lanes are folded by halves (lane l and lane l xor 16, 8, 4, 2, 1). Of a
// sum over rows: slices of norm_slice() rows; in a slice row i belongs to chain i mod 8, the chains
// are added ascending; then slice i belongs to chain i mod 32, those chains likewise.
template <class T>
struct NormForward {
  Norm norm{};
  const T* x = nullptr;
  T* y = nullptr;
  float* stats = nullptr;
};
template <class T>
void norm_forward(Stream stream, const NormForward<T>& args);
// As many slices as an H200 computes at once, two per multiprocessor.
constexpr int64_t norm_slice(int64_t rows) {
  constexpr int64_t kSlices = 264, kChains = 8;
  const int64_t chain = (rows + kSlices * kChains - 1) / (kSlices * kChains);
  return kChains * (chain < 2 ? 2 : chain);
}
// The backward pass is residual_norm_backward(), below, without a residual.

// ---- embeddings ---------------------------------------------------------------------------------
// out = round(fma(table, scale, position)), or round(table scale) without positions. The table is
// in the type of activations, or f32: then its entries are rounded to that type as they are read.
template <class T, class Entry>
struct Embedding {
  int64_t rows = 0;
  int64_t columns = 0;
  float scale = 1.0f;
  const int32_t* ids = nullptr;  // [rows]
  const Entry* table = nullptr;  // [entries, table_stride]
  int64_t table_stride = 0;
  const int32_t* position_ids = nullptr;  // [rows], or null for no positions
  const float* position_table = nullptr;  // [positions, columns], f32
  T* out = nullptr;
};
template <class T, class Entry>
void embedding_forward(Stream stream, const Embedding<T, Entry>& args);
// Sorts rows stably by id on the device. order [rows]; starts [entries + 1]; workspace of
// sort_by_id_workspace() bytes. Counts are added by integer atomics, whose order cannot be seen.
int64_t sort_by_id_workspace(int64_t rows);
struct SortById {
  const int32_t* ids = nullptr;
  int64_t rows = 0;
  int64_t entries = 0;
  int32_t* order = nullptr;
  int32_t* starts = nullptr;
  void* workspace = nullptr;
};
void sort_by_id(Stream stream, const SortById& args);
// dtable [entries, columns], f32: scale times the sum over the rows that looked an entry up; zero
// for the others. adds: dtable += instead. Order: the rows of an entry ascending in slices of
// kEmbeddingSlice, each one chain; the slices ascending. `partial` has room for
// embedding_backward_partial() floats.
constexpr int64_t kEmbeddingSlice = 64;
int64_t embedding_backward_partial(int64_t rows, int64_t columns);
template <class T>
struct EmbeddingBackward {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t entries = 0;
  float scale = 1.0f;
  const int32_t* order = nullptr;
  const int32_t* starts = nullptr;
  bool adds = false;
  const T* dout = nullptr;
  float* partial = nullptr;
  float* dtable = nullptr;
};
template <class T>
void embedding_backward(Stream stream, const EmbeddingBackward<T>& args);

// ---- activations --------------------------------------------------------------------------------
template <class T>
struct ActivationForward {
  Activation kind = Activation::relu;
  int64_t size = 0;
  const T* x = nullptr;
  T* y = nullptr;
};
template <class T>
void activation_forward(Stream stream, const ActivationForward<T>& args);
template <class T>
struct ActivationBackward {
  Activation kind = Activation::relu;
  int64_t size = 0;
  const T *x = nullptr, *dy = nullptr;
  T* dx = nullptr;
};
template <class T>
void activation_backward(Stream stream, const ActivationBackward<T>& args);
template <class T>
struct GatedForward {
  Activation kind = Activation::relu;
  int64_t size = 0;
  const T *gate = nullptr, *x = nullptr;
  T* y = nullptr;
};
template <class T>
void gated_forward(Stream stream, const GatedForward<T>& args);
template <class T>
struct GatedBackward {
  Activation kind = Activation::relu;
  int64_t size = 0;
  const T *gate = nullptr, *x = nullptr, *dy = nullptr;
  T *dgate = nullptr, *dx = nullptr;
};
template <class T>
void gated_backward(Stream stream, const GatedBackward<T>& args);

// ---- dropout ------------------------------------------------------------------------------------
// The same masks as on the CPU (kernels/dropout.h). Seed and step are read on the device.
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
struct DropoutForward {
  Dropout mask{};
  const T* x = nullptr;
  T* y = nullptr;
  uint8_t* kept = nullptr;
};
template <class T>
void dropout(Stream stream, const DropoutForward<T>& args);
template <class T>
struct DropoutByBits {
  int64_t rows = 0;
  int64_t columns = 0;
  float probability = 0.0f;
  const uint8_t* kept = nullptr;
  const T* x = nullptr;
  T* y = nullptr;
};
template <class T>
void dropout_by_bits(Stream stream, const DropoutByBits<T>& args);

// y = norm(s), s = x + dropout(f), in one pass with the three roundings: the end of a post-norm
// layer. A null `mask.seed` means no dropout, and no `kept`.
template <class T>
struct ResidualNormForward {
  Norm norm{};
  Dropout mask{};
  const T *x = nullptr, *f = nullptr;
  T *s = nullptr, *y = nullptr;
  float* stats = nullptr;
  uint8_t* kept = nullptr;
};
template <class T>
void residual_norm_forward(Stream stream, const ResidualNormForward<T>& args);
// dx is the gradient of s, and df is dropout_by_bits() of it; without dropout, when `kept` is null,
// dx is both and df is not written. The gradients of weight and bias are left in slices, which
// merge_norm_gradients() adds up; dbias may be null.
template <class T>
struct ResidualNormBackward {
  Norm norm{};
  const T* s = nullptr;
  const float* stats = nullptr;
  const T* dy = nullptr;
  float probability = 0.0f;
  const uint8_t* kept = nullptr;
  T *dx = nullptr, *df = nullptr;
  float* partial = nullptr;  // norm_backward_partial() floats
};
int64_t norm_backward_partial(int64_t rows, int64_t columns);
template <class T>
void residual_norm_backward(Stream stream, const ResidualNormBackward<T>& args);
struct MergeNormGradients {
  int64_t rows = 0;
  int64_t columns = 0;
  const float* partial = nullptr;
  float *dweight = nullptr, *dbias = nullptr;
};
void merge_norm_gradients(Stream stream, const MergeNormGradients& args);

// ---- rotary -------------------------------------------------------------------------------------
template <class T>
struct Rotary {
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  const int32_t* positions = nullptr;
  const float* table = nullptr;
  float sign = 1.0f;  // -1: the opposite rotation
  const T* x = nullptr;
  int64_t x_stride = 0;  // from a row of x to the next; those of y are dense
  T* y = nullptr;
};
template <class T>
void rotary(Stream stream, const Rotary<T>& args);

// ---- softmax over the vocabulary and the loss ---------------------------------------------------
// logits f32 [rows, stride], of which the first `vocab` per row count. Order: packs of eight
// logits; pack i belongs to thread i mod 1024, which keeps its largest logit so far and the sum of
// e^(x - largest), rescaled when a larger one comes; threads are folded by halves, 32 and then 32,
// rescaled to the larger of both. norm = largest + log(sum), the logarithm in double. The plain sum
// for label smoothing is folded in the same way.
struct SoftmaxNormalisers {
  const float* logits = nullptr;
  int64_t rows = 0;
  int64_t vocab = 0;
  int64_t stride = 0;
  float* norms = nullptr;  // [rows]
};
void softmax_normalisers(Stream stream, const SoftmaxNormalisers& args);
struct SubtractRows {
  const float* logits = nullptr;
  const float* norms = nullptr;  // [rows]
  int64_t rows = 0;
  int64_t vocab = 0;
  int64_t stride = 0;
  float* out = nullptr;  // [rows, vocab] dense
};
void subtract_rows(Stream stream, const SubtractRows& args);
// Norms and losses and, if dlogits is given, the gradients for a total whose own gradient is 1, as
// T, rounded, [rows, stride] with zeros past the vocabulary. The logits are read from memory once,
// and the second time from the cache. dlogits may be the logits if T is float.
template <class T>
struct CrossEntropy {
  int64_t rows = 0;
  int64_t vocab = 0;
  int64_t stride = 0;
  float smoothing = 0.0f;
  const int32_t* labels = nullptr;  // [rows], -1 for padding
  const float* logits = nullptr;
  const float* factor = nullptr;  // [1] on the device
  float* norms = nullptr;         // [rows]
  float* losses = nullptr;        // [rows]
  T* dlogits = nullptr;           // [rows, stride], or null
};
template <class T>
void cross_entropy(Stream stream, const CrossEntropy<T>& args);
// total[0] = factor times the sum of the losses in double: row i belongs to chain i mod 1024, the
// chains are folded by halves.
struct TotalLoss {
  const float* losses = nullptr;
  int64_t rows = 0;
  const float* factor = nullptr;
  float* total = nullptr;
};
void total_loss(Stream stream, const TotalLoss& args);

// ---- the optimiser ------------------------------------------------------------------------------
// All tensors of an update are done in one launch, in chunks of kUpdateChunk elements.
constexpr int64_t kUpdateChunk = 4096;
struct AdamWTensor {
  int64_t size = 0;
  int64_t columns = 1;
  float decay = 0.0f;
  const float* gradient = nullptr;
  float *m = nullptr, *v = nullptr, *w = nullptr;
  // The rounded weight, written too if given: [to_rows, rounded_columns], of which this writes the
  // weight's rows and columns.
  BFloat16* rounded = nullptr;
  int64_t rounded_columns = 0;
};
// Everything on the device: `tensors` [count], `starts` [count + 1] the chunk each begins at.
struct AdamWTensors {
  const AdamWTensor* tensors = nullptr;
  const int32_t* starts = nullptr;
  int64_t count = 0;
  int64_t chunks = 0;
};
constexpr int64_t update_chunks(int64_t size) { return (size + kUpdateChunk - 1) / kUpdateChunk; }
// squares[0] = the sum of all gradients' squares. Order: in a chunk pack i of four belongs to
// thread i mod 256, a chain of fused multiply-adds in f32; threads are folded by halves in double.
// Chunk i belongs to chain i mod 1024 in double, which are folded by halves. `partial` has room for
// one double per chunk.
struct SumOfSquares {
  AdamWTensors all{};
  double* partial = nullptr;
  double* squares = nullptr;
};
void sum_of_squares(Stream stream, const SumOfSquares& args);

// The state of the updates, kept on the device from one to the next.
struct AdamWState {
  float beta1 = 0.9f, beta2 = 0.98f, epsilon = 1e-9f;
  float rate = 0.0f;
  double clip_norm = 0.0;             // 0: none
  double power1 = 1.0, power2 = 1.0;  // beta^steps
  int64_t steps = 0;
  double norm = 0.0;  // of the last gradient, before clipping
  float factor = 1.0f, correction1 = 1.0f, correction2 = 1.0f;
  int32_t finite = 1;
};
// From the sum of squares and the rate: norm, finite, factor; if finite: steps, powers and
// corrections.
struct AdamWBegin {
  const double* squares = nullptr;
  const float* rate = nullptr;
  AdamWState* state = nullptr;
};
void adamw_begin(Stream stream, const AdamWBegin& args);
// kernels/adamw.h for all tensors, with its bits; does nothing if the state is not finite.
struct AdamWUpdate {
  const AdamWState* state = nullptr;
  AdamWTensors all{};
};
void adamw(Stream stream, const AdamWUpdate& args);

}  // namespace tril::kernels::cuda
