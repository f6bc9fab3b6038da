#include "tril/translate/translator.h"

#include <algorithm>

#include "tril/base/fingerprint.h"
#include "tril/base/parallel.h"
#include "tril/io/atomic_file.h"
#include "tril/translate/state.h"

namespace tril {
namespace {

// Callers of a server ask for some combinations of options again and again.
constexpr size_t kKnownOptions = 16;

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

// A file beside the weights, compared with their seal.
std::string sealed_file(const std::string& folder, std::string_view name, const FolderSeal& seal,
                        const LoadOptions& options) {
  std::string bytes = read_model_file(folder, name);
  const bool sealed = !options.any_files && seal.check(folder, name, bytes);
  if (!sealed && !options.any_files && seal.sealed() && options.notice) {
    options.notice({Field{"seal"},
                    concat(path_in(folder, name),
                           ": not sealed with the weights, so damage to it would go unnoticed")});
  }
  return bytes;
}

// The model of a folder with the folder's tokenizer and settings.
Translator with_tokenizer(Transformer model, const std::string& folder, int threads,
                          const LoadOptions& options) {
  const std::string file = path_in(folder, kTokenizerFile);
  const FolderSeal& seal = model.seal();
  Tokenizer tokenizer =
      Tokenizer::from_bytes(sealed_file(folder, kTokenizerFile, seal, options), file);
  check_fit(tokenizer, model.config(), file, path_in(folder, kConfigFile));
  GenerationSettings settings;
  const std::string settings_file = path_in(folder, kGenerationFile);
  if (file_exists(settings_file)) {
    settings =
        generation_from_json(sealed_file(folder, kGenerationFile, seal, options), settings_file);
    check_tokens(settings, model.config().target_vocab, settings_file);
  }
  return {std::move(model), std::move(tokenizer), threads, std::move(settings)};
}

}  // namespace

TranslatorState::TranslatorState(Transformer transformer, Tokenizer pieces, int thread_count,
                                 GenerationSettings settings)
    : model(std::move(transformer)),
      tokenizer(std::move(pieces)),
      generation(std::move(settings)),
      threads(thread_count),
      forbidden(generation.special_tokens == SpecialTokens::allowed ? tokenizer.unshowable()
                                                                    : tokenizer.unwritable()),
      fingerprint(hexadecimal(tokenizer_fingerprint(tokenizer.bytes()))),
      max_idle(static_cast<size_t>(Parallel().threads())),
      engine(model, threads) {}

SearchOptions TranslatorState::search_options(const TranslateOptions& options) const {
  const SearchRule rule = options.search.over(generation.search.over({.beam = 5}));
  GenerationSettings settings = generation;
  settings.forbidden.insert(settings.forbidden.end(), options.forbidden.begin(),
                            options.forbidden.end());
  if (options.force_end) settings.forced_end.reset();
  if (options.force_end.value_or(false)) settings.forced_end = tokenizer.end();
  SearchOptions search = tril::search_options(settings, rule);
  search.start = start(languages_for(options.languages));
  search.end = tokenizer.end();
  search.more_ends.assign(tokenizer.ends().begin() + 1, tokenizer.ends().end());
  search.forbidden.insert(search.forbidden.begin(), forbidden.begin(), forbidden.end());
  search.shortlist = options.shortlist;
  return search;
}

std::shared_ptr<const SearchOptions> TranslatorState::shared_options(
    const TranslateOptions& options) {
  const SearchRule rule = options.search.over(generation.search.over({.beam = 5}));
  const auto first = start(languages_for(options.languages));
  const bool forces_end = options.force_end.value_or(generation.forced_end.has_value());
  const auto is_same = [&](const KnownOptions& known) {
    const SearchOptions& search = *known.search;
    return static_cast<const SearchRule&>(search) == rule &&
           search.shortlist == options.shortlist && search.start == first &&
           search.forced_end.has_value() == forces_end && known.forbidden == options.forbidden;
  };
  const std::lock_guard lock(mutex);
  auto known = std::find_if(known_options.begin(), known_options.end(), is_same);
  if (known == known_options.end()) {
    if (known_options.size() == kKnownOptions) known_options.pop_back();
    auto search = std::make_shared<const SearchOptions>(search_options(options));
    known = known_options.insert(known_options.end(), {std::move(search), options.forbidden});
  }
  std::rotate(known_options.begin(), known, known + 1);
  return known_options.front().search;
}

LanguagePair TranslatorState::languages_for(const LanguagePair& named) const {
  const std::vector<Language>& known = tokenizer.languages();
  const auto one = [&](const std::string& code, const std::string& usual,
                       std::string_view way) -> std::string {
    if (code.empty()) return known.empty() ? "" : usual;
    if (known.empty()) {
      require(!usual.empty(), ErrorCode::invalid_argument, "the language ", code,
              " was named, but the model has none to choose");
      require(code == usual, ErrorCode::invalid_argument, "no language ", code,
              ": the model translates ", way, " ", usual, " alone");
      return "";
    }
    return code;  // which the tokenizer checks
  };
  return {one(named.from, generation.from_language, "from"),
          one(named.to, generation.to_language, "into")};
}

LanguagePair TranslatorState::checked_languages(const LanguagePair& named) const {
  LanguagePair languages = languages_for(named);
  if (!model.config().decoder_only()) tokenizer.encode_source("", languages);
  tokenizer.target_prefix(languages);
  return languages;
}

std::vector<int32_t> TranslatorState::forced_first(const LanguagePair& languages) const {
  std::vector<int32_t> first = tokenizer.target_prefix(languages);
  return first.empty() ? generation.forced_first : first;
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

Translator::Translator(Transformer model, Tokenizer tokenizer, int threads,
                       GenerationSettings settings) {
  check_fit(tokenizer, model.config(), "the tokenizer", "the model");
  state_ = std::make_shared<TranslatorState>(std::move(model), std::move(tokenizer), threads,
                                             std::move(settings));
}

Translator Translator::load(const std::string& folder, const LoadOptions& options, int threads) {
  return with_tokenizer(Transformer::load(folder, options), folder, threads, options);
}

const Transformer& Translator::model() const { return state_->model; }
const Tokenizer& Translator::tokenizer() const { return state_->tokenizer; }
const GenerationSettings& Translator::generation() const { return state_->generation; }

ModelLanguages Translator::languages() const {
  ModelLanguages languages;
  for (const Language& language : tokenizer().languages()) languages.codes.push_back(language.code);
  const LanguagePair& usual = tokenizer().default_languages();
  const GenerationSettings& settings = generation();
  languages.usual.from = settings.from_language.empty() ? usual.from : settings.from_language;
  languages.usual.to = settings.to_language.empty() ? usual.to : settings.to_language;
  return languages;
}

LanguagePair Translator::languages_for(const LanguagePair& named) const {
  return state_->checked_languages(named);
}

SearchOptions Translator::search_options(const TranslateOptions& options) const {
  return state_->search_options(options);
}

std::vector<int32_t> Translator::forced_first(const LanguagePair& named) const {
  return state_->forced_first(languages_for(named));
}

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
