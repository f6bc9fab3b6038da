// Tokenizer::train(): what tril settles itself, so that a tokenizer is lossless and has the same
// bytes on every machine.
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "tril/base/error.h"
#include "tril/text/tokenizer.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr auto kInvalid = ErrorCode::invalid_argument;
constexpr std::string_view kBlankMark = "\u2581";    // SentencePiece's blank
constexpr std::string_view kUnknownMark = "\u2585";  // its trainer's uncovered character

constexpr int64_t kSpecialsAndBytes = 4 + 256;
constexpr int64_t kMaxVocab = 1'000'000;  // SentencePiece's unigram training starts with this many
// SentencePiece's BPE counts the characters of a word in 15 bits without a check; NFKC makes up to
// two characters of one byte (U+3316).
constexpr int64_t kMaxLineBytes = 16'000;
constexpr int64_t kMaxTextBytes = 1 << 30;  // its suffix array counts in 31 bits
constexpr int kThreads = 4;  // sums are split by it, so it must not depend on the machine
constexpr std::string_view kFatalOnly = "3";  // log level

void check_utf8(std::string_view line, const std::string& what) {
  if (const auto fault = first_invalid_utf8(line)) {
    fail(kInvalid, "tokenizer: ", what, " is not UTF-8 at byte ", *fault + 1);
  }
}

// SentencePiece ends the whole program when the system starts only some of its threads.
void check_threads() {
  std::vector<std::thread> threads;
  std::mutex running;
  const auto stop = [&] {
    for (std::thread& thread : threads) thread.join();
  };
  try {
    const std::lock_guard all_at_once(running);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] { const std::lock_guard wait(running); });
    }
  } catch (const std::system_error& error) {
    stop();
    fail(ErrorCode::internal, "tokenizer: the ", kThreads,
         " threads that learn it could not be started: ", error.code().message());
  }
  stop();
}

}  // namespace

void check(const TokenizerOptions& options) {
  require(1 <= options.vocab && options.vocab <= kMaxVocab, kInvalid, "tokenizer: vocab is ",
          options.vocab, ", expected 1 to ", kMaxVocab);
  require(0.98 <= options.coverage && options.coverage <= 1.0, kInvalid, "tokenizer: coverage is ",
          options.coverage, ", expected 0.98 to 1");
  require(1 <= options.max_line_bytes && options.max_line_bytes <= kMaxLineBytes, kInvalid,
          "tokenizer: max_line_bytes is ", options.max_line_bytes, ", expected 1 to ",
          kMaxLineBytes);
}

namespace {

// Passes lines to SentencePiece, except those it would not learn from. An exception may not pass
// through it, so one ends the text and is kept for the caller.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  Lines(const Function<bool(std::string&)>& next, int64_t max_line_bytes)
      : next_(next), max_line_bytes_(max_line_bytes) {
    Next();
  }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override {
    using sentencepiece::util::Status;
    return error_ ? Status(sentencepiece::util::StatusCode::kAborted, "no more lines") : Status();
  }
  void Next() override {
    try {
      do {
        done_ = !next_(line_);
      } while (!done_ && !learnable());
    } catch (...) {
      error_ = std::current_exception();
      done_ = true;
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  const TokenizerReport& report() const { return report_; }

 private:
  bool learnable() {
    check_utf8(line_, concat("line ", report_.lines + report_.skipped + 1));
    const auto bytes = static_cast<int64_t>(line_.size());
    if (bytes == 0 || bytes > max_line_bytes_ || line_.find(kBlankMark) != std::string::npos ||
        line_.find(kUnknownMark) != std::string::npos) {
      ++report_.skipped;
      return false;
    }
    ++report_.lines;
    bytes_ += bytes;
    require(bytes_ <= kMaxTextBytes, kInvalid, "tokenizer: more than ", kMaxTextBytes,
            " bytes of text to learn from: choose fewer lines");
    return true;
  }

  const Function<bool(std::string&)>& next_;
  const int64_t max_line_bytes_;
  std::string line_;
  TokenizerReport report_;
  int64_t bytes_ = 0;
  bool done_ = false;
  std::exception_ptr error_;
};

std::unordered_map<std::string, std::string> trainer_arguments(const TokenizerOptions& options) {
  return {
      {"model_type", options.type == TokenizerType::bpe ? "bpe" : "unigram"},
      {"normalization_rule_name",
       options.normalization == Normalization::identity ? "identity" : "nfkc"},
      // With a smaller number SentencePiece would not get as far as saying how many it needs.
      {"vocab_size", concat(std::max(options.vocab, kSpecialsAndBytes))},
      {"character_coverage", concat(options.coverage)},
      {"max_sentence_length", concat(kMaxLineBytes)},
      {"pad_id", concat(Tokenizer::kPad)},
      {"unk_id", concat(Tokenizer::kUnknown)},
      {"bos_id", concat(Tokenizer::kStart)},
      {"eos_id", concat(Tokenizer::kEnd)},
      {"required_chars", std::string(kBlankMark)},  // whatever the coverage
      {"byte_fallback", "true"},
      {"remove_extra_whitespaces", "false"},
      {"hard_vocab_limit", "false"},  // take fewer pieces where the text does not have as many
      {"num_threads", concat(kThreads)},
      {"minloglevel", std::string(kFatalOnly)},
  };
}

// SentencePiece reports the required size of the vocabulary only as text: "... 100 vs 268. Increase
// ...".
std::optional<int64_t> smallest_vocab(std::string_view message) {
  const std::string_view before = "Vocabulary size is smaller than required_chars. ";
  size_t at = message.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  at = message.find(" vs ", at + before.size());
  if (at == std::string_view::npos) return std::nullopt;
  int64_t number = 0;
  for (at += 4; at < message.size() && '0' <= message[at] && message[at] <= '9'; ++at) {
    number = number * 10 + (message[at] - '0');
  }
  return number;
}

}  // namespace

Tokenizer Tokenizer::train(const Function<bool(std::string& line)>& next,
                           const TokenizerOptions& options, TokenizerReport* report) {
  check(options);
  check_threads();
  Lines lines(next, options.max_line_bytes);
  std::string bytes;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train(trainer_arguments(options), &lines, &bytes);
  lines.rethrow();
  if (report != nullptr) *report = lines.report();
  require(lines.report().lines > 0, kInvalid,
          "tokenizer: no line to learn from: ", lines.report().skipped,
          " came, each of them empty, too long or with U+2581 or U+2585");
  if (const auto smallest = smallest_vocab(status.ToString())) {
    fail(kInvalid, "tokenizer: a vocabulary of ", options.vocab,
         " is too small for the characters of the text: it takes ", *smallest);
  }
  require(status.ok(), ErrorCode::internal, "tokenizer: SentencePiece: ", status.ToString());
  return from_bytes(std::move(bytes), "what SentencePiece learnt");
}

}  // namespace tril
