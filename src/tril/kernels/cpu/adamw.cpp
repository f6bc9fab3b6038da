#include "tril/kernels/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/adamw.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

void AdamWKernel(const Parallel& parallel, const AdamW& a, int64_t size, const float* gradient,
                 float* m, float* v, float* w) {
  for_row_blocks(parallel, size, 1, [&](int64_t begin, int64_t end) {
    for_each_16(end - begin, [&](const auto& load, const auto& store) HWY_ATTR {
      const Vec16 g = load(gradient + begin) * set16(a.factor);
      const Vec16 first = fma(g, set16(1.0f - a.beta1), load(m + begin) * set16(a.beta1));
      const Vec16 second = fma(g * g, set16(1.0f - a.beta2), load(v + begin) * set16(a.beta2));
      const Vec16 weight = load(w + begin);
      const Vec16 step =
          (first / set16(a.correction1)) / (sqrt(second / set16(a.correction2)) + set16(a.epsilon));
      store(first, m + begin);
      store(second, v + begin);
      store(fnma(set16(a.rate), fma(weight, set16(a.decay), step), weight), w + begin);
    });
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(AdamWKernel);

void adamw(const Parallel& parallel, const AdamW& args, int64_t size, const float* gradient,
           float* m, float* v, float* w) {
  HWY_DYNAMIC_DISPATCH(AdamWKernel)(parallel, args, size, gradient, m, v, w);
}

}  // namespace tril::kernels
#endif
