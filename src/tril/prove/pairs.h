// The sentences of a proof as tokens, and how forward() is called with them and observed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tril/models/observer.h"
#include "tril/models/transformer.h"
#include "tril/prove/report.h"

namespace tril {

// Tokens drawn uniformly from the vocabulary, the same for the same seed on every machine. Source
// and target are `length` tokens long.
std::vector<TokenPair> random_pairs(const TransformerConfig& config, int64_t count, int64_t length,
                                    uint64_t seed);

// Sources as encode() takes them, one slot each; nothing for a decoder-only model.
Rows source_rows(std::span<const TokenPair> pairs);
// An empty memory for a decoder-only model.
Memory encode_pairs(const Transformer& model, std::span<const TokenPair> pairs, Session& session);

// Counts the calls of forward() inside the model, where they happen, not where they are made.
class ForwardCounter : public Observer {
 public:
  void see(const Observation& observation) override {
    if (observation.stack != Stack::decoder || observation.site != Site::embedded) return;
    ++calls_;
    rows_ += observation.tensor.rows();
  }
  void clear() { calls_ = rows_ = 0; }
  int64_t calls() const { return calls_; }
  int64_t rows() const { return rows_; }  // over all calls

 private:
  int64_t calls_ = 0;
  int64_t rows_ = 0;
};

}  // namespace tril
