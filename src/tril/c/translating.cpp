// Translating, continuing, scoring and tokenizing: calls that return when they are done.
#include <span>

#include "tril/c/calls.h"
#include "tril/c/result.h"
#include "tril/c/translator.h"

namespace tril::c {
namespace {

constexpr int64_t kMostLines = int64_t{1} << 31;  // of a call

// The texts of a call, as C passes them.
class Texts {
 public:
  Texts(std::string_view what, const char* const* texts, const int64_t* lengths, int64_t count)
      : what_(what), texts_(texts), lengths_(lengths) {
    require_use(count >= 0 && count <= kMostLines, "the number of lines is ", count);
    require_use(texts != nullptr || count == 0, "the list of ", what, " is NULL");
    // All of them, before any work.
    for (int64_t i = 0; i < count; ++i) (void)at(i);
  }
  std::string_view at(int64_t i) const {
    return text_of(what_, texts_[i], lengths_ == nullptr ? -1 : lengths_[i]);
  }

 private:
  std::string_view what_;
  const char* const* texts_;
  const int64_t* lengths_;
};

enum class Way { translate, generate };

void require_way(const LoadedModel& model, Way way) {
  require(model.continues_text() == (way == Way::generate), ErrorCode::unsupported,
          way == Way::generate ? "the model translates: call tril_translate()"
                               : "the model continues text: call tril_generate()");
}

tril_result* run_lines(tril_translator* translator, const char* const* texts,
                       const int64_t* lengths, int64_t count, const tril_options* options,
                       Way way) {
  const auto model = get(translator);
  const Texts lines("a text", texts, lengths, count);
  const NamedOptions named =
      options_for(options, way == Way::generate ? OptionUse::generate : OptionUse::translate);
  require_may_wait();
  require_way(*model, way);
  const auto results = std::make_shared<Results>();
  int64_t taken = 0;
  model->translator().translate(
      [&]() -> std::optional<TextRequest> {
        if (taken == count) return std::nullopt;
        return TextRequest{.line = std::string(lines.at(taken++)), .prefix = named.prefix};
      },
      [&](Translation&& translation) {
        results->add(std::move(translation));
        return true;
      },
      model->options_of(named));
  return give<tril_result>(results);
}

tril_result* score_lines(tril_translator* translator, const char* const* sources,
                         const int64_t* source_lengths, const char* const* targets,
                         const int64_t* target_lengths, int64_t count,
                         const tril_options* options) {
  const auto model = get(translator);
  const Texts target_texts("a target", targets, target_lengths, count);
  const bool has_sources = !model->continues_text();
  require_use(has_sources || sources == nullptr, "the model continues text, so it has no source");
  const Texts source_texts("a source", sources, source_lengths, has_sources ? count : 0);
  const NamedOptions named = options_for(options, OptionUse::score);
  require_may_wait();
  const auto results = std::make_shared<Results>();
  int64_t taken = 0;
  model->translator().score(
      [&]() -> std::optional<ScoreTextRequest> {
        if (taken == count) return std::nullopt;
        ScoreTextRequest request;
        if (has_sources) request.source = source_texts.at(taken);
        request.target = target_texts.at(taken);
        request.prefix = named.prefix;
        ++taken;
        return request;
      },
      [&](TextScore&& score) {
        const std::string_view target = target_texts.at(score.number);
        results->add(std::move(score), target);
        return true;
      },
      {.bad_lines = named.translate.bad_lines,
       .shortlist = model->shortlist_if(named.shortlist),
       .languages = named.translate.languages});
  return give<tril_result>(results);
}

// A result of one line that was not searched.
tril_result* give_line(TextHypothesis&& hypothesis) {
  const auto results = std::make_shared<Results>();
  hypothesis.ended = true;
  Translation line;
  line.hypotheses.push_back(std::move(hypothesis));
  results->add(std::move(line));
  return give<tril_result>(results);
}

TextHypothesis tokenize(const LoadedModel& model, std::string_view text,
                        const NamedOptions& named) {
  const Tokenizer& tokenizer = model.translator().tokenizer();
  const LanguagePair languages = model.translator().languages_for(named.translate.languages);
  TextHypothesis line;
  line.text = text;
  const bool writes = named.side == TextSide::target;
  if (writes) {
    line.tokens = tokenizer.encode_target(text, languages);
  } else if (model.continues_text()) {
    line.tokens = tokenizer.encode(text);
  } else {
    line.tokens = tokenizer.encode_source(text, languages);
  }
  const TextSide side = writes || model.continues_text() ? TextSide::target : TextSide::source;
  for (const int32_t token : line.tokens) line.pieces.push_back(tokenizer.piece(token, side));
  return line;
}

}  // namespace
}  // namespace tril::c

