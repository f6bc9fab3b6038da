#include "tril/kernels/norm.h"

#include <cmath>

#include "tril/kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/norm.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

void NormForward(const Parallel& parallel, const Norm& n, const float* x, float* y, float* stats) {
  const float inverse_columns = 1.0f / static_cast<float>(n.columns);
  for_row_blocks(parallel, n.rows, n.columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x + row * n.columns;
      float* to = y + row * n.columns;
      float mean = 0.0f;
      if (n.kind == NormKind::layer) {
        Vec16 sums = zero16();
        for_each_16(n.columns,
                    [&](const auto& load, const auto&) HWY_ATTR { sums = sums + load(from); });
        mean = sum(sums) * inverse_columns;
      }
      Vec16 squares = zero16();
      int64_t i = 0;
      for (; i + kLanes <= n.columns; i += kLanes) {
        const Vec16 centred = load16(from + i) - set16(mean);
        squares = fma(centred, centred, squares);
      }
      if (i < n.columns) {
        // Lanes past the end must hold zero, not -mean.
        const Vec16 centred = select(lanes(0, n.columns - i),
                                     load16(from + i, n.columns - i) - set16(mean), zero16());
        squares = fma(centred, centred, squares);
      }
      const float r = 1.0f / std::sqrt(sum(squares) * inverse_columns + n.epsilon);
      for_each_16(n.columns, [&](const auto& load, const auto& store) HWY_ATTR {
        const Vec16 normed = (load(from) - set16(mean)) * set16(r);
        if (n.bias == nullptr) {
          store(normed * load(n.weight), to);
        } else {
          store(fma(normed, load(n.weight), load(n.bias)), to);
        }
      });
      stats[2 * row] = mean;
      stats[2 * row + 1] = r;
    }
  });
}

void NormBackward(const Parallel& parallel, const Norm& n, const float* x, const float* stats,
                  const float* dy, float* dx, float* dweight, float* dbias) {
  const float inverse_columns = 1.0f / static_cast<float>(n.columns);
  for_row_blocks(parallel, n.rows, n.columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x + row * n.columns;
      const float* gradient = dy + row * n.columns;
      const float mean = stats[2 * row];
      const float r = stats[2 * row + 1];
      // Partial loads give zero gradients, so lanes past the end add nothing.
      Vec16 sum_g = zero16();
      Vec16 sum_gx = zero16();
      for_each_16(n.columns, [&](const auto& load, const auto&) HWY_ATTR {
        const Vec16 normed = (load(from) - set16(mean)) * set16(r);
        const Vec16 g = load(gradient) * load(n.weight);
        sum_g = sum_g + g;
        sum_gx = fma(g, normed, sum_gx);
      });
      const float mean_g = n.kind == NormKind::layer ? sum(sum_g) * inverse_columns : 0.0f;
      const float mean_gx = sum(sum_gx) * inverse_columns;
      for_each_16(n.columns, [&](const auto& load, const auto& store) HWY_ATTR {
        const Vec16 normed = (load(from) - set16(mean)) * set16(r);
        const Vec16 g = load(gradient) * load(n.weight);
        store(fnma(normed, set16(mean_gx), g - set16(mean_g)) * set16(r), dx + row * n.columns);
      });
    }
  });
  parallel((n.columns + kLanes - 1) / kLanes, [&](int64_t task) {
    const int64_t column = task * kLanes;
    const int64_t width = std::min<int64_t>(kLanes, n.columns - column);
    Vec16 total_w = zero16();
    Vec16 total_b = zero16();
    for (int64_t begin = 0; begin < n.rows; begin += kTokenSlice) {
      Vec16 slice_w = zero16();
      Vec16 slice_b = zero16();
      for (int64_t row = begin; row < std::min(n.rows, begin + kTokenSlice); ++row) {
        const Vec16 normed = (load16(x + row * n.columns + column, width) - set16(stats[2 * row])) *
                             set16(stats[2 * row + 1]);
        const Vec16 gradient = load16(dy + row * n.columns + column, width);
        slice_w = fma(gradient, normed, slice_w);
        slice_b = slice_b + gradient;
      }
      total_w = total_w + slice_w;
      total_b = total_b + slice_b;
    }
    store16(total_w, dweight + column, width);
    if (dbias != nullptr) store16(total_b, dbias + column, width);
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(NormForward);
HWY_EXPORT(NormBackward);

void norm_forward(const Parallel& parallel, const Norm& norm, const float* x, float* y,
                  float* stats) {
  HWY_DYNAMIC_DISPATCH(NormForward)(parallel, norm, x, y, stats);
}
void norm_backward(const Parallel& parallel, const Norm& norm, const float* x, const float* stats,
                   const float* dy, float* dx, float* dweight, float* dbias) {
  HWY_DYNAMIC_DISPATCH(NormBackward)(parallel, norm, x, stats, dy, dx, dweight, dbias);
}

}  // namespace tril::kernels
#endif
