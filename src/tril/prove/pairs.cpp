#include "tril/prove/pairs.h"

#include "tril/base/rng.h"

namespace tril {

std::vector<TokenPair> random_pairs(const TransformerConfig& config, int64_t count, int64_t length,
                                    uint64_t seed) {
  require(count >= 0 && length >= 1, ErrorCode::invalid_argument, "random pairs: ", count,
          " pairs of ", length, " tokens");
  Random random(seed);
  const auto draw = [&](int64_t vocab) {
    std::vector<int32_t> tokens(static_cast<size_t>(length));
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(random.below(static_cast<uint32_t>(vocab)));
    }
    return tokens;
  };
  std::vector<TokenPair> pairs(static_cast<size_t>(count));
  for (TokenPair& pair : pairs) {
    if (!config.decoder_only()) pair.source = draw(config.source_vocab);
    pair.target = draw(config.target_vocab);
    pair.next = static_cast<int32_t>(random.below(static_cast<uint32_t>(config.target_vocab)));
  }
  return pairs;
}

Rows source_rows(std::span<const TokenPair> pairs) {
  Rows rows;
  int32_t slot = 0;
  for (const TokenPair& pair : pairs) rows.add_sequence(pair.source, {.slot = slot++});
  return rows;
}

Memory encode_pairs(const Transformer& model, std::span<const TokenPair> pairs, Session& session) {
  return model.config().decoder_only() ? Memory{} : model.encode(source_rows(pairs), session);
}

}  // namespace tril
