// What a proof found: the figures of its five sections. Each is counted or measured in
// the run; the comments of the headers named here say how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/compute.h"
#include "tril/base/gamma.h"
#include "tril/base/words.h"
#include "tril/models/config.h"
#include "tril/prove/prove.h"
#include "tril/tensor/placement.h"

namespace tril {

// ---- 1: training against inference (table.h)
struct TableEvidence {
  // The same weights. FNV-1a of all parameters in memory, before and after the sentence went both
  // ways; and one weight changed for a moment: how many logits of each way changed with it.
  uint64_t weights_before = 0, weights_after = 0;
  int64_t tensors = 0;
  std::string nudged;  // the parameter whose first weight was changed
  int64_t logits = 0;  // of the sentence, in each way
  int64_t moved_in_training = 0, moved_in_inference = 0;

  // The same mask: the keys each row was given, as the first and one past the last, as the model's
  // first layer received them; counted from the sentence's start.
  struct Seen {
    int64_t begin = 0, end = 0;
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> mask_in_training, mask_in_inference;

  // Where the mask is needed: rows whose logits change when it is removed, in the training pass; in
  // inference when everything written so far comes in one call; and when each token comes alone.
  int64_t unmasked_training_rows = 0, unmasked_call_rows = 0, unmasked_step_rows = 0;

  // What goes in, as the model received it, and what it predicts after each token: the likeliest of
  // the tokens it may write, the lower one at equal probability. In training the sentence goes in;
  // in inference, greedily, START and what it wrote.
  std::vector<int32_t> given;  // the sentence
  std::vector<int32_t> fed_in_training, predicted_in_training;
  std::vector<int32_t> fed_in_inference, predicted_in_inference;
  int64_t mistaken = 0;   // positions in training whose prediction is not the next token
  int64_t followed = 0;   // of these, where the prediction was fed in all the same
  int64_t forced = 0;     // tokens fed in inference after START because they must come first
  int64_t own_words = 0;  // tokens fed in inference, after these, that had just been predicted

  // Calls of forward() for the sentence, counted in the model, and their rows.
  int64_t training_calls = 0, training_rows = 0;
  int64_t inference_calls = 0, inference_rows = 0;  // for fed_in_inference

  bool weights_untouched() const { return weights_before == weights_after; }
  bool same_weights() const {
    return weights_untouched() && moved_in_training > 0 && moved_in_inference > 0;
  }
  bool same_mask() const {
    return !mask_in_training.empty() && mask_in_training == mask_in_inference;
  }
  bool mask_needed_in_training() const { return unmasked_training_rows > 0; }
  bool mask_needed_in_inference() const { return unmasked_call_rows > 0; }
  bool mask_needed() const { return mask_needed_in_training() && mask_needed_in_inference(); }
  // In training the given tokens go in, whatever was predicted; in inference the predictions do.
  bool teacher_forced() const { return fed_in_training == given && followed == 0; }
  bool reads_what_it_wrote() const {
    return !fed_in_inference.empty() &&
           own_words == static_cast<int64_t>(fed_in_inference.size()) - 1 - forced;
  }
  bool one_call() const;      // in training, for all positions
  bool call_a_token() const;  // in inference, of one row; what is forced comes with START
  bool calls_as_stated() const { return one_call() && call_a_token(); }
  bool holds() const {
    return same_weights() && same_mask() && mask_needed() && teacher_forced() &&
           reads_what_it_wrote() && calls_as_stated();
  }
};

// ---- 2: the parallel pass against step by step (agreement.h)
enum class Writing { teacher_forced, greedy, beam };
enum class Company { alone, in_batches };

template <>
struct Words<Writing> {
  static constexpr std::string_view kList[] = {"teacher-forced", "greedy", "beam"};
};
template <>
struct Words<Company> {
  static constexpr std::string_view kList[] = {"alone", "batched"};
};

struct Agreement {
  int64_t sentences = 0;
  int64_t sequences = 0;  // sentences, or hypotheses
  int64_t positions = 0;
  int64_t logits = 0;
  int64_t differing = 0;                            // logits whose bits differ
  int64_t source_values = 0, source_differing = 0;  // the same for the encoder's results
  int64_t parallel_calls = 0;                       // of forward(), counted in the model
  int64_t stepwise_calls = 0;
  // In a search: how often a hypothesis continued in a fork of its cache, because another had taken
  // that over; how often, of these, other hypotheses had different histories, so that a wrong fork
  // would show (after START alone all are equal); and how often the model read anything but what
  // the search had chosen.
  int64_t forked = 0, moved = 0, misread = 0;

