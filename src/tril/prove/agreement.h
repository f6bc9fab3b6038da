// Tests the statement tril exists for on a model: the parallel pass of training and token-by-token
// decoding are the same function.
//
// Tokens go through forward() twice: all in one call under a tape, as in training, and one token
// per call and sequence with a growing cache, as in decoding. The logits of every position are
// compared as bit patterns. The tokens are
//   teacher-forced  given;
//   greedy          written by search(), the likeliest token after each;
//   beam            written by search(), several hypotheses at a time that continue in forks of
//                   each other's cache; every one goes through the parallel pass, even those that
//                   fell out of the beam, and the logits along its own history are compared.
// Alone: one sentence per call. In batches: the parallel pass has all sentences packed end to end
// with padding between them; step by step, given ones join one after another and leave when they
// are done, and a search has room for half of them, so that slots are refilled and calls have rows
// at many positions. The encoder's results for each source, its outputs and the keys and values
// that cross-attention reads, are compared too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tril/base/words.h"
#include "tril/prove/pairs.h"

namespace tril {

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

struct AgreementOptions {
  Writing writing = Writing::teacher_forced;
  Company company = Company::alone;
  // Greedy and beam: see SearchOptions.
  int64_t max_tokens = 12;
  int32_t start = 2;
  std::vector<int32_t> forced{};  // what every target begins with after START: a language
  int32_t end = 3;
  std::vector<int32_t> forbidden{};
  int64_t beam = 4;
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

// Uses the session's masking, hooks and cache, and releases everything it took from the cache.
// Raises what encode(), forward() and search() raise.
Agreement compare_parallel_with_stepwise(const Transformer& model, std::span<const TokenPair> pairs,
                                         Session& session, const AgreementOptions& options = {});

}  // namespace tril
