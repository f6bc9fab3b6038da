#include "tril/translate/named_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "tril/io/json.h"
#include "tril/text/token_ids.h"

namespace tril {
namespace {

constexpr int64_t kManyTokens = 1 << 20;
constexpr int64_t kMostTokens = 1 << 30;
constexpr int64_t kMostBeam = 1024;
constexpr double kMostNumber = 1e9;
constexpr int64_t kMostSlots = 65536;

// Sets of calls.
constexpr uint8_t calls(std::initializer_list<OptionUse> uses) {
  uint8_t bits = 0;
  for (const OptionUse use : uses) bits = static_cast<uint8_t>(bits | static_cast<uint8_t>(use));
  return bits;
}
using Use = OptionUse;
constexpr uint8_t kLoad = calls({Use::load});
constexpr uint8_t kSearch = calls({Use::translate, Use::whole_text, Use::generate, Use::submit});
// Where a line has results of its own.
constexpr uint8_t kLines = calls({Use::translate, Use::generate, Use::submit});
constexpr uint8_t kTranslate = calls({Use::translate, Use::whole_text, Use::submit});
constexpr uint8_t kLanguages =
    calls({Use::translate, Use::whole_text, Use::submit, Use::score, Use::tokenize});
constexpr uint8_t kSubmit = calls({Use::submit});

// For errors.
std::string quoted(std::string_view text) {
  return text.empty() ? "\"\"" : concat("\"", printable(text), "\"");
}

using Options = NamedOptions;
using Value = OptionValue;

constexpr NamedOption kOptions[] = {
    {"device", "auto, cpu, cuda (the first GPU) or cuda:1 (the second); default: auto", kLoad,
     [](Options& o, const Value& v) {
       o.device.reset();
       if (v.text() != "auto") o.device = v.device();
     }},
    {"compute",
     "the form of the weights: fp32, bf16, int8 or bf16-dot; default: what suits the device", kLoad,
     [](Options& o, const Value& v) { o.compute = v.word<Compute>(); }},
    {"threads", "threads that compute, 0 to 1024; default: 0, as many as there are cores", kLoad,
     [](Options& o, const Value& v) { o.threads = static_cast<int>(v.whole(0, 1024)); }},
    {"trust", "true: packed weights are not compared with their checksums; default: false", kLoad,
     [](Options& o, const Value& v) { o.trust = v.truth(); }},

    {"beam",
     "hypotheses kept at each step, 1 to 1024; default: the model's, else 5, or 1 to continue text",
     kSearch, [](Options& o, const Value& v) { o.translate.search.beam = v.whole(1, kMostBeam); }},
    {"n_best", "results per line, 1 to 1024; default: 1", kLines,
     [](Options& o, const Value& v) { o.translate.search.n_best = v.whole(1, kMostBeam); }},
    {"length_penalty", "hypotheses rank by score / length^this; default: the model's, else 0.6",
     kSearch,
     [](Options& o, const Value& v) {
       o.translate.search.length_penalty = v.number(-kMostNumber, kMostNumber);
     }},
    {"early_stopping", "when a beam is done: yes, no or never; default: the model's, else yes",
     kSearch,
     [](Options& o, const Value& v) {
       o.translate.search.early_stopping = v.word<EarlyStopping>();
     }},
    {"cut",
     "where results come that reached the limit: last or ranked; default: the model's, else last",
     kSearch, [](Options& o, const Value& v) { o.translate.search.cut = v.word<CutHypotheses>(); }},
    {"max_tokens", "at most this many new tokens; default: 0, as many as the model can write",
     kSearch,
     [](Options& o, const Value& v) { o.translate.search.max_tokens = v.whole(0, kMostTokens); }},
    {"min_tokens", "a result does not end before this many tokens; default: 0", kSearch,
     [](Options& o, const Value& v) { o.translate.search.min_tokens = v.whole(0, kManyTokens); }},
    {"max_ratio", "at most this times the source's tokens, and 10 more; 0: no limit; default: 4",
     kTranslate,
     [](Options& o, const Value& v) { o.translate.search.max_ratio = v.number(0, 1e6); }},
    {"no_repeat_ngram", "no sequence of this many tokens occurs twice; default: 0, any may",
     kSearch,
     [](Options& o, const Value& v) {
       o.translate.search.no_repeat_ngram = v.whole(0, kManyTokens);
     }},
    {"repetition_penalty",
     "above 1: tokens that occurred are less likely to come again; default: 1", kSearch,
     [](Options& o, const Value& v) {
       o.translate.search.repetition_penalty = v.number(0, kMostNumber, true);
     }},
    {"renormalize", "true: a beam's probabilities are scaled to what may be chosen; default: false",
     kSearch, [](Options& o, const Value& v) { o.translate.search.renormalize = v.truth(); }},
    {"sample", "true: tokens are drawn instead of taking the best; default: false", kSearch,
     [](Options& o, const Value& v) { o.translate.search.sample = v.truth(); }},
    {"temperature", "of sampling: below 1 sharper, above 1 flatter; default: 1", kSearch,
     [](Options& o, const Value& v) { o.translate.search.temperature = v.number(0, 1e6, true); }},
    {"top_k", "sample among the k likeliest tokens; default: 0, all", kSearch,
     [](Options& o, const Value& v) { o.translate.search.top_k = v.whole(0, kMostTokens); }},
    {"top_p", "sample among the likeliest tokens whose probabilities add up to this; default: 1",
     kSearch, [](Options& o, const Value& v) { o.translate.search.top_p = v.number(0, 1, true); }},
    {"seed", "of sampling: the same seed gives the same results; default: 1", kSearch,
     [](Options& o, const Value& v) { o.translate.search.seed = v.seed(); }},
    {"force_end", "true: a result that reaches the limit ends with the token END; default: false",
     kSearch, [](Options& o, const Value& v) { o.translate.force_end = v.truth(); }},
    {"forbid", "token ids that results never hold in this order, as in \"17; 4 5\"; default: none",
     kSearch, [](Options& o, const Value& v) { o.translate.forbidden = v.token_lists(); }},
    {"alignments", "true: results have word alignments; default: false",
     calls({Use::translate, Use::submit}),
     [](Options& o, const Value& v) { o.translate.alignments = v.truth(); }},
    {"prefix", "a text that every translation must begin with; default: none",
     calls({Use::translate, Use::submit, Use::score}),
     [](Options& o, const Value& v) { o.prefix = v.text(); }},
    {"from_language", "of a model of several languages: that of the source; default: the model's",
     kLanguages, [](Options& o, const Value& v) { o.translate.languages.from = v.text(); }},
    {"to_language", "the language to translate into; default: the model's", kLanguages,
     [](Options& o, const Value& v) { o.translate.languages.to = v.text(); }},
    {"shortlist", "true: choose only among the pieces listed for each line; default: false",
     calls({Use::translate, Use::whole_text, Use::submit, Use::score}),
     [](Options& o, const Value& v) { o.shortlist = v.truth(); }},
    {"bad_lines",
     "a line that cannot be used: error, or skip, which leaves its result empty; default: error",
     calls({Use::translate, Use::whole_text, Use::generate, Use::score}),
     [](Options& o, const Value& v) {
       constexpr std::string_view kWords[] = {"error", "skip"};
       o.translate.bad_lines = v.word_index(kWords) == 0 ? BadLine::error : BadLine::skip;
     }},
    {"split",
     "lines that are cut into sentences: never, long (those too long) or always; default: long",
     calls({Use::whole_text}), [](Options& o, const Value& v) { o.split = v.word<Split>(); }},
    {"batch", "hypotheses decoded at a time, 1 to 65536; default: 64", kSearch,
     [](Options& o, const Value& v) { o.translate.slots = v.whole(1, kMostSlots); }},

    {"number", "which draws of the seed a submitted line is sampled with; default: 0", kSubmit,
     [](Options& o, const Value& v) {
       o.number = v.whole(0, std::numeric_limits<int64_t>::max());
     }},
    {"client", "lines of different clients are decoded in turns; default: 0", kSubmit,
     [](Options& o, const Value& v) { o.client = v.seed(); }},
    {"timeout", "seconds after which a submitted line is given up; default: never", kSubmit,
     [](Options& o, const Value& v) { o.timeout = v.number(0, kMostNumber, true); }},

    {"side", "which text is tokenized: source or target; default: source", calls({Use::tokenize}),
     [](Options& o, const Value& v) {
       constexpr std::string_view kWords[] = {"source", "target"};
       o.side = v.word_index(kWords) == 0 ? TextSide::source : TextSide::target;
     }},
};

}  // namespace

void OptionValue::fail_expected(std::string_view expected) const {
  fail(ErrorCode::invalid_argument, name_, ": expected ", expected, ", got ", quoted(text_));
}

template <class Number>
std::optional<Number> OptionValue::read() const {
  Number number{};
  const auto read = std::from_chars(text_.data(), text_.data() + text_.size(), number);
  if (read.ec != std::errc() || read.ptr != text_.data() + text_.size()) return std::nullopt;
  return number;
}

int64_t OptionValue::whole(int64_t min, int64_t max) const {
  const auto number = read<int64_t>();
  if (!number || *number < min || *number > max) {
    fail_expected(concat("a whole number from ", min, " to ", max));
  }
  return *number;
}

uint64_t OptionValue::seed() const {
  const auto number = read<uint64_t>();
  if (!number) fail_expected("a whole number from 0 to 18446744073709551615");
  return *number;
}

double OptionValue::number(double min, double max, bool above) const {
  const auto number = read<double>();
  const bool fits = number && std::isfinite(*number) && *number <= max &&
                    (above ? *number > min : *number >= min);
  if (!fits) {
    fail_expected(
        concat("a number ", above ? "above " : "from ", min, above ? ", at most " : " to ", max));
  }
  return *number;
}

bool OptionValue::truth() const {
  for (const std::string_view word : {"true", "yes", "1"}) {
    if (text_ == word) return true;
  }
  for (const std::string_view word : {"false", "no", "0"}) {
    if (text_ == word) return false;
  }
  fail_expected("true or false");
}

size_t OptionValue::word_index(std::span<const std::string_view> words) const {
  const auto found = std::find(words.begin(), words.end(), text_);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  std::string expected;
  for (size_t i = 0; i < words.size(); ++i) {
    expected += concat(i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  }
  fail_expected(expected);
}

Device OptionValue::device() const {
  const auto device = device_from(text_);
  if (!device) fail_expected("auto, cpu, cuda or cuda:1");
  return *device;
}

std::vector<std::vector<int32_t>> OptionValue::token_lists() const {
  std::vector<std::vector<int32_t>> lists;
  if (text_.empty()) return lists;
  for (size_t begin = 0; begin <= text_.size();) {
    const size_t end = std::min(text_.find(';', begin), text_.size());
    auto ids = parse_token_ids(text_.substr(begin, end - begin));
    if (!ids || ids->empty()) fail_expected("lists of token ids, as in \"17; 4 5\"");
    lists.push_back(std::move(*ids));
    begin = end + 1;
  }
  return lists;
}

std::span<const NamedOption> named_options() { return kOptions; }

const NamedOption* find_option(std::string_view name) {
  const auto* found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                   [&](const NamedOption& option) { return option.name == name; });
  return found == std::end(kOptions) ? nullptr : found;
}

void set_option(NamedOptions& options, std::string_view name, std::string_view value) {
  const NamedOption* option = find_option(name);
  require(option != nullptr, ErrorCode::invalid_argument, "there is no option ", quoted(name));
  option->set(options, {option->name, value});
}

void complete_options(const Translator& translator, TranslateOptions& options) {
  SearchSettings& search = options.search;
  const SearchSettings& own = translator.generation().search;
  if (translator.model().config().decoder_only() && !search.beam && !own.beam &&
      !search.sample.value_or(false) && !own.sample.value_or(false)) {
    search.beam = 1;
  }
  const SearchRule rule = search.over(own.over({.beam = 5}));
  check_sampling(search, rule.sample);
  options.slots = std::max(options.slots, rule.width());
}

}  // namespace tril
