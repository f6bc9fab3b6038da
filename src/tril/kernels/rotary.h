// Rotary positions (Su et al., arXiv 2104.09864).
//
// Each head's features i and i + half (half = head_dim / 2) are rotated by position × frequency i,
// which is base^(-i/half) unless it is scaled:
//   y[i] = x[i] cos - x[i+half] sin;  y[i+half] = x[i+half] cos + x[i] sin
//
// Order: fnma(x[i+half], sin, x[i] cos) and fma(x[i], sin, x[i+half] cos). The table holds cos and
// sin rounded from double. The gradient is the opposite rotation. y may be x. Kernels neither
// allocate, throw nor log.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tril/base/parallel.h"

namespace tril::kernels {

enum class Turn { forwards, backwards };

// Those of the paper: base^(-i/half), [half].
std::vector<double> rotary_frequencies(int64_t head_dim, double base);
// table [positions, 2, half]: the cosines of a position, then its sines. `rounded`: position ×
// frequency is rounded to fp32 before.
enum class Angles { exact, rounded };
void fill_rotary_table(int64_t positions, std::span<const double> frequencies, Angles angles,
                       float* table);

struct Rotary {
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;                // even
  const int32_t* positions = nullptr;  // [rows]
  const float* table = nullptr;
};
void rotary(const Parallel& parallel, const Rotary& args, Turn turn, const float* x, float* y);

}  // namespace tril::kernels
