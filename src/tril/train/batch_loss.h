// The loss of a batch, in training and in evaluation. Internal to train/.
#pragma once

#include "tril/data/batches.h"
#include "tril/models/transformer.h"

namespace tril {

// Whole targets in one call, under the session's tape.
inline Tensor batch_loss(const Transformer& model, const Batch& batch, const LossOptions& options,
                         Session& session) {
  const Memory memory =
      model.config().decoder_only() ? Memory{} : model.encode(batch.source, session);
  const Tensor hidden = model.forward(batch.target, memory, session);
  return model.loss(hidden, batch.labels, options, session);
}

}  // namespace tril
