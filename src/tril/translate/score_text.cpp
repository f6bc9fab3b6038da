// Translator::score(): lines to requests, scores back in the order of the lines.
#include "tril/decode/score.h"
#include "tril/translate/state.h"
#include "tril/translate/translator.h"

namespace tril {
namespace {

constexpr int64_t kWindow = 1024;  // lines in flight at most

class ScoreCall {
 public:
  ScoreCall(TranslatorState& state, const NextScoreText& next, const TextScoreDone& done,
            const ScoreTextOptions& options)
      : state_(state),
        next_(next),
        options_(options),
        config_(state.model.config()),
        ready_(done),
        bad_("score", options.bad_lines),
        session_(state),
        languages_(state.checked_languages(options.languages)) {
    state.check_shortlist("score", options.shortlist);
  }

  void run() {
    score(
        state_.model, {.start = state_.start(languages_), .shortlist = options_.shortlist},
        [this] { return next_request(); },
        [this](ScoreResult&& result) { return put(std::move(result)); }, *session_);
    if (!ready_.stopped()) bad_.raise();
  }

 private:
  std::optional<ScoreRequest> next_request() {
    while (!ready_.stopped() && !bad_.failed() && taken_ - ready_.next() < kWindow) {
      std::optional<ScoreTextRequest> text = next_();
      if (!text) break;
      ScoreRequest request;
      request.number = taken_++;
      if (bad_.accept(request.number, [&] { prepare(*text, request); })) {
        targets_.emplace(request.number, request.target);
        return request;
      }
      TextScore skipped;
      skipped.number = request.number;
      skipped.skipped = bad_.reason();
      if (!bad_.failed()) ready_.put(std::move(skipped));
    }
    return std::nullopt;
  }

  void prepare(const ScoreTextRequest& text, ScoreRequest& request) const {
    const Tokenizer& tokenizer = state_.tokenizer;
    require(text.fault.empty(), ErrorCode::invalid_argument, text.fault);
    if (config_.decoder_only()) {
      require(text.source.empty(), ErrorCode::invalid_argument,
              "a source, but the model has no encoder");
    } else {
      request.source = tokenizer.encode_source(text.source, languages_);
      check_length("source", request.source);
    }
    if (text.target_tokens) {
      request.target = *text.target_tokens;
      for (const int32_t token : request.target) {
        require(token >= 0 && token < config_.target_vocab, ErrorCode::invalid_argument, "token ",
                token, " is not below the vocabulary of ", config_.target_vocab);
      }
    } else {
      request.target = tokenizer.encode_target(text.target, languages_);
      // What the tokenizer does not put there itself.
      if (!config_.decoder_only() && tokenizer.target_prefix(languages_).empty()) {
        const std::vector<int32_t> first = state_.forced_first(languages_);
        request.target.insert(request.target.begin(), first.begin(), first.end());
      }
    }
    check_length("target", request.target);
    if (!text.prefix.empty()) request.prefix = tokenizer.encode(text.prefix, TextSide::target);
  }

  void check_length(std::string_view what, const std::vector<int32_t>& tokens) const {
    require(static_cast<int64_t>(tokens.size()) <= config_.max_length, ErrorCode::invalid_argument,
            "the ", what, " has ", tokens.size(), " tokens, the model takes ", config_.max_length,
            " at most");
  }

  bool put(ScoreResult&& result) {
    TextScore text;
    text.number = result.number;
    text.tokens = std::move(targets_.at(result.number));
    targets_.erase(result.number);
    text.pieces = state_.pieces_of(text.tokens);
    text.log_probs = std::move(result.log_probs);
    text.score = result.score;
    return ready_.put(std::move(text));
  }

  TranslatorState& state_;
  const NextScoreText& next_;
  const ScoreTextOptions& options_;
  const TransformerConfig& config_;
  InOrder<TextScore> ready_;
  BadLines bad_;
  BorrowedSession session_;
  const LanguagePair languages_;
  int64_t taken_ = 0;
  std::map<int64_t, std::vector<int32_t>> targets_;  // of lines in flight
};

}  // namespace

void Translator::score(const NextScoreText& next, const TextScoreDone& done,
                       const ScoreTextOptions& options) const {
  ScoreCall(*state_, next, done, options).run();
}

}  // namespace tril
