// Many numbers as one, so that a model of a CUDA kernel runs on all of them at a time: what the
// host cannot compute is then one call of the GPU for all (cuda_functions.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda_functions.h"
#include "tril/base/build.h"
#include "tril/kernels/model/cuda_functions.h"

namespace tril::testing {

// One number per case, or one that all cases have.
struct Cases {
  std::vector<float> of{};

  float at(size_t i) const { return of.size() == 1 ? of[0] : of[i]; }
};

template <class F, class... Operands>
Cases each(const F& f, const Operands&... x) {
  Cases result;
  result.of.resize(std::max({x.of.size()...}));
  for (size_t i = 0; i < result.of.size(); ++i) result.of[i] = f(x.at(i)...);
  return result;
}

inline Cases add(const Cases& a, const Cases& b) {
  return each([](float x, float y) { return x + y; }, a, b);
}
inline Cases subtract(const Cases& a, const Cases& b) {
  return each([](float x, float y) { return x - y; }, a, b);
}
inline Cases multiply(const Cases& a, const Cases& b) {
  return each([](float x, float y) { return x * y; }, a, b);
}
inline Cases divide(const Cases& a, const Cases& b) {
  return each([](float x, float y) { return x / y; }, a, b);
}
inline Cases fma(const Cases& a, const Cases& b, const Cases& c) {
  return each([](float x, float y, float z) { return std::fma(x, y, z); }, a, b, c);
}
inline Cases magnitude(const Cases& a) {
  return each([](float x) { return std::fabs(x); }, a);
}
inline Cases negate(const Cases& a) {
  return each([](float x) { return -x; }, a);
}
inline Cases round_to_bf16(const Cases& a) {
  return each([](float x) { return kernels::model::round_to_bf16(x); }, a);
}
inline Cases larger_number(const Cases& a, const Cases& b) {
  return each([](float x, float y) { return kernels::model::larger_number(x, y); }, a, b);
}
// Conditions are 1 or 0.
inline Cases greater(const Cases& a, const Cases& b) {
  return each([](float x, float y) { return x > y ? 1.0f : 0.0f; }, a, b);
}
inline Cases at_most(const Cases& a, const Cases& b) {
  return each([](float x, float y) { return x <= y ? 1.0f : 0.0f; }, a, b);
}
inline Cases differs(const Cases& a, const Cases& b) {
  return each([](float x, float y) { return x != y ? 1.0f : 0.0f; }, a, b);
}
inline Cases select(const Cases& condition, const Cases& yes, const Cases& no) {
  return each([](float c, float x, float y) { return c != 0.0f ? x : y; }, condition, yes, no);
}

// Only where CUDA is built: other builds skip the tests that would get here.
inline Cases evaluated([[maybe_unused]] CudaFunction function, const Cases& a) {
  Cases result{std::vector<float>(a.of.size())};
  if constexpr (kCudaBuilt) evaluate_on_cuda(function, a.of, result.of);
  return result;
}
inline Cases cuda_exp2(const Cases& a) { return evaluated(CudaFunction::exp2, a); }
inline Cases cuda_exp(const Cases& a) { return evaluated(CudaFunction::exp, a); }
inline Cases cuda_erf(const Cases& a) { return evaluated(CudaFunction::erf, a); }

using TermsOfCases = kernels::model::TensorCoreTerms<Cases>;
inline Cases tensor_core_step(const Cases& sum, const TermsOfCases& a, const TermsOfCases& b) {
  size_t cases = sum.of.size();
  for (const auto* terms : {&a, &b}) {
    for (const Cases& term : *terms) cases = std::max(cases, term.of.size());
  }
  const auto together = [&](const TermsOfCases& terms) {
    std::vector<float> all;
    all.reserve(cases * terms.size());
    for (size_t i = 0; i < cases; ++i) {
      for (const Cases& term : terms) all.push_back(term.at(i));
    }
    return all;
  };
  Cases result;
  for (size_t i = 0; i < cases; ++i) result.of.push_back(sum.at(i));
  if constexpr (kCudaBuilt) tensor_core_steps_on_cuda(result.of, together(a), together(b));
  return result;
}

}  // namespace tril::testing

namespace tril::kernels::model {

template <>
inline testing::Cases constant<testing::Cases>(float value) {
  return {{value}};
}

}  // namespace tril::kernels::model
