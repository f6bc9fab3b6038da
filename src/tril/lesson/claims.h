// Every claim that lecture notes on masked attention make, with its verdict, and the experiment
// that decides it.
//
// The catalogue says what is claimed and what is true of it. check_claim() runs the experiment and
// says whether the verdict of the catalogue is what comes out, with the figure that decides.
// Experiments are the lessons and the proof; a ClaimLab keeps what has been run, so that claims
// that rest on the same lesson run it once.
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
  std::string_view answer{};   // what is true, in a sentence or three
  std::string_view command{};  // the experiment in full, without the program's name
  std::string_view page{};     // of the guide, with its picture
};

std::span<const Claim> claims();        // in order
const Claim& claim_number(int number);  // raises `invalid_argument` for one that is none

struct ClaimFinding {
  bool as_stated = false;  // what was measured is what the verdict says
  std::string figure{};    // what was measured, in a line or two
};

struct ClaimLabOptions {
  int threads = 0;
  uint64_t seed = 1;
  // Faults, for tests that must be able to fail.
  TestHooks hooks{};
  Masking masking = Masking::causal;
  // Of the machine, for claims about its use; 0: not known.
  double peak_gflops = 0.0;
  // What is being done now: a lesson's name, and how far it is where that is known (all is 0 where
  // not). May be empty.
  std::function<void(std::string_view what, int64_t done, int64_t all)> progress{};
};

class ClaimLab {
 public:
  // `translator` is the model that claims about trained models are put to; without one a small one
  // learns the phrasebook when it is first needed.
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
