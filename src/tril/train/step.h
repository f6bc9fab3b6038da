// What every way of training has in common: the loss of a batch, and how far a device may be ahead
// of who looks at it. Internal to train/.
#pragma once

#include "tril/data/batches.h"
#include "tril/models/transformer.h"

namespace tril {

// Whole targets in one call, under the session's tape.
inline Tensor batch_loss(const Transformer& model, const Batch& batch,
                         const ops::LossOptions& options, Session& session) {
  const Memory memory =
      model.config().decoder_only() ? Memory{} : model.encode(batch.source, session);
  const Tensor hidden = model.forward(batch.target, memory, session);
  return model.loss(hidden, batch.labels, options, session);
}

// Updates that may be enqueued before the host looks at what became of the oldest.
inline size_t updates_behind(const Session& session) {
  return session.device() == Device::cpu ? 0 : 2;
}

}  // namespace tril
