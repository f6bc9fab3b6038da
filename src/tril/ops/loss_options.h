// What a loss is made of, beside logits and labels.
#pragma once

namespace tril {

struct LossOptions {
  float smoothing = 0.0f;  // label smoothing, in [0, 1)
  float factor = 1.0f;     // the loss is this times the sum over rows: 1 / tokens gives a mean
};

}  // namespace tril
