#include "tril/serve/text_call.h"

#include <algorithm>

#include "tril/text/languages.h"

namespace tril::serve {
namespace {

void check_option(bool holds, const char* field, const std::string& message) {
  if (!holds) refuse(field, message);
}

// One field after the other, as JSON.
class ObjectText {
 public:
  void raw(std::string_view name, std::string_view json) {
    text_ += concat(text_.empty() ? "{" : ",", "\"", name, "\":", json);
  }
  void text(std::string_view name, std::string_view value) { raw(name, json_quoted(value)); }
  template <class Value>
  void maybe(std::string_view name, const std::optional<Value>& value) {
    if (!value) return;
    if constexpr (std::is_same_v<Value, bool>) {
      raw(name, *value ? "true" : "false");
    } else if constexpr (std::is_enum_v<Value>) {
      text(name, word_for(*value));
    } else {
      raw(name, concat(*value));
    }
  }
  void texts(std::string_view name, const std::vector<std::string>& values) {
    std::string list = "[";
    for (const std::string& value : values) {
      if (list.size() > 1) list += ',';
      list += json_quoted(value);
    }
    raw(name, list + "]");
  }
  std::string done() const { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  std::string text_;
};

void write_options(const TextCall& call, ObjectText& object) {
  const SearchSettings& search = call.options.search;
  object.maybe("beam", search.beam);
  object.maybe("n_best", search.n_best);
  object.maybe("length_penalty", search.length_penalty);
  object.maybe("early_stopping", search.early_stopping);
  object.maybe("cut", search.cut);
  object.maybe("max_tokens", search.max_tokens);
  object.maybe("min_tokens", search.min_tokens);
  object.maybe("max_ratio", search.max_ratio);
  object.maybe("no_repeat_ngram", search.no_repeat_ngram);
  object.maybe("repetition_penalty", search.repetition_penalty);
  object.maybe("renormalize", search.renormalize);
  object.maybe("sample", search.sample);
  object.maybe("temperature", search.temperature);
  object.maybe("top_k", search.top_k);
  object.maybe("top_p", search.top_p);
  object.maybe("seed", search.seed);
  object.maybe("force_end", call.options.force_end);
  if (!call.options.forbidden.empty()) {
    std::string lists;
    for (const auto& ids : call.options.forbidden) {
      std::string list;
      for (const int32_t id : ids) list += concat(list.empty() ? "[" : ",", id);
      lists += (lists.empty() ? "[" : ",") + list + "]";
    }
    object.raw("forbid", lists + "]");
  }
  if (call.options.shortlist) object.raw("shortlist", "true");
  if (call.options.alignments) object.raw("alignments", "true");
}

void read_search(RequestFields& fields, const CallLimits& limits, bool generate,
                 TranslateOptions& options) {
  SearchSettings& search = options.search;
  constexpr int64_t kManyTokens = 1 << 20;
  search.beam = fields.whole("beam", 1, limits.max_beam);
  search.n_best = fields.whole("n_best", 1, limits.max_beam);
  search.length_penalty = fields.number("length_penalty", -100, 100);
  search.early_stopping = fields.word<EarlyStopping>("early_stopping");
  search.cut = fields.word<CutHypotheses>("cut");
  search.max_tokens = fields.whole("max_tokens", 0, kManyTokens);
  search.min_tokens = fields.whole("min_tokens", 0, kManyTokens);
  if (!generate) search.max_ratio = fields.number("max_ratio", 0, 1e6);
  search.no_repeat_ngram = fields.whole("no_repeat_ngram", 0, kManyTokens);
  search.repetition_penalty = fields.number("repetition_penalty", 0, 1e9, true);
  search.renormalize = fields.truth("renormalize");
  search.sample = fields.truth("sample");
  search.temperature = fields.number("temperature", 0, 1e6, true);
  search.top_k = fields.whole("top_k", 0, int64_t{1} << 30);
  search.top_p = fields.number("top_p", 0, 1, true);
  search.seed = fields.seed("seed");
  options.force_end = fields.truth("force_end");
  options.forbidden = fields.token_lists("forbid");
  constexpr size_t kMostForbidden = 1000;  // tokens of all lists: every sentence carries them
  size_t forbidden = 0;
  for (const auto& ids : options.forbidden) forbidden += ids.size();
  check_option(forbidden <= kMostForbidden, "forbid",
               concat("forbid: ", forbidden, " tokens, at most ", kMostForbidden, " in all"));
}

}  // namespace

void choose_model(TextCall& call, const ModelSet& models, Wanted wanted,
                  std::optional<bool> generate) {
  wanted.continues = generate;
  call.chosen = models.choose(wanted, call.texts);
  call.model = call.chosen.front().model;
  for (const Chosen& chosen : call.chosen) {
    if (chosen.model == call.model) continue;
    refuse("source", concat("the texts are in languages of several models (", call.model->name,
                            ", ", chosen.model->name, "): send them in requests of their own"));
  }
  if (call.generates() != generate.value_or(call.generates())) {
    refuse("model", *generate ? concat(call.model->name, " translates: use /v1/translate")
                              : concat(call.model->name,
                                       " continues text: use /v1/generate or /v1/completions"));
  }
}

TextCall read_call(RequestFields& fields, const ModelSet& models, const CallLimits& limits,
                   bool generate) {
  TextCall call;
  const auto texts = fields.texts("text", limits.max_texts);
  if (!texts) {
    refuse("text",
           generate ? "text is missing: what to continue" : "text is missing: what to translate");
  }
  call.texts = *texts;
  Wanted wanted;
  wanted.model = fields.text("model").value_or("");
  if (!generate) {
    wanted.source = fields.text("source").value_or("");
    wanted.target = fields.text("target").value_or("");
    call.split = fields.word<Split>("split").value_or(limits.split);
    const auto format = fields.text("format").value_or("text");
    check_option(format == "text", "format",
                 concat("format: ", printable(format),
                        " cannot be translated, only text: markup "
                        "would be mangled"));
    call.options.alignments = fields.truth("alignments").value_or(false);
    if (const auto prefixes = fields.texts("prefix", limits.max_texts)) call.prefixes = *prefixes;
  } else {
    call.split = Split::never;
  }
  read_search(fields, limits, generate, call.options);
  const bool shortlist = !generate && fields.truth("shortlist").value_or(false);
  call.details = fields.truth("details").value_or(false) || call.options.alignments;
  call.receipt = fields.truth("receipt").value_or(false);
  call.timeout = limits.timeout;
  if (const auto seconds = fields.number("timeout", 0, 86400, true)) {
    const auto wished = std::chrono::milliseconds(static_cast<int64_t>(*seconds * 1000) + 1);
    call.timeout = std::min(call.timeout, wished);
  }
  choose_model(call, models, wanted, generate);
  const int64_t vocab = call.model->translator.model().config().target_vocab;
  for (const auto& ids : call.options.forbidden) {
    const int32_t most = *std::max_element(ids.begin(), ids.end());
    check_option(most < vocab, "forbid",
                 concat("forbid: token ", most, " is not in the vocabulary of ", vocab));
  }
  complete_options(call, limits);
  check_sampling(call.options.search, search_of(call).sample);
  const auto differs = [&](const Chosen& chosen) {
    return chosen.languages.from != call.chosen.front().languages.from;
  };
  check_option(!call.receipt || std::none_of(call.chosen.begin(), call.chosen.end(), differs),
               "receipt", "receipt: the texts are in several languages: ask for one receipt each");
  if (shortlist) {
    check_option(call.model->shortlist.has_value(), "shortlist",
                 concat(call.model->name, " has no shortlist: 'tril shortlist' makes one"));
    call.options.shortlist = call.model->shortlist;
  }
  if (!call.prefixes.empty()) {
    check_option(call.prefixes.size() == call.texts.size(), "prefix",
                 concat("prefix: ", call.prefixes.size(), " for ", call.texts.size(), " texts"));
    check_option(call.split != Split::always, "prefix",
                 "prefix: a text that is cut into sentences cannot have one");
  }
  return call;
}

void complete_options(TextCall& call, const CallLimits& limits) {
  SearchSettings& search = call.options.search;
  const SearchSettings& own = call.model->translator.generation().search;
  if (call.generates() && !search.beam && !own.beam && !search.sample.value_or(false) &&
      !own.sample.value_or(false)) {
    search.beam = 1;
  }
  call.options.slots = std::max(limits.slots, search_of(call).width());
}

SearchOptions search_of(const TextCall& call) {
  TranslateOptions options = call.options;
  options.languages = call.model->for_translator(call.languages_of(0));
  return call.model->translator.search_options(options);
}

std::string options_text(const TextCall& call) {
  ObjectText object;
  write_options(call, object);
  return object.done();
}

std::string request_text(const TextCall& call) {
  ObjectText object;
  object.texts("text", call.texts);
  if (!call.prefixes.empty()) object.texts("prefix", call.prefixes);
  if (!call.generates()) {
    const LanguagePair languages = call.languages_of(0);
    if (!languages.from.empty()) object.text("source", languages.from);
    if (!languages.to.empty()) object.text("target", languages.to);
    object.text("split", word_for(call.split));
  }
  write_options(call, object);
  if (call.details) object.raw("details", "true");
  return object.done();
}

std::string unit_key(const TextCall& call, std::string_view options, size_t text,
                     std::string_view source, int64_t number) {
  const LanguagePair languages = call.languages_of(text);
  const bool draws = call.options.search.sample.value_or(
      call.model->translator.generation().search.sample.value_or(false));
  return concat(call.model->name, "\n", languages.from, "\n", languages.to, "\n", options, "\n",
                draws ? concat(number) : std::string(), "\n",
                call.prefixes.empty() ? std::string() : json_quoted(call.prefixes[text]), "\n",
                source);
}

}  // namespace tril::serve
