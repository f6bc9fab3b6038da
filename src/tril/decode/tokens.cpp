#include "tril/decode/tokens.h"

#include "tril/base/error.h"

namespace tril {
namespace {}

std::string TokenCheck::who() const {
  return request ? concat(operation, ": request ", *request, ": ") : concat(operation, ": ");
}

void TokenCheck::source(std::span<const int32_t> tokens) const {
  const auto count = static_cast<int64_t>(tokens.size());
  if (config.decoder_only()) {
    if (count > 0) {
      fail(ErrorCode::invalid_argument, who(), "a source of ", count,
           " tokens, but the model has no encoder");
    }
    return;
  }
  if (count == 0) fail(ErrorCode::invalid_argument, who(), "the source is empty");
  if (count > config.max_length) {
    fail(ErrorCode::invalid_argument, who(), "the source has ", count,
         " tokens, the model's max_length is ", config.max_length);
  }
  in_vocabulary("source", tokens, config.source_vocab);
}

void TokenCheck::target(std::span<const int32_t> tokens) const {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > config.max_length) {
    fail(ErrorCode::invalid_argument, who(), "the target has ", count,
         " tokens, the model's max_length is ", config.max_length);
  }
  in_vocabulary("target", tokens, config.target_vocab);
}

void TokenCheck::special(std::string_view what, int32_t token) const {
  if (token < 0 || token >= config.target_vocab) {
    fail(ErrorCode::invalid_argument, who(), what, " is token ", token,
         ", which is not in the vocabulary of ", config.target_vocab);
  }
}

void TokenCheck::in_vocabulary(std::string_view what, std::span<const int32_t> tokens,
                               int64_t vocab) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    fail(ErrorCode::invalid_argument, who(), "token ", tokens[i], " at ", i, " of the ", what,
         " is not below the vocabulary of ", vocab);
  }
}

}  // namespace tril