  // The first position of the first sequence whose logits differ.
  struct Place {
    int64_t sequence = 0;
    int64_t position = 0;
    bool operator==(const Place&) const = default;
  };
  std::optional<Place> first{};

  // Everything compared is equal, and something was compared.
  bool same() const {
    return logits > 0 && differing == 0 && source_differing == 0 && misread == 0;
  }
};

// ---- 3: what a row may not see does not reach it (leak.h)
enum class Poison { finite, nan, infinity, minus_infinity };
template <>
struct Words<Poison> {
  static constexpr std::string_view kList[] = {"a number", "NaN", "+inf", "-inf"};
};

// A token of a sentence; both count from 0.
struct TokenPlace {
  int64_t sentence = 0;
  int64_t position = 0;
  bool operator==(const TokenPlace&) const = default;
};

struct HeadLeak {
  int64_t layer = 0;
  int64_t head = 0;
  TokenPlace row{};  // saw something it may not see:
  TokenPlace key{};
  Poison poison = Poison::finite;
  enum class Where { output, query_gradient } where = Where::output;

  // The row's own sentence, at a later position.
  bool is_future() const { return key.sentence == row.sentence && key.position > row.position; }
};

// A head of a row that does not see something it may see.
struct BlindHead {
  int64_t layer = 0;
  int64_t head = 0;
  TokenPlace row{};
  TokenPlace key{};
};

// The keys a row was given, as the first and one past the last, counted from its sentence's start;
// and those the rule allows.
struct WrongMask {
  int64_t layer = 0;
  TokenPlace row{};
  int64_t begin = 0, end = 0;
  int64_t rule_begin = 0, rule_end = 0;
};

struct EndToEndLeak {
  TokenPlace row{};
  TokenPlace key{};
  Poison poison = Poison::finite;
  enum class Way { training, cached } way = Way::training;
};

struct LeakProbe {
  int64_t sentences = 0;
  int64_t positions = 0;                      // of all given sentences
  int64_t model_layers = 0, model_heads = 0;  // as configured
  int64_t layers = 0, heads = 0;              // as observed and probed

  // The mask in use, row by row, in every layer, in a training pass and in a cached call.
  int64_t mask_rows = 0;
  int64_t mask_wrong = 0;  // rows that were given other keys than the rule allows
  std::optional<WrongMask> first_wrong_mask;

  // At the attention.
  int64_t poisoned = 0;         // positions
  int64_t probes = 0;           // positions x layers x heads, counted as they were done
  int64_t forbidden_pairs = 0;  // (row, position it may not see), in every layer and head
  int64_t values = 0;           // outputs and query gradients compared
  int64_t unfaithful = 0;       // outputs that differ from the model's own pass: must be 0
  // Where something changed: the earliest row of each leaking head, by layer and head.
  std::vector<HeadLeak> heads_leaking;
  // The earliest row that sees a later position of its own sentence.
  std::optional<HeadLeak> first_future;
  // The control: (row, position it may see, layer, head) that NaN must reach, and the earliest per
  // head that it did not reach.
  int64_t controls = 0;
  int64_t controls_missed = 0;
  std::vector<BlindHead> heads_blind;
  // The share of positions x layers x heads of the model that was probed.
  double coverage() const {
    const int64_t all = positions * model_layers * model_heads;
    return all == 0 ? 0.0 : static_cast<double>(probes) / static_cast<double>(all);
  }

  // End to end.
  int64_t tokens_poisoned = 0;
  int64_t passes = 0;
  int64_t hidden_values = 0;               // compared
  std::optional<EndToEndLeak> end_to_end;  // the earliest row that changed
  int64_t hidden_controls = 0;             // rows that NaN must reach
  int64_t hidden_unreached = 0;            // of these, rows that it did not reach

  bool mask_as_ruled() const { return mask_rows > 0 && mask_wrong == 0; }
  bool every_head_probed() const {
    return probes > 0 && probes == poisoned * model_layers * model_heads;
  }
  // Nothing changed that must not, everything changed that must, and something was compared
  // wherever anything is forbidden.
  bool holds() const {
    const bool looked = forbidden_pairs == 0 || (values > 0 && hidden_values > 0);
    const bool sees =
        controls > 0 && controls_missed == 0 && hidden_controls > 0 && hidden_unreached == 0;
    return looked && sees && every_head_probed() && mask_as_ruled() && unfaithful == 0 &&
           heads_leaking.empty() && !end_to_end;
  }
};

// ---- 4: training prefix by prefix against all at once (sequential.h)
struct SequentialComparison {
  int64_t sequences = 0;
  int64_t positions = 0;  // rows of all targets
  int64_t longest = 0;    // target

