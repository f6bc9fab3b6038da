// All forms. For the sources of ops.
#pragma once

#include "tril/ops/weight_form.h"

namespace tril::ops {

const WeightForm& fp32_form();
const WeightForm& bf16_form();
const WeightForm& bf16_dot_form();
const WeightForm& int8_form();
// Of expressions, one for each of the names.
const WeightForm& expression_form(Compute compute);

// Named only in the list in weight_form.cpp, so that nothing of them is linked without CUDA.
const WeightForm& cuda_fp32_form();
const WeightForm& cuda_bf16_form();

}  // namespace tril::ops
