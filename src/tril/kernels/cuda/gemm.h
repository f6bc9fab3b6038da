// Matrix products on CUDA.
//
//   forward:          c[m][n] = sum over k of a[m][k] b[n][k]  (+ bias[n])     y  = x Wᵀ + b
//   input_gradient:   c[m][n] = sum over k of a[m][k] b[k][n]                  dx = dy W
//   weight_gradient:  c[m][n] = sum over k of a[k][m] b[k][n]                  dW = dyᵀ x
//
// Weights are [out, in] everywhere. Types: a, b and bias are all f32 or all bf16. c is f32 (the
// accumulators themselves: logits, weight gradients) or of the type of a: then it is
// round(round(sum) + bias) with one rounding at the end, bf16(accumulator + bias). ReLU of that, if
// requested: +0 for anything not above zero, but NaN stays NaN. When adding to c, the sum is
// rounded first, and again after the addition.
//
// Order. f32: one chain of fused multiply-adds over k ascending. bf16: the result of a loop of
// mma.sync.m16n8k16 over k ascending, from zero, with k padded by zeros to 16. Forward products and
// input gradients keep this order for every m, n, stride and address: the bits of a row of c depend
// on that row of a and on b alone. Weight gradients are the same from run to run on one device, but
// their tokens may be split, by an algorithm that m, n, k and the strides decide; in f32 zero is
// added last, so that a vanishing sum is +0 whether or not it had terms of zero.
//
// Up to 64 rows of a forward product are computed by our kernel, and up to 256 where outputs and
// terms are few (gemm_few_rows.cu). Larger products go to cuBLASLt, by algorithms that neither
// split k nor need a workspace, and that gave our bits in a trial (trial.h) when they were chosen:
// per orientation, n, k, strides, type of c, bias, ReLU, adding, and range of numbers of rows. If
// only the ReLU differs, it becomes a kernel of its own. If no algorithm passes, cuBLASLt is
// missing, a row does not begin at a multiple of 16 bytes, or n or k is not a multiple of 8, our
// kernel is used (gemm.cu): tiles of any size, slower if rows have to be read element by element.
//
// Any m, n, k from 0 to 2^31 - 1; k = 0 gives the bias or zero. Nothing may alias. If the rows of a
// matrix are longer than needed, what follows them is not changed.
#pragma once

#include <cstdint>
#include <memory>

#include "tril/base/dtype.h"
#include "tril/base/stream.h"

namespace tril::kernels::cuda {

enum class Orientation { forward, input_gradient, weight_gradient };
// Whether the terms of a sum are columns or rows of an operand's matrix.
enum class TermsAre { columns, rows };
constexpr TermsAre terms_of_a(Orientation orientation) {
  return orientation == Orientation::weight_gradient ? TermsAre::rows : TermsAre::columns;
}
constexpr TermsAre terms_of_b(Orientation orientation) {
  return orientation == Orientation::forward ? TermsAre::columns : TermsAre::rows;
}

struct Gemm {
  Orientation orientation = Orientation::forward;
  int64_t m = 0, n = 0, k = 0;
  DType type = DType::bf16;  // of a, b and bias
  const void* a = nullptr;   // rows a_stride elements apart
  int64_t a_stride = 0;
  const void* b = nullptr;
  int64_t b_stride = 0;
  const void* bias = nullptr;  // [n] or none; forward only
  void* c = nullptr;
  int64_t c_stride = 0;
  DType c_type = DType::bf16;
  bool adds = false;  // c += instead of c =; gradients only
  bool relu = false;  // forward only, c of the type of a
};

// cuBLASLt, its workspaces and the algorithms chosen so far. It belongs to one thread at a time,
// and may be given products for several streams, which run at the same time. Choosing an algorithm
// takes some milliseconds and waits for the device, so it is done before a stream is captured; a
// product whose algorithm was not chosen yet runs on our kernel while capturing.
class Blas {
 public:
  // What may be used: everything; only our own kernels; or cuBLASLt's own choice, including split
  // k, for few rows too, without the promise, to measure what the promise costs.
  // TRIL_CUDA_PRODUCTS=verified, own or free in the environment chooses for the program (ops/).
  enum class Policy { verified, own, free };
  explicit Blas(Policy policy = Policy::verified);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  void gemm(Stream stream, const Gemm& product);

  // For reports: kinds of products that went to cuBLASLt, those for which none of its algorithms
  // passed, so that they are ours, and how many algorithms gave other bits.
  struct Counts {
    int64_t chosen = 0, refused = 0, differing = 0;
  };
  Counts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A product as it is launched: by whom it is made belongs to it.
struct Product {
  Blas* blas = nullptr;
  Gemm gemm{};
};
void multiply(Stream stream, const Product& args);

// Our kernels alone, with which Blas compares.
void gemm_own(Stream stream, const Gemm& product);

// out[n] = sum over rows of in[row][n], the gradient of a bias, in f32: slices of 512 rows, of 16
// chains of 32 rows each; chains merged ascending, slices merged ascending. `partial` has room for
// ceil(rows / 512) * columns floats.
struct ColumnSums {
  DType type = DType::bf16;
  const void* in = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
  float* partial = nullptr;
  float* out = nullptr;
  bool adds = false;  // out += instead of out =
};
void column_sums(Stream stream, const ColumnSums& args);
constexpr int64_t kColumnSumRows = 512;

}  // namespace tril::kernels::cuda
