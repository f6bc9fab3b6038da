// Dropout with a mask that is a function of what is dropped, for tests and explanation.
//
//   y[row][f] = x[row][f] × 1 / (1 - p)  if u >= p, else 0
//   u = 16 bits, as a fraction, of
//       Philox(key: seed; counter: step, sentence[row], position[row], 65536 site + c)
//       with c, the word and its half as kernels/dropout.h says
//
// The gradient with respect to x is this same function on dy, since the mask does not depend on x.
// A template in any precision; the mask is the same in all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tril/base/rng.h"
#include "tril/kernels/dropout.h"

namespace tril::reference {

inline bool dropout_keeps(const kernels::Dropout& args, int64_t row, int64_t feature) {
  const int64_t w = feature % 128;
  const int64_t counter = 16 * (feature / 128) + w % 16;
  const Words4 words = philox(args.seed, {args.step, static_cast<uint32_t>(args.sentences[row]),
                                          static_cast<uint32_t>(args.positions[row]),
                                          args.site * 65536u + static_cast<uint32_t>(counter)});
  const uint32_t word = words[static_cast<size_t>(w / 16 % 4)];
  const double u = static_cast<double>(w < 64 ? word & 0xFFFFu : word >> 16) / 0x1p16;
  return u >= static_cast<double>(args.probability);
}

template <class T>
std::vector<T> dropout(const kernels::Dropout& args, std::span<const T> x) {
  const T kept = 1 / (1 - T(args.probability));
  std::vector<T> y(x.size());
  for (int64_t row = 0; row < args.rows; ++row) {
    for (int64_t f = 0; f < args.columns; ++f) {
      const int64_t at = row * args.columns + f;
      y[at] = dropout_keeps(args, row, f) ? x[at] * kept : T(0);
    }
  }
  return y;
}

}  // namespace tril::reference
