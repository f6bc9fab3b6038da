#include "tril/translate/translator.h"

#include <algorithm>

#include "tril/base/fingerprint.h"
#include "tril/base/parallel.h"
#include "tril/translate/state.h"

namespace tril {
namespace {

constexpr auto kBad = ErrorCode::invalid_argument;

void check_fit(const Tokenizer& tokenizer, const TransformerConfig& config,
               std::string_view tokenizer_file, std::string_view config_file) {
  const int64_t pieces = tokenizer.vocab();
  if (config.decoder_only()) {
    require(pieces == config.target_vocab, ErrorCode::bad_format, tokenizer_file, " has ", pieces,
            " pieces, ", config_file, " has target_vocab ", config.target_vocab,
            ": they are not of one model");
    return;
  }
  require(pieces == config.source_vocab && pieces == config.target_vocab, ErrorCode::bad_format,
          tokenizer_file, " has ", pieces, " pieces, ", config_file, " has source_vocab ",
          config.source_vocab, " and target_vocab ", config.target_vocab,
          ": they are not of one model");
}

bool has_word(std::span<const std::string> pieces) {
  const std::vector<int32_t> words = words_of(pieces);
  return std::any_of(words.begin(), words.end(), [](int32_t word) { return word >= 0; });
}

// One call of translate(): lines to requests, results to text.
class TranslationCall {
 public:
  TranslationCall(TranslatorState& state, const NextText& next, const TranslationDone& done,
                  const TranslateOptions& options)
      : state_(state),
        next_(next),
        options_(options),
        config_(state.model.config()),
        search_{options.search, state.tokenizer.start(), state.tokenizer.end(), state.forbidden,
                options.shortlist},
        ready_(done),
        bad_("translate", options.bad_lines),
        session_(state) {
    require(!options.alignments || !config_.decoder_only(), ErrorCode::unsupported,
            "translate: a decoder-only model has no alignments");
    state.check_shortlist("translate", options.shortlist);
    require(options.window >= 1, kBad, "translate: window must be at least 1, got ",
            options.window);
  }

  void run() {
    search(
        state_.model, search_, options_.slots, [this] { return next_request(); },
        [this](SearchResult&& result) { return ready_.put(translation_of(std::move(result))); },
        *session_);
    if (!ready_.stopped()) bad_.raise();
  }

 private:
  std::optional<SearchRequest> next_request() {
    while (!ready_.stopped() && !bad_.failed() && taken_ - ready_.next() < options_.window) {
      std::optional<TextRequest> text = next_();
      if (!text) break;
      SearchRequest request;
      request.number = taken_++;
      if (!bad_.accept(request.number, [&] { prepare(*text, request); })) {
        if (!bad_.failed()) ready_.put(empty_translation(request.number, bad_.reason()));
      } else if (says_nothing(request)) {
        ready_.put(empty_translation(request.number, {}));
      } else {
        if (options_.alignments) sources_.emplace(request.number, request.source);
        return request;
      }
    }
    return std::nullopt;
  }

  void prepare(const TextRequest& text, SearchRequest& request) const {
    const Tokenizer& tokenizer = state_.tokenizer;
    require(text.fault.empty(), kBad, text.fault);
    if (config_.decoder_only()) {
      require(text.prefix.empty(), kBad,
              "a prefix, but the model has no encoder: the line itself "
              "is what is continued");
      request.prefix = tokenizer.encode(text.line);
      check_length("the line", request.prefix.size(), config_.max_length - 1);
      return;
    }
    request.source = tokenizer.encode(text.line);
    request.source.push_back(tokenizer.end());
    check_length("the line", request.source.size(), config_.max_length);
    if (text.prefix.empty()) return;
    request.prefix = tokenizer.encode(text.prefix);
    check_length("the prefix", request.prefix.size(), config_.max_length - 1);
  }

  static void check_length(std::string_view what, size_t tokens, int64_t most) {
    require(static_cast<int64_t>(tokens) <= most, kBad, what, " has ", tokens,
            " tokens, the model takes ", most, " at most: split it");
  }

  bool says_nothing(const SearchRequest& request) const {
    if (config_.decoder_only()) return false;
    return !has_word(state_.pieces_of(std::span(request.source).first(request.source.size() - 1)));
  }

  static Translation empty_translation(int64_t number, const std::string& skipped) {
    Translation empty;
    empty.number = number;
    empty.hypotheses.emplace_back().ended = true;  // nothing of it was cut
    empty.skipped = skipped;
    return empty;
  }

  Translation translation_of(SearchResult&& result) {
    Translation translation;
    translation.number = result.number;
    for (Hypothesis& h : result.hypotheses) {
      TextHypothesis& text = translation.hypotheses.emplace_back();
      text.text = state_.tokenizer.decode(h.tokens);
      text.pieces = state_.pieces_of(h.tokens);
      text.tokens = std::move(h.tokens);
      text.log_probs = std::move(h.log_probs);
      text.score = h.score;
      text.rank = h.rank;
      text.ended = h.ended;
      if (options_.alignments) add_alignment(sources_.at(result.number), text);
    }
    sources_.erase(result.number);
    return translation;
  }

