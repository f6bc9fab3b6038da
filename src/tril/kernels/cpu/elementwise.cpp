#include "tril/kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/elementwise.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

void Add(const Parallel& parallel, int64_t size, const float* a, const float* b, float* out) {
  for_row_blocks(parallel, size, 1, [&](int64_t begin, int64_t end) {
    for_each_16(end - begin, [&](const auto& load, const auto& store) HWY_ATTR {
      store(load(a + begin) + load(b + begin), out + begin);
    });
  });
}

void Scale(const Parallel& parallel, int64_t size, const float* factor, float* x) {
  if (*factor == 1.0f) return;
  for_row_blocks(parallel, size, 1, [&](int64_t begin, int64_t end) {
    for_each_16(end - begin, [&](const auto& load, const auto& store)
                                 HWY_ATTR { store(load(x + begin) * set16(*factor), x + begin); });
  });
}

void Scaled(const Parallel& parallel, int64_t size, float factor, const float* x, float* out) {
  for_row_blocks(parallel, size, 1, [&](int64_t begin, int64_t end) {
    for_each_16(end - begin, [&](const auto& load, const auto& store)
                                 HWY_ATTR { store(load(x + begin) * set16(factor), out + begin); });
  });
}

void Fill(const Parallel& parallel, int64_t size, float value, float* out) {
  for_row_blocks(parallel, size, 1,
                 [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, value); });
}

void SquareChunks(const Parallel& parallel, int64_t size, const float* x, float* partial) {
  parallel((size + kSquareChunk - 1) / kSquareChunk, [=](int64_t chunk) {
    const int64_t begin = chunk * kSquareChunk;
    Vec16 sums = zero16();
    for_each_16(std::min(kSquareChunk, size - begin), [&](const auto& load, const auto&) HWY_ATTR {
      const Vec16 v = load(x + begin);
      sums = fma(v, v, sums);
    });
    partial[chunk] = sum(sums);
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(Add);
HWY_EXPORT(Scale);
HWY_EXPORT(Scaled);
HWY_EXPORT(Fill);
HWY_EXPORT(SquareChunks);

void add(const Parallel& parallel, int64_t size, const float* a, const float* b, float* out) {
  HWY_DYNAMIC_DISPATCH(Add)(parallel, size, a, b, out);
}
void scale(const Parallel& parallel, int64_t size, const float* factor, float* x) {
  HWY_DYNAMIC_DISPATCH(Scale)(parallel, size, factor, x);
}
void scaled(const Parallel& parallel, int64_t size, float factor, const float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(Scaled)(parallel, size, factor, x, out);
}
void fill(const Parallel& parallel, int64_t size, float value, float* out) {
  HWY_DYNAMIC_DISPATCH(Fill)(parallel, size, value, out);
}
double sum_of_squares(const Parallel& parallel, int64_t size, const float* x, float* partial) {
  HWY_DYNAMIC_DISPATCH(SquareChunks)(parallel, size, x, partial);
  double total = 0.0;
  for (int64_t chunk = 0; chunk * kSquareChunk < size; ++chunk) {
    total += static_cast<double>(partial[chunk]);
  }
  return total;
}

}  // namespace tril::kernels
#endif
