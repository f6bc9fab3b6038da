// Alignment: which source tokens the decoder attended to for each target token.
//
// The weights are those of cross-attention, averaged over the heads of one decoder layer, by the
// plain formula softmax(QKᵀ/√d) in double: row i belongs to the step that predicted target token i.
// They show what the model attended to, which need not be how a person would align. The default is
// the last layer but one, where alignments are known to be clearest (Garg et al., arXiv
// 1909.02074), or the only layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tril {

class Session;
class Transformer;

struct AlignmentOptions {
  int32_t start = 2;   // what a target begins with
  int64_t layer = -1;  // of the decoder, from 0; -1: the last but one
};

struct Alignment {
  int64_t source = 0;           // tokens
  int64_t target = 0;           // tokens
  std::vector<double> weights;  // [target, source]; each row sums to 1 up to rounding

  double weight(int64_t target_token, int64_t source_token) const {
    return weights[static_cast<size_t>(target_token * source + source_token)];
  }
  // For each target token the source token with the largest weight, the lower one at equal weights.
  std::vector<int32_t> hard() const;
};

// Computed in one parallel pass. The target is used as given, with END only where it is included;
// it may be empty. Raises `unsupported` for a decoder-only model, `invalid_argument` for a layer or
// tokens the model does not have. Resets the session, and closes the slots it opened.
Alignment align(const Transformer& model, std::span<const int32_t> source,
                std::span<const int32_t> target, const AlignmentOptions& options, Session& session);

}  // namespace tril
