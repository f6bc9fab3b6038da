// What the tests of the engine share: a model that a poisoned source breaks, and what a request was
// told.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "slow_search.h"
#include "support/models.h"
#include "tril/decode/engine.h"

namespace tril::testing {

constexpr int32_t kPoison = 8;  // a source token whose embedding is NaN

// A sharp model; a source with kPoison leads to NaN, and to nothing else.
Transformer poisoned_model(Family family, uint64_t seed);

// What a request was told, in order.
struct Told {
  std::vector<std::pair<int64_t, Tokens>> stream;  // sample, tokens
  std::vector<std::vector<float>> stream_log_probs;
  std::optional<RequestOutcome> outcome;
};
RequestEvents listening_to(Told& told, bool streams);

struct Asked {
  SearchRequest request;
  std::shared_ptr<const SearchOptions> options;
  bool streams = false;
  RequestTerms terms{};
};
int64_t width_of_asked(const Asked& asked);
Told alone(const Transformer& model, const Asked& asked);

bool holds_nothing(Session& session);
// The parts of a stream add up to the result of the request.
bool stream_is_whole(const Told& told, const SearchOptions& options);

// Nothing ends before its limit of 40 tokens.
std::shared_ptr<const SearchOptions> long_greedy();

}  // namespace tril::testing