using namespace tril;     // NOLINT: the functions of tril/c.h stand outside
using namespace tril::c;  // NOLINT

int tril_translate(tril_translator* translator, const char* text, int64_t length,
                   const tril_options* options, tril_result** result) {
  return call("tril_translate", translator, [&] {
    clear(result);
    *result = run_lines(translator, &text, &length, 1, options, Way::translate);
  });
}

int tril_translate_batch(tril_translator* translator, const char* const* texts,
                         const int64_t* lengths, int64_t count, const tril_options* options,
                         tril_result** result) {
  return call("tril_translate_batch", translator, [&] {
    clear(result);
    *result = run_lines(translator, texts, lengths, count, options, Way::translate);
  });
}

int tril_translate_text(tril_translator* translator, const char* text, int64_t length,
                        const tril_options* options, tril_result** result) {
  return call("tril_translate_text", translator, [&] {
    clear(result);
    const auto model = get(translator);
    const std::string_view source = text_of("the text", text, length);
    const NamedOptions named = options_for(options, OptionUse::whole_text);
    require_may_wait();
    require_way(*model, Way::translate);
    TextHypothesis whole;
    whole.text = translate_text(model->translator(), source, model->options_of(named), named.split);
    *result = give_line(std::move(whole));
  });
}

int tril_generate(tril_translator* translator, const char* text, int64_t length,
                  const tril_options* options, tril_result** result) {
  return call("tril_generate", translator, [&] {
    clear(result);
    *result = run_lines(translator, &text, &length, 1, options, Way::generate);
  });
}

int tril_generate_batch(tril_translator* translator, const char* const* texts,
                        const int64_t* lengths, int64_t count, const tril_options* options,
                        tril_result** result) {
  return call("tril_generate_batch", translator, [&] {
    clear(result);
    *result = run_lines(translator, texts, lengths, count, options, Way::generate);
  });
}

int tril_score(tril_translator* translator, const char* source, int64_t source_length,
               const char* target, int64_t target_length, const tril_options* options,
               tril_result** result) {
  return call("tril_score", translator, [&] {
    clear(result);
    const bool has_source = source != nullptr || source_length > 0;
    *result = score_lines(translator, has_source ? &source : nullptr, &source_length, &target,
                          &target_length, 1, options);
  });
}

int tril_score_batch(tril_translator* translator, const char* const* sources,
                     const int64_t* source_lengths, const char* const* targets,
                     const int64_t* target_lengths, int64_t count, const tril_options* options,
                     tril_result** result) {
  return call("tril_score_batch", translator, [&] {
    clear(result);
    *result =
        score_lines(translator, sources, source_lengths, targets, target_lengths, count, options);
  });
}

int tril_tokenize(tril_translator* translator, const char* text, int64_t length,
                  const tril_options* options, tril_result** result) {
  return call("tril_tokenize", translator, [&] {
    clear(result);
    const auto model = get(translator);
    const std::string_view line = text_of("the text", text, length);
    *result = give_line(tokenize(*model, line, options_for(options, OptionUse::tokenize)));
  });
}

int tril_detokenize(tril_translator* translator, const int32_t* ids, int64_t count,
                    tril_result** result) {
  return call("tril_detokenize", translator, [&] {
    clear(result);
    const auto model = get(translator);
    require_use(count >= 0 && count <= kMostLines, "the number of tokens is ", count);
    require_use(ids != nullptr || count == 0, "the list of tokens is NULL");
    const Tokenizer& tokenizer = model->translator().tokenizer();
    TextHypothesis line;
    line.tokens.assign(ids, ids + count);
    line.text = tokenizer.decode(line.tokens);
    for (const int32_t token : line.tokens) line.pieces.push_back(tokenizer.piece(token));
    *result = give_line(std::move(line));
  });
}