  // Calls of forward(), counted in the model; seconds of encode, forward, loss and backward, the
  // median of three if that takes less than a second; peak memory of the steps (activations,
  // gradients, tape).
  struct Cost {
    int64_t calls = 0;
    int64_t rows = 0;  // passed to forward() over all calls
    double seconds = 0.0;
    int64_t peak_bytes = 0;
  };
  Cost parallel, sequential;
  double time_ratio() const { return sequential.seconds / parallel.seconds; }

  // What the score matrices [row, key] of all heads and layers of the decoder's self-attention
  // would take in fp32, had they been stored: heads * layers * n^2 * 4 per target.
  int64_t score_matrix_bytes = 0;

  double parallel_loss = 0.0, sequential_loss = 0.0;  // summed over the positions
  double loss_bound = 0.0;

  // 1: positions whose own gradient was compared, elements compared, and differences.
  int64_t positions_compared = 0;
  int64_t gradients_compared = 0;
  int64_t positions_differing = 0;
  std::optional<int64_t> first_differing{};  // of all positions of all targets, from 0

  // 2: the last layer's sums over rows.
  int64_t summed = 0;         // elements
  double sum_share = 0.0;     // of the bound, for the element that uses most of it; NaN: exceeded
  std::string sum_parameter;  // where
  // Over the positions, the smallest of the largest ratio between an element of its gradient and
  // the bound, searched among at most 2^24 numbers. Positions without any gradient in these
  // parameters have nothing to lose and are counted separately.
  double weakest_position = 0.0;
  int64_t silent_positions = 0;

  // 3: all parameters.
  int64_t path_terms = 0;  // K
  int64_t gradients = 0;   // elements compared
  double gradient_bound = 0.0;
  double gradient_difference = 0.0;  // the largest
  std::string worst_parameter;       // where

  double loss_difference() const;
  // The largest difference relative to the bound of 3.
  double share() const { return gradient_bound > 0.0 ? gradient_difference / gradient_bound : 0.0; }
  // False for NaN.
  bool losses_agree() const { return loss_difference() <= loss_bound; }
  bool positions_agree() const { return positions_compared > 0 && positions_differing == 0; }
  bool sums_agree() const { return summed > 0 && sum_share <= 1.0; }
  bool none_is_lost() const { return weakest_position > 1.0 || silent_positions == positions; }
  bool must_notice() const { return gamma(positions + 1) * static_cast<double>(positions) < 1.0; }
  bool gradients_agree() const {
    return positions_agree() && sums_agree() && gradient_difference <= gradient_bound;
  }
  // That no position is lost says how much the comparison is worth, and holds for models that can
  // learn: a layer norm of two features leaves only signs, and gradients behind it are only
  // rounding.
  bool holds() const {
    return losses_agree() && gradients_agree() && (none_is_lost() || !must_notice());
  }
};

// ---- 5: for every input (for_every_input.h), gradients included (every_gradient.h)
// A place in a model where the two passes differ, or a forbidden position was reached.
struct EveryInputPlace {
  Stack stack = Stack::decoder;
  int64_t layer = -1;
  std::string site{};
  int64_t head = -1;  // -1: not of one head
  int64_t position = 0;
  bool of_neighbour = false;  // a row of the neighbour
  int64_t length = 0;         // of the parallel pass; 0: step by step
  int64_t reached = -1;       // a forbidden position
  bool in_source = false;     // of the source, not of the target
  bool in_other = false;      // of the other sentence
  bool operator==(const EveryInputPlace&) const = default;
};
std::string to_string(const EveryInputPlace& place);

struct EveryInputResult {
  int64_t operations = 0;         // made in all passes
  int64_t passes = 0;             // parallel ones
  int64_t numbers = 0;            // compared, logits included
  int64_t logits = 0;             // compared
  int64_t distinct = 0;           // different expressions among the logits of one pass
  int64_t expected_distinct = 0;  // one per position and token of the vocabulary
  int64_t differing = 0;
  int64_t missing = 0;      // rows of one pass that the other does not have
  int64_t forbidden = 0;    // numbers made from a position that their row may not see
  int64_t short_reach = 0;  // logits not made from everything that their row may see
  int64_t wrong_masks = 0;  // rows whose interval is not the rule's
  std::optional<EveryInputPlace> first_difference{}, first_leak{}, first_short_reach{},
      first_wrong_mask{};
  // What the stepwise pass went through.
  int64_t cached_rows = 0;    // rows that read keys of earlier calls
  int64_t calls_alone = 0;    // calls with a single row
  int64_t copied_blocks = 0;  // of the cache, after the fork
  double seconds = 0.0;

