// Parts of a linear layer: some of its outputs, chosen by their numbers, as a layer of their own.
//
// Each output is one chain over its own row of the weight, so a part's outputs have the very bits
// of the same outputs of the whole.
#pragma once

#include <cstdint>
#include <span>

#include "tril/ops/linear.h"

namespace tril::ops {

// Outputs `rows` of a weight with its forward panels, in this order, in memory of `arena`; packed
// as the whole is. Raises `invalid_argument` for a number that is not below linear.out.
LinearWeight part_of(Context& context, const LinearWeight& linear, std::span<const int32_t> rows,
                     Arena& arena);

// Rows [begin, end) of an input and the weight they are multiplied by.
struct RowsByWeight {
  int64_t begin = 0;
  int64_t end = 0;
  const LinearWeight* weight = nullptr;
};
// y[i] = linear(x.slice(begin, end), weight) for every part, with the same bits; many small
// products in one go, shared out between the threads whole. All weights are packed alike.
void linear_by_rows(Context& context, const Tensor& x, std::span<const RowsByWeight> parts,
                    std::span<Tensor> y);

}  // namespace tril::ops
