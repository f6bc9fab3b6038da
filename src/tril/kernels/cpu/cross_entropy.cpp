#include "tril/kernels/cross_entropy.h"

#include "tril/base/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/cross_entropy.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

float normaliser(const float* x, int64_t vocab) {
  Vec16 largest = set16(kMinusInfinity);
  int64_t j = 0;
  for (; j + kLanes <= vocab; j += kLanes) largest = max(largest, load16(x + j));
  if (j < vocab) {
    largest =
        max(largest, select(lanes(0, vocab - j), load16(x + j, vocab - j), set16(kMinusInfinity)));
  }
  const float top = max(largest);
  Vec16 sums = zero16();
  for (j = 0; j + kLanes <= vocab; j += kLanes) sums = sums + exp(load16(x + j) - set16(top));
  if (j < vocab) {
    sums = sums + select(lanes(0, vocab - j), exp(load16(x + j, vocab - j) - set16(top)), zero16());
  }
  return top + static_cast<float>(math::log(static_cast<double>(sum(sums))));
}

void Normalisers(const Parallel& parallel, const float* logits, int64_t rows, int64_t vocab,
                 float* norms) {
  for_row_blocks(parallel, rows, vocab, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      norms[row] = normaliser(logits + row * vocab, vocab);
  });
}

void SubtractRows(const Parallel& parallel, const float* logits, const float* norms, int64_t rows,
                  int64_t vocab, float* out) {
  for_row_blocks(parallel, rows, vocab, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for_each_16(vocab, [&](const auto& load, const auto& store) HWY_ATTR {
        store(load(logits + row * vocab) - set16(norms[row]), out + row * vocab);
      });
    }
  });
}

void LossForward(const Parallel& parallel, const CrossEntropy& c, float* norms, float* losses) {
  for_row_blocks(parallel, c.rows, c.vocab, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = c.logits + row * c.vocab;
      norms[row] = 0.0f;
      losses[row] = 0.0f;
      if (c.labels[row] < 0) continue;
      norms[row] = normaliser(x, c.vocab);
      const float right = x[c.labels[row]];
      if (c.smoothing == 0.0f) {
        losses[row] = norms[row] - right;
        continue;
      }
      Vec16 sums = zero16();
      for_each_16(c.vocab, [&](const auto& load, const auto&) HWY_ATTR { sums = sums + load(x); });
      const float mean = sum(sums) * (1.0f / static_cast<float>(c.vocab));
      losses[row] = norms[row] - (1.0f - c.smoothing) * right - c.smoothing * mean;
    }
  });
}

void LossBackward(const Parallel& parallel, const CrossEntropy& c, const float* norms,
                  const float* dtotal, float* dlogits) {
  const float g = *dtotal * c.factor;
  const float spread = c.smoothing / static_cast<float>(c.vocab);
  for_row_blocks(parallel, c.rows, c.vocab, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = c.logits + row * c.vocab;
      float* dx = dlogits + row * c.vocab;
      const int32_t label = c.labels[row];
      if (label < 0) {
        std::fill_n(dx, c.vocab, 0.0f);
        continue;
      }
      const Vec16 norm = set16(norms[row]);
      const float right = exp(x[label] - norms[row]) - spread - (1.0f - c.smoothing);
      for_each_16(c.vocab, [&](const auto& load, const auto& store) HWY_ATTR {
        store((exp(load(x) - norm) - set16(spread)) * set16(g), dx);
      });
      dx[label] = right * g;
    }
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(Normalisers);
HWY_EXPORT(SubtractRows);
HWY_EXPORT(LossForward);
HWY_EXPORT(LossBackward);

void softmax_normalisers(const Parallel& parallel, const float* logits, int64_t rows, int64_t vocab,
                         float* norms) {
  HWY_DYNAMIC_DISPATCH(Normalisers)(parallel, logits, rows, vocab, norms);
}
void subtract_rows(const Parallel& parallel, const float* logits, const float* norms, int64_t rows,
                   int64_t vocab, float* out) {
  HWY_DYNAMIC_DISPATCH(SubtractRows)(parallel, logits, norms, rows, vocab, out);
}
void cross_entropy_forward(const Parallel& parallel, const CrossEntropy& args, float* norms,
                           float* losses) {
  HWY_DYNAMIC_DISPATCH(LossForward)(parallel, args, norms, losses);
}
float total_loss(const float* losses, int64_t rows, float factor) {
  double sum = 0.0;
  for (int64_t row = 0; row < rows; ++row) sum += static_cast<double>(losses[row]);
  return static_cast<float>(sum * static_cast<double>(factor));
}
void cross_entropy_backward(const Parallel& parallel, const CrossEntropy& args, const float* norms,
                            const float* dtotal, float* dlogits) {
  HWY_DYNAMIC_DISPATCH(LossBackward)(parallel, args, norms, dtotal, dlogits);
}

}  // namespace tril::kernels
#endif
