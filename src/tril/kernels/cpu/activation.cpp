#include "tril/kernels/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/activation.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

constexpr float kInverseSqrt2 = 0x1.6a09e6p-1f;
constexpr float kInverseSqrt2Pi = 0x1.988454p-2f;
constexpr float kTanhLinear = 0x1.988454p+0f;  // 2 sqrt(2 / pi)
constexpr float kTanhCubic = 0x1.2444f2p-4f;   // 0.044715 times that
constexpr float kTanhCubic3 = 0x1.b6676cp-3f;  // 3 times 0.044715 times that
constexpr float kTanhFlat = 1024.0f;           // from this x² on, gelu-tanh is 0 or x

struct Value {
  Vec16 value;
  Vec16 slope;
};

// The activation and its derivative; once inlined, the unused one is not computed.
template <Activation kKind>
HWY_INLINE Value activate(const Vec16& x) {
  if constexpr (kKind == Activation::relu) {
    // x if it is positive or NaN.
    const Mask16 negative = greater(zero16(), x);
    return {select(negative, zero16(), x), select(greater(x, zero16()), set16(1.0f), zero16())};
  } else if constexpr (kKind == Activation::gelu) {
    const Vec16 cdf = fma(erf(x * set16(kInverseSqrt2)), set16(0.5f), set16(0.5f));
    const Vec16 density = exp(x * x * set16(-0.5f)) * set16(kInverseSqrt2Pi);
    return {x * cdf, fma(x, density, cdf)};
  } else if constexpr (kKind == Activation::silu) {
    const Vec16 s = sigmoid(x);
    return {x * s, s * fma(x, set16(1.0f) - s, set16(1.0f))};
  } else {
    static_assert(kKind == Activation::gelu_tanh, "an activation without a formula");
    // Without the limit the slope of a large x would be infinity times zero. NaN stays NaN.
    const Vec16 flat = set16(kTanhFlat);
    const Vec16 whole = x * x;
    const Vec16 square = select(greater(whole, flat), flat, whole);
    const Vec16 z = x * fma(square, set16(kTanhCubic), set16(kTanhLinear));
    // sigmoid(|z|) and sigmoid(-|z|), both with all their digits: 1 - sigmoid(z) would have none
    // left where the slope multiplies it by much.
    const Vec16 e = exp(zero16() - max(zero16() - z, z));
    const Vec16 more = set16(1.0f) / (set16(1.0f) + e);
    const Vec16 less = e * more;
    const Vec16 s = select(greater(zero16(), z), less, more);
    const Vec16 inner = x * fma(square, set16(kTanhCubic3), set16(kTanhLinear));
    return {x * s, fma(inner, less * more, s)};
  }
}

// Calls f with the kind as a constant.
template <class F>
void with_kind(Activation kind, const F& f) {
  switch (kind) {
    case Activation::relu: f(std::integral_constant<Activation, Activation::relu>()); break;
    case Activation::gelu: f(std::integral_constant<Activation, Activation::gelu>()); break;
    case Activation::silu: f(std::integral_constant<Activation, Activation::silu>()); break;
    case Activation::gelu_tanh:
      f(std::integral_constant<Activation, Activation::gelu_tanh>());
      break;
  }
}

// f(load, store) over all elements; load and store act on the element range of the task.
template <class F>
void over(const Parallel& parallel, int64_t size, const F& f) {
  for_row_blocks(parallel, size, 1, [&](int64_t begin, int64_t end) {
    for_each_16(end - begin, [&](const auto& load, const auto& store) HWY_ATTR {
      f([&](const float* p) HWY_ATTR { return load(p + begin); },
        [&](const Vec16& v, float* p) HWY_ATTR { store(v, p + begin); });
    });
  });
}

void ActivationForward(const Parallel& parallel, Activation kind, int64_t size, const float* x,
                       float* y) {
  with_kind(kind, [&](auto k) {
    over(parallel, size, [&](const auto& load, const auto& store) HWY_ATTR {
      store(activate<decltype(k)::value>(load(x)).value, y);
    });
  });
}

void ActivationBackward(const Parallel& parallel, Activation kind, int64_t size, const float* x,
                        const float* dy, float* dx) {
  with_kind(kind, [&](auto k) {
    over(parallel, size, [&](const auto& load, const auto& store) HWY_ATTR {
      store(load(dy) * activate<decltype(k)::value>(load(x)).slope, dx);
    });
  });
}

void GatedForward(const Parallel& parallel, Activation kind, int64_t size, const float* gate,
                  const float* x, float* y) {
  with_kind(kind, [&](auto k) {
    over(parallel, size, [&](const auto& load, const auto& store) HWY_ATTR {
      store(activate<decltype(k)::value>(load(gate)).value * load(x), y);
    });
  });
}

void GatedBackward(const Parallel& parallel, Activation kind, int64_t size, const float* gate,
                   const float* x, const float* dy, float* dgate, float* dx) {
  with_kind(kind, [&](auto k) {
    over(parallel, size, [&](const auto& load, const auto& store) HWY_ATTR {
      const Value a = activate<decltype(k)::value>(load(gate));
      const Vec16 gradient = load(dy);
      const Vec16 other = load(x);
      store(gradient * other * a.slope, dgate);
      store(gradient * a.value, dx);
    });
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(ActivationForward);
HWY_EXPORT(ActivationBackward);
HWY_EXPORT(GatedForward);
HWY_EXPORT(GatedBackward);

void activation_forward(const Parallel& parallel, Activation kind, int64_t size, const float* x,
                        float* y) {
  HWY_DYNAMIC_DISPATCH(ActivationForward)(parallel, kind, size, x, y);
}
void activation_backward(const Parallel& parallel, Activation kind, int64_t size, const float* x,
                         const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(ActivationBackward)(parallel, kind, size, x, dy, dx);
}
void gated_forward(const Parallel& parallel, Activation kind, int64_t size, const float* gate,
                   const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(GatedForward)(parallel, kind, size, gate, x, y);
}
void gated_backward(const Parallel& parallel, Activation kind, int64_t size, const float* gate,
                    const float* x, const float* dy, float* dgate, float* dx) {
  HWY_DYNAMIC_DISPATCH(GatedBackward)(parallel, kind, size, gate, x, dy, dgate, dx);
}

}  // namespace tril::kernels
#endif
