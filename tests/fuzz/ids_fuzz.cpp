// Any line as the token ids of `tril score --ids`: either a list that reads back the same and that
// a model scores, or none; an id that is not a token of the model is one tril::Error.
#include <cstdint>
#include <optional>
#include <string>

#include "scratch.h"
#include "tiny_model.h"
#include "tril/base/error.h"
#include "tril/decode/score.h"
#include "tril/text/token_ids.h"

namespace {

using tril::fuzz::check;

std::string line_of(const std::vector<int32_t>& ids) {
  std::string line;
  for (const int32_t id : ids) line += std::to_string(id) + " ";
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line = tril::fuzz::view(data, size);
  const std::optional<std::vector<int32_t>> ids = tril::parse_token_ids(line);
  if (!ids) return 0;
  check(line.find_first_not_of("-0123456789 ") == line.npos);
  check(tril::parse_token_ids(line_of(*ids)) == ids);
  static const tril::Transformer model(tril::fuzz::tiny_config(), 1);
  static tril::Session session(model, 1);
  try {
    const tril::ScoreResult result =
        tril::score(model, {}, {.number = 0, .source = {1, 3}, .target = *ids}, session);
    check(result.log_probs.size() == ids->size() && !(result.score > 0.0));
  } catch (const tril::Error& error) {
    check(error.code() == tril::ErrorCode::invalid_argument);
  }
  return 0;
}
