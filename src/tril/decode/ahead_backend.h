// The backend for a GPU, on which the host does not wait. Internal to decode/.
//
// The GPU chooses the next tokens, and the hypotheses they continue, by itself, so that a step can
// be enqueued before the host has seen the result of the one before. The host receives every step's
// candidates one step later and goes through the same search with them: it alone decides what a
// sentence's hypotheses are and when it is done (decode/hypotheses.h). Both order the same numbers
// by the same rule, so they cannot disagree. When a sentence turns out to be done, one more step of
// it has been enqueued, whose result is ignored; then its rows are free for another.
//
// A sentence takes as many consecutive rows as it may have hypotheses, the first that are free.
// Sentences of all widths, and samples, share one step.
#pragma once

#include <memory>

#include "tril/decode/backend.h"

namespace tril {

struct DeviceRows;

// What an engine leaves with the session for the next one: the memory for encoded sentences and, on
// a GPU, for rows. Allocating it again would take longer than encoding.
struct KeptForEngine {
  explicit KeptForEngine(const TransformerConfig& config) : of(config) {}

  // Taken out of the session until it is given back, because a callback may search with the same
  // session.
  static std::shared_ptr<KeptForEngine> take(Session& session, const TransformerConfig& config);
  static void give_back(std::shared_ptr<KeptForEngine> kept, Session& session);

  TransformerConfig of;
  EncodedSentences encoded{};
  std::shared_ptr<DeviceRows> rows{};
};

// Whether a device can choose tokens by itself, and for which options.
bool can_choose_tokens(const Device& device);
bool can_go_ahead(const SearchOptions& options);

std::unique_ptr<Backend> make_ahead_backend(const Transformer& model, KeptForEngine& kept,
                                            Session& session);

}  // namespace tril
