#include "tril/translate/line_text.h"

#include <algorithm>

namespace tril {
namespace {

void check_length(std::string_view what, size_t tokens, int64_t most) {
  require(static_cast<int64_t>(tokens) <= most, ErrorCode::invalid_argument, what, " has ", tokens,
          " tokens, the model takes ", most, " at most: split it");
}

void add_alignment(TranslatorState& state, const std::vector<int32_t>& source,
                   const LanguagePair& languages, TextHypothesis& text) {
  BorrowedSession session(state);
  text.alignment =
      align(state.model, source, text.tokens,
            {.start = state.tokenizer.start(state.languages_for(languages))}, *session);
  const auto source_pieces =
      state.pieces_of(std::span(source).first(source.size() - 1), TextSide::source);
  const size_t words = text.tokens.size() - (text.ended ? 1 : 0);
  text.links = link_words(text.alignment, words_of(source_pieces),
                          words_of(std::span(text.pieces).first(words)));
}

}  // namespace

std::shared_ptr<const SearchOptions> checked_options(TranslatorState& state,
                                                     const TranslateOptions& options) {
  require(!options.alignments || !state.model.config().decoder_only(), ErrorCode::unsupported,
          "translate: a decoder-only model has no alignments");
  state.check_shortlist("translate", options.shortlist);
  // Languages that the model does not have are an error of the call, not of every line.
  state.checked_languages(options.languages);
  auto search = state.shared_options(options);
  state.engine.check(*search, options.slots);
  return search;
}

SearchRequest request_of(const TranslatorState& state, const TextRequest& text, int64_t number,
                         const LanguagePair& named) {
  const Tokenizer& tokenizer = state.tokenizer;
  const LanguagePair languages = state.languages_for(named);
  const TransformerConfig& config = state.model.config();
  require(text.fault.empty(), ErrorCode::invalid_argument, text.fault);
  SearchRequest request;
  request.number = number;
  request.stream = number;
  if (config.decoder_only()) {
    require(text.prefix.empty(), ErrorCode::invalid_argument,
            "a prefix, but the model has no encoder: the line itself is what is continued");
    request.prefix = tokenizer.encode(text.line);
    require(tokenizer.has_start() || !request.prefix.empty(), ErrorCode::invalid_argument,
            "an empty line, but the model has no START: it needs a text to continue");
    check_length("the line", request.prefix.size(), config.max_length - 1);
    return request;
  }
  request.source = tokenizer.encode_source(text.line, languages);
  check_length("the line", request.source.size(), config.max_length);
  request.prefix = state.forced_first(languages);
  request.forced = static_cast<int64_t>(request.prefix.size());
  if (text.prefix.empty()) return request;
  const std::vector<int32_t> given = tokenizer.encode(text.prefix, TextSide::target);
  request.prefix.insert(request.prefix.end(), given.begin(), given.end());
  check_length("the prefix", request.prefix.size(), config.max_length - 1);
  return request;
}

bool says_nothing(const TranslatorState& state, const SearchRequest& request) {
  if (state.model.config().decoder_only()) return false;
  // Imported tokenizers put END and languages where their models want them; those write nothing.
  if (!state.tokenizer.lossless()) {
    // Characters that a tokenizer does not know are written as nothing, but were said.
    const auto unknown = state.tokenizer.unknown();
    const auto& source = request.source;
    if (unknown && std::find(source.begin(), source.end(), *unknown) != source.end()) return false;
    return state.tokenizer.decode(request.source).find_first_not_of(" \t") == std::string::npos;
  }
  const std::vector<int32_t> words =
      words_of(state.pieces_of(std::span(request.source).first(request.source.size() - 1)));
  return std::none_of(words.begin(), words.end(), [](int32_t word) { return word >= 0; });
}

Translation empty_translation(int64_t number, const std::string& skipped) {
  Translation empty;
  empty.number = number;
  empty.hypotheses.emplace_back().ended = true;  // nothing of it was cut
  empty.skipped = skipped;
  return empty;
}

Translation translation_of(TranslatorState& state, int64_t number,
                           std::vector<Hypothesis>&& hypotheses, const std::vector<int32_t>& source,
                           const TranslateOptions& options) {
  Translation translation;
  translation.number = number;
  for (Hypothesis& h : hypotheses) {
    TextHypothesis& text = translation.hypotheses.emplace_back();
    text.text = state.tokenizer.decode(h.tokens);
    text.tokens = std::move(h.tokens);
    text.pieces = state.pieces_of(text.tokens);
    text.log_probs = std::move(h.log_probs);
    text.score = h.score;
    text.rank = h.rank;
    text.ended = h.ended;
    text.end_forced = h.end_forced;
    if (options.alignments) add_alignment(state, source, options.languages, text);
  }
  return translation;
}

}  // namespace tril