  void add_alignment(const std::vector<int32_t>& source, TextHypothesis& text) {
    text.alignment = align(state_.model, source, text.tokens, {.start = search_.start}, *session_);
    const auto source_pieces = state_.pieces_of(std::span(source).first(source.size() - 1));
    const size_t words = text.tokens.size() - (text.ended ? 1 : 0);
    text.links = link_words(text.alignment, words_of(source_pieces),
                            words_of(std::span(text.pieces).first(words)));
  }

  TranslatorState& state_;
  const NextText& next_;
  const TranslateOptions& options_;
  const TransformerConfig& config_;
  const SearchOptions search_;
  InOrder<Translation> ready_;
  BadLines bad_;
  BorrowedSession session_;
  int64_t taken_ = 0;
  std::map<int64_t, std::vector<int32_t>> sources_;  // of lines under way, for alignments
};

// The model of a folder with the tokenizer of the same folder.
Translator with_tokenizer(Transformer model, const std::string& folder, int threads,
                          const LoadOptions& options) {
  const std::string file = folder + "/tokenizer.model";
  std::string bytes = read_model_file(folder, kTokenizerFile);
  const FolderSeal& seal = model.seal();
  const bool sealed = !options.any_files && seal.check(folder, kTokenizerFile, bytes);
  if (!sealed && !options.any_files && seal.sealed() && options.notice) {
    options.notice(
        {Field{"seal"},
         concat(file, ": not sealed with the weights, so damage to it would go unnoticed")});
  }
  Tokenizer tokenizer = Tokenizer::from_bytes(std::move(bytes), file);
  check_fit(tokenizer, model.config(), file, folder + "/config.json");
  return {std::move(model), std::move(tokenizer), threads};
}

}  // namespace

TranslatorState::TranslatorState(Transformer transformer, Tokenizer pieces, int thread_count)
    : model(std::move(transformer)),
      tokenizer(std::move(pieces)),
      threads(thread_count),
      forbidden(tokenizer.unwritable()),
      fingerprint(hexadecimal(file_fingerprint(tokenizer.bytes()))),
      max_idle(static_cast<size_t>(Parallel().threads())) {}

std::vector<std::string> TranslatorState::pieces_of(std::span<const int32_t> tokens) const {
  std::vector<std::string> pieces;
  pieces.reserve(tokens.size());
  for (const int32_t token : tokens) pieces.push_back(tokenizer.piece(token));
  return pieces;
}

void TranslatorState::check_shortlist(std::string_view operation,
                                      const std::optional<Shortlist>& shortlist) const {
  if (!shortlist) return;
  require(shortlist->tokenizer() == fingerprint, kBad, operation,
          ": the shortlist was made with another tokenizer: 'tril shortlist' makes one for this "
          "model");
}

BorrowedSession::BorrowedSession(TranslatorState& state) : state_(state) {
  {
    const std::lock_guard lock(state.mutex);
    if (!state.idle.empty()) {
      session_ = std::move(state.idle.back());
      state.idle.pop_back();
    }
  }
  if (session_ == nullptr) session_ = std::make_unique<Session>(state.model, state.threads);
}

BorrowedSession::~BorrowedSession() {
  try {
    const std::lock_guard lock(state_.mutex);
    if (state_.idle.size() < state_.max_idle) state_.idle.push_back(std::move(session_));
  } catch (...) {  // no memory for the list: the next call makes another session
  }
}

Translator::Translator(Transformer model, Tokenizer tokenizer, int threads) {
  check_fit(tokenizer, model.config(), "the tokenizer", "the model");
  state_ = std::make_shared<TranslatorState>(std::move(model), std::move(tokenizer), threads);
}

Translator Translator::load(const std::string& folder, int threads, const Placement& placement,
                            const LoadOptions& options) {
  return with_tokenizer(Transformer::load(folder, placement, options), folder, threads, options);
}

Translator Translator::load_for_inference(const std::string& folder, int threads,
                                          std::optional<Compute> compute,
                                          const LoadOptions& options) {
  return with_tokenizer(Transformer::load_for_inference(folder, compute, options), folder, threads,
                        options);
}

const Transformer& Translator::model() const { return state_->model; }
const Tokenizer& Translator::tokenizer() const { return state_->tokenizer; }

std::string Translator::translate(std::string_view line) const {
  const std::string copy(line);
  return translate(std::span(&copy, 1)).front().text();
}

std::vector<Translation> Translator::translate(std::span<const std::string> lines,
                                               const TranslateOptions& options) const {
  std::vector<Translation> translations;
  size_t taken = 0;
  translate(
      [&]() -> std::optional<TextRequest> {
        if (taken == lines.size()) return std::nullopt;
        return TextRequest{lines[taken++]};
      },
      [&](Translation&& translation) {
        translations.push_back(std::move(translation));
        return true;
      },
      options);
  return translations;
}

void Translator::translate(const NextText& next, const TranslationDone& done,
                           const TranslateOptions& options) const {
  TranslationCall(*state_, next, done, options).run();
}

}  // namespace tril
