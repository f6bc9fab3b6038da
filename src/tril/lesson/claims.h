// Every claim that lecture notes on masked attention make, with its verdict, and the experiment
// that decides it.
//
// The catalogue says what is claimed and what is true. check_claim() runs the experiment and says
// whether the catalogue's verdict comes out, with the figure that decides. The experiments are the
// lessons and the proof; a ClaimLab keeps the results, so that claims based on the same lesson run
// it once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tril/base/words.h"
#include "tril/models/session.h"
#include "tril/tensor/context.h"
#include "tril/translate/translator.h"

namespace tril {

enum class Verdict { holds, holds_if, does_not_hold };
template <>
struct Words<Verdict> {
  static constexpr std::string_view kList[] = {"holds", "holds if", "does not hold"};
};

struct Claim {
  int number = 0;           // 1 to 44, as in the guide
  std::string_view part{};  // the chapter it belongs to
  std::string_view says{};  // the claim, in our words
  Verdict verdict{};
  std::string_view answer{};   // what is true, in one to three sentences
  std::string_view command{};  // the experiment in full, without the program's name
  std::string_view page{};     // of the guide, with its picture
};

std::span<const Claim> claims();        // in order
const Claim& claim_number(int number);  // raises `invalid_argument` for an invalid number

struct ClaimFinding {
  bool as_stated = false;  // the measurement confirms the verdict
  std::string figure{};    // what was measured, in a line or two
};

struct ClaimLabOptions {
  int threads = 0;
  uint64_t seed = 1;
  // Faults, for tests that must be able to fail.
  TestHooks hooks{};
  Masking masking = Masking::causal;
  // The machine's peak, for claims about its use; 0: unknown.
  double peak_gflops = 0.0;
  // The current activity: a lesson's name, and its progress if known (else `all` is 0). May be
  // empty.
  std::function<void(std::string_view what, int64_t done, int64_t all)> progress{};
};

class ClaimLab {
 public:
  // Claims about trained models are tested on `translator`; without one, a small model is trained
  // on the phrasebook when it is first needed.
  explicit ClaimLab(const ClaimLabOptions& options = {},
                    std::optional<Translator> translator = std::nullopt);
  ~ClaimLab();
  ClaimLab(const ClaimLab&) = delete;
  ClaimLab& operator=(const ClaimLab&) = delete;

  struct Results;  // claim_results.h
  Results& results() { return *results_; }

 private:
  std::unique_ptr<Results> results_;
};

ClaimFinding check_claim(int number, ClaimLab& lab);

}  // namespace tril
