// Checks of the tokens that search, scoring and alignment are given. Internal to decode/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tril/models/config.h"

namespace tril {

// Each check raises `invalid_argument` with a text that begins with the operation and, if there is
// one, the request's number: "search: request 7: the source is empty".
struct TokenCheck {
  std::string_view operation;
  const TransformerConfig& config;
  std::optional<int64_t> request{};

  // There must be a source exactly if the model has an encoder.
  void source(std::span<const int32_t> tokens) const;
  void target(std::span<const int32_t> tokens) const;
  // One token of the options.
  void special(std::string_view what, int32_t token) const;

  void in_vocabulary(std::string_view what, std::span<const int32_t> tokens, int64_t vocab) const;
  std::string who() const;
};

}  // namespace tril
