// Parts of a linear layer: some of its outputs, chosen by their numbers, as a layer of their own.
//
// Each output is one chain over its own row of the weight, so a part's outputs have the bits of the
// same outputs of the whole. On the CPU only: other forms raise `unsupported`.
#pragma once

#include <cstdint>
#include <span>

#include "tril/ops/linear.h"

namespace tril::ops {

// Outputs `rows` of a packed weight, in this order, in memory of `arena`; in the form of the whole.
// Raises `invalid_argument` for a number that is not below linear.out, `unsupported` for a form
// that cannot be split.
LinearWeight part_of(Context& context, const LinearWeight& linear, std::span<const int32_t> rows,
                     Arena& arena);

// y[i] = linear(x.slice(begin, end), weight) for every part, with the same bits: many small
// products in one operation, each computed by one thread. All weights have the same form.
void linear_by_rows(Context& context, const Tensor& x, std::span<const RowsByWeight> parts,
                    std::span<Tensor> y);

}  // namespace tril::ops
