// How to search: which tokens greedy search, beam search and sampling choose.
//
// The model reads START and the prefix in one call; then every step appends one token. A model
// without START begins with the first token of the prefix, which is then not predicted: its log p
// counts as 0. log p is the fp32 number of Transformer::log_probs, with a shortlist over the
// sentence's set; a score adds them in double, ascending.
//
// Tokens that may be chosen. Never those that are `forbidden`. END (any of `end` and `more_ends`)
// only when at least `min_tokens` tokens were chosen, a forced prefix included. At the limit, where
// there is a `forced_end`, this token alone, whatever the other rules say. The three rules below
// look back over the sequence s: START, where there is one, the prefix, and what was chosen.
//   forbidden_sequences  the last token of one is forbidden where s ends with its other tokens.
//   no_repeat_ngram      of n: a token is forbidden if the last n - 1 tokens of s followed by it
//                        occur in s already; with n = 1, if it occurs in s. Nothing is while s is
//                        shorter than n.
//   repetition_penalty   of p: the value x by which a token is chosen becomes x * p if x < 0 and
//                        x / p otherwise, once for every different token of s, in fp32. In a beam
//                        above 1, x is log p; in greedy search and sampling it is the logit,
//                        which the row's normaliser is subtracted from afterwards. (So does
//                        generate() of transformers.)
// Probabilities are not renormalised over what is left, unless `renormalize` asks for it: in a beam
// above 1 the value of a token is then x - log(sum of e^x), over all tokens that may be chosen at
// this place, in the order of the loss. (Greedy search and sampling choose the
// same tokens either way.)
//
// Beam search. The value of a continuation is its log p, or what the rules above make of it; a
// hypothesis has the sum of its values, as a score. Each alive hypothesis offers its continuations;
// they are ordered by sum, then by the place of their hypothesis, then by value, then by lower
// token, and the first e * beam are considered, e being 1 + the number of ENDs. A continuation with
// END among the first `beam` is a finished hypothesis, one further back is dropped; of the others
// the first `beam` are the alive hypotheses of the next step, in this order. A sentence is done at
// its limit, or earlier when at least `beam` hypotheses have finished and, by `early_stopping`,
//   yes    in any case; so does a beam of 1.
//   no     if the best alive hypothesis, ranked as if it ended with the tokens it has, does not
//          rank above the beam-th best finished one.
//   never  the same, but if length_penalty is above 0 it is ranked as if it had its sum at the
//          limit's length: no continuation could rank higher.
// Hypotheses that are alive at the limit are cut. `cut` says what becomes of them:
//   last    results are sorted with finished ones before cut ones (a loop's mean log-probability
//           tends to 0, so by rank alone it would win), then by rank, the earlier first at equal
//           rank.
//   ranked  at the limit the first `beam` continuations are finished whether or not they end, the
//           others dropped, and results are sorted by rank alone.
// So a beam of 1 is greedy search: the likeliest token, the lower one at equal
// likelihood, until END; and, with the defaults, a beam wide enough to drop nothing is exhaustive
// search. With `ranked` and without rank_prefix it is the beam search of transformers, whose values
// of early_stopping are True, False and "never".
//
// The rank of a hypothesis is its sum / n^length_penalty, n being its number of tokens, prefix and
// END included. The first `forced` tokens of a prefix count in n, but not in the sum; without
// rank_prefix the others count in neither. A forced_end adds 0 to the sum. (The score of a
// hypothesis is always the sum of log p of all its tokens.)
//
// Sampling. The weight of a token is e^((x - m) / temperature) in double (base/math.h), x being
// log p, or what a repetition penalty makes of it, and m the largest x allowed. `top_k` keeps the k
// largest weights (the lower token at equal weights), `top_p` the fewest largest weights whose sum
// reaches top_p times the sum of those that top_k kept. A token is drawn in proportion to its
// weight. Samples are independent of each other and may be equal. On a GPU weights are integers,
// so the same seed draws other tokens than on the CPU.
#pragma once

#include <cstdint>
#include <string_view>

#include "tril/base/words.h"

namespace tril {

// When a beam search is done, apart from its limit: see above.
enum class EarlyStopping { yes, no, never };
template <>
struct Words<EarlyStopping> {
  static constexpr std::string_view kList[] = {"yes", "no", "never"};
};

// What becomes of hypotheses that are cut at the limit: see above.
enum class CutHypotheses { last, ranked };
template <>
struct Words<CutHypotheses> {
  static constexpr std::string_view kList[] = {"last", "ranked"};
};

// How to search, independent of the vocabulary.
struct SearchRule {
  int64_t beam = 1;    // 1: greedy
  int64_t n_best = 1;  // hypotheses wanted, at most `beam`; with `sample`, how many to draw
  double length_penalty = 0.6;  // hypotheses rank by score / length^length_penalty: see above
  EarlyStopping early_stopping = EarlyStopping::yes;
  CutHypotheses cut = CutHypotheses::last;
  // Whether the given prefix (a prompt) counts in the rank, with its score and its length.
  bool rank_prefix = true;
  // The most tokens to choose, END included; the prefix does not count, except for its forced
  // tokens. 0: as many as the model's max_length allows, which is the limit in any case.
  int64_t max_tokens = 0;
  // END is not chosen before this many tokens, counted in the same way.
  int64_t min_tokens = 0;
  // Encoder–decoders: also at most max_ratio * source tokens + 10, so that a translation that loops
  // does not do so for long. 0: no such limit.
  double max_ratio = 4.0;
  int64_t no_repeat_ngram = 0;      // no sequence of this many tokens occurs twice; 0: any may
  double repetition_penalty = 1.0;  // above 0; above 1 tokens that occurred become less likely
  bool renormalize = false;         // beams choose by probabilities over what may be chosen
  // Draw instead of taking the best; requires a beam of 1.
  bool sample = false;
  double temperature = 1.0;  // above 0
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;        // above 0, at most 1
  uint64_t seed = 1;         // draws are a function of (seed, stream, sample, position)

  // The most hypotheses alive at once, which is the number of slots a request needs.
  int64_t width() const { return sample ? n_best : beam; }
  bool operator==(const SearchRule&) const = default;
};

}  // namespace tril