  // Equal everywhere, complete, nothing reached, and the expressions can be told apart.
  bool holds() const {
    return logits > 0 && differing == 0 && missing == 0 && forbidden == 0 && short_reach == 0 &&
           wrong_masks == 0 && distinct == expected_distinct;
  }
  // Short sentences have no past to read from a cache.
  bool covers_decoding() const { return cached_rows > 0 && calls_alone > 0; }
};

// A gradient that differs, or is made from what its loss may not see.
struct EveryGradientPlace {
  static constexpr std::string_view kLoss = "loss";
  std::string parameter{};  // kLoss: the loss itself; empty: an activation's
  int64_t element = -1;     // of the parameter
  EveryInputPlace at{};     // the activation's row
  int64_t loss = 0;         // the loss of this position
  bool up_to = false;       // and of all before it
  int64_t reached = -1;     // a position that the loss may not see
  bool in_source = false;   // of the source
  bool in_other = false;    // of the other sentence
  bool operator==(const EveryGradientPlace&) const = default;
};
std::string to_string(const EveryGradientPlace& place);

struct EveryGradientResult {
  int64_t operations = 0;     // made in all passes
  int64_t losses = 0;         // that were differentiated in both ways
  int64_t parameters = 0;     // elements of parameters, in each
  int64_t numbers = 0;        // compared: gradients of parameters and activations, and losses
  int64_t with_gradient = 0;  // of these, in which some row's gradient takes part
  int64_t differing = 0;
  int64_t missing = 0;      // rows of one pass that the other does not have
  int64_t forbidden = 0;    // made from a position, or of a row, that the loss may not see
  int64_t short_reach = 0;  // of one row's loss, not made from everything that the row may see
  int64_t silent = 0;       // parameters, and observed sites of a layer, without any gradient
  std::optional<EveryGradientPlace> first_difference{}, first_leak{}, first_short_reach{};
  std::string first_silent{};
  double seconds = 0.0;

  bool holds() const {
    return with_gradient > 0 && differing == 0 && missing == 0 && forbidden == 0 &&
           short_reach == 0 && silent == 0;
  }
};

// ---- the report
struct AgreementLine {
  Writing writing = Writing::teacher_forced;
  Company company = Company::alone;
  // A beam that reached END before any hypothesis was forked is run again without END: then all
  // hypotheses get as long as they may.
  bool without_end = false;
  Agreement figures{};
  // A beam whose hypotheses were never forked shows nothing about forking.
  bool holds() const { return figures.same() && (writing != Writing::beam || figures.moved > 0); }
};

struct SequentialLine : SequentialCase {
  bool on_tiny_model = false;  // tiny_config_like(), because the model itself would take too long
  // A model with bf16 activations is compared in fp32: the bounds of bf16 sums would be as large as
  // the sums.
  bool in_fp32 = false;
  SequentialComparison figures{};
};

// A run of the proof for every input, with this form of weights, these kernels and these lengths. A
// weight of bf16 is one number like one of fp32, so fp32 stands for both.
struct EveryInputLine {
  Compute compute = Compute::fp32;
  OperationOrder order = OperationOrder::cpu;
  int64_t length = 0;
  bool every_length = false;   // every length up to this
  bool on_tiny_model = false;  // tiny_config_like(), because the model itself would take too long
  EveryInputResult figures{};
};

// Gradients are stored with their weights, some 80 bytes for each, so a model with more weights
// than this is never differentiated itself.
constexpr int64_t kMostGradients = 4'000'000;

// The same for gradients: the losses of every position of a sentence of this length, or of
// the last but one alone.
struct EveryGradientLine {
  int64_t length = 0;
  bool every_position = false;
  bool on_tiny_model = false;
  EveryGradientResult figures{};
};

struct ProofReport {
  int64_t sentences = 0;
  int64_t positions = 0;  // of their targets
  int64_t longest = 0;    // target in section 2; made from the sentences if none is as long
  size_t shown = 0;       // the sentence of the table: one with a wrong prediction, if there is one

  TableEvidence table;
  std::vector<AgreementLine> agreement;
  LeakProbe leaks;
  std::vector<SequentialLine> sequential;
  std::vector<EveryInputLine> every_input;
  std::vector<EveryGradientLine> every_gradient;
  // Why the model cannot be trained, so that section 4 and the gradients of section 5 have nothing
  // to show; empty: it can.
  std::string without_gradients;

  bool holds(Section section) const;
  bool holds() const { return failed().empty(); }
  std::vector<Section> failed() const;
};

}  // namespace tril
