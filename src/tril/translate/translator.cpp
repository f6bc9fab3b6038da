#include "tril/translate/translator.h"

#include <algorithm>

#include "tril/base/fingerprint.h"
#include "tril/base/parallel.h"
#include "tril/translate/state.h"

namespace tril {
namespace {

void check_fit(const Tokenizer& tokenizer, const TransformerConfig& config,
               std::string_view tokenizer_file, std::string_view config_file) {
  const int64_t pieces = tokenizer.vocab(TextSide::target);
  if (config.decoder_only()) {
    require(pieces == config.target_vocab, ErrorCode::bad_format, tokenizer_file, " has ", pieces,
            " pieces, ", config_file, " has target_vocab ", config.target_vocab,
            ": they are not of one model");
    return;
  }
  require(tokenizer.vocab(TextSide::source) == config.source_vocab && pieces == config.target_vocab,
          ErrorCode::bad_format, tokenizer_file, " has ", pieces, " pieces, ", config_file,
          " has source_vocab ", config.source_vocab, " and target_vocab ", config.target_vocab,
          ": they are not of one model");
}

// The model of a folder with the folder's tokenizer.
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
      fingerprint(hexadecimal(tokenizer_fingerprint(tokenizer.bytes()))),
      max_idle(static_cast<size_t>(Parallel().threads())),
      engine(model, threads) {}

std::shared_ptr<const SearchOptions> TranslatorState::options_for(
    const SearchRule& rule, const std::optional<Shortlist>& shortlist,
    const LanguagePair& languages) {
  const int32_t start = tokenizer.start(languages);
  const std::lock_guard lock(mutex);
  const bool same = last_options != nullptr &&
                    static_cast<const SearchRule&>(*last_options) == rule &&
                    last_options->shortlist == shortlist && last_options->start == start;
  if (!same) {
    last_options = std::make_shared<const SearchOptions>(
        SearchOptions{rule, start, tokenizer.end(), forbidden, shortlist});
  }
  return last_options;
}

std::vector<std::string> TranslatorState::pieces_of(std::span<const int32_t> tokens,
                                                    TextSide side) const {
  std::vector<std::string> pieces;
  pieces.reserve(tokens.size());
  for (const int32_t token : tokens) pieces.push_back(tokenizer.piece(token, side));
  return pieces;
}

void TranslatorState::check_shortlist(std::string_view operation,
                                      const std::optional<Shortlist>& shortlist) const {
  if (!shortlist) return;
  require(shortlist->tokenizer() == fingerprint, ErrorCode::invalid_argument, operation,
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
  } catch (...) {  // no memory for the list: the next call creates another session
  }
}

Translator::Translator(Transformer model, Tokenizer tokenizer, int threads) {
  check_fit(tokenizer, model.config(), "the tokenizer", "the model");
  state_ = std::make_shared<TranslatorState>(std::move(model), std::move(tokenizer), threads);
}

Translator Translator::load(const std::string& folder, const LoadOptions& options, int threads) {
  return with_tokenizer(Transformer::load(folder, options), folder, threads, options);
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

}  // namespace tril
