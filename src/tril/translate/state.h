// The state behind a Translator, and the building blocks of its calls. Internal to translate/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/function.h"
#include "tril/translate/piece_letters.h"
#include "tril/translate/served_engine.h"
#include "tril/translate/translator.h"

namespace tril {

struct TranslatorState {
  TranslatorState(Transformer transformer, Tokenizer pieces, int thread_count,
                  GenerationSettings settings);

  const Transformer model;
  const Tokenizer tokenizer;
  const GenerationSettings generation;
  const int threads;
  const std::vector<int32_t> forbidden;  // by the tokenizer, computed once
  const std::string fingerprint;         // of the tokenizer, as a shortlist records it

  // For scores and alignments: idle sessions, at most as many as there are cores. More are created
  // when more calls run at once, and destroyed with their calls.
  const size_t max_idle;
  std::mutex mutex;
  std::vector<std::unique_ptr<Session>> idle;  // guarded by the mutex

  // Of recent calls, the last one first, to be shared by later ones that have the same: the engine
  // then derives nothing anew. Guarded by the mutex.
  struct KnownOptions {
    std::shared_ptr<const SearchOptions> search;
    std::vector<std::vector<int32_t>> forbidden;  // by the call
  };
  std::vector<KnownOptions> known_options;

  // For doubt_about(), made when it is first called.
  std::once_flag letters_made;
  std::unique_ptr<const PieceLetters> letters;

  ServedEngine engine;  // decodes for all callers

  SearchOptions search_options(const TranslateOptions& options) const;
  std::shared_ptr<const SearchOptions> shared_options(const TranslateOptions& options);
  // As Translator::languages_for(), which raises for what this leaves to the tokenizer.
  LanguagePair languages_for(const LanguagePair& named) const;
  LanguagePair checked_languages(const LanguagePair& named) const;
  // With languages that languages_for() gave.
  std::vector<int32_t> forced_first(const LanguagePair& languages) const;
  std::optional<int32_t> start(const LanguagePair& languages) const {
    return tokenizer.has_start() ? std::optional(tokenizer.start(languages)) : std::nullopt;
  }
  std::vector<std::string> pieces_of(std::span<const int32_t> tokens,
                                     TextSide side = TextSide::target) const;
  // Raises `invalid_argument` for a shortlist that was made with another tokenizer.
  void check_shortlist(std::string_view operation, const std::optional<Shortlist>& shortlist) const;
};

// A session borrowed for one call.
class BorrowedSession {
 public:
  explicit BorrowedSession(TranslatorState& state);
  ~BorrowedSession();
  BorrowedSession(const BorrowedSession&) = delete;
  BorrowedSession& operator=(const BorrowedSession&) = delete;

  Session& operator*() { return *session_; }

 private:
  TranslatorState& state_;
  std::unique_ptr<Session> session_;
};

// Delivers results in the order of their numbers, from `first` on, whatever order they arrive in.
template <class Result>
class InOrder {
 public:
  explicit InOrder(const Function<bool(Result&&)>& done, int64_t first = 0)
      : done_(done), next_(first) {}

  // False once `done` wants no more.
  bool put(Result&& result) {
    const int64_t number = result.number;
    held_.emplace(number, std::move(result));
    while (!stopped_ && !held_.empty() && held_.begin()->first == next_) {
      Result ready = std::move(held_.begin()->second);
      held_.erase(held_.begin());
      ++next_;
      stopped_ = !done_(std::move(ready));
    }
    return !stopped_;
  }
  int64_t next() const { return next_; }  // the number to be delivered next
  bool stopped() const { return stopped_; }

 private:
  const Function<bool(Result&&)>& done_;
  std::map<int64_t, Result> held_;
  int64_t next_;
  bool stopped_ = false;
};

// Handles lines that cannot be used.
class BadLines {
 public:
  BadLines(std::string_view operation, BadLine policy) : operation_(operation), policy_(policy) {}

  // Calls `prepare` for a line. False if that raised `invalid_argument`: the line is to be skipped,
  // for reason(); or, if bad lines are errors, no more lines are to be read: failed().
  template <class F>
  bool accept(int64_t number, const F& prepare) {
    try {
      prepare();
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      reason_ = error.what();
      if (policy_ == BadLine::error) {
        error_ = concat(operation_, ": line ", number + 1, ": ", reason_);
      }
      return false;
    }
  }
  const std::string& reason() const { return reason_; }
  bool failed() const { return !error_.empty(); }
  // Raises the error of a bad line; to be called when all lines before it are done.
  void raise() const {
    if (failed()) fail(ErrorCode::invalid_argument, error_);
  }

 private:
  std::string_view operation_;
  BadLine policy_;
  std::string reason_, error_;
};

}  // namespace tril
