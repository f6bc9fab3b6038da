#include "tril/explain/explain.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "tril/base/fingerprint.h"
#include "tril/base/math.h"
#include "tril/base/rounding.h"
#include "tril/explain/passes.h"
#include "tril/models/session_state.h"
#include "tril/translate/words.h"

namespace tril {
namespace {

constexpr int64_t kDefaultContinuation = 24;
constexpr int64_t kKeptNumbers = 16;  // of each vector of the stages around attention

void check_length(std::string_view what, size_t tokens, int64_t model_takes) {
  const auto count = static_cast<int64_t>(tokens);
  require(count <= model_takes, ErrorCode::invalid_argument, "explain: ", what, " has ", count,
          " tokens, the model takes ", model_takes, " at most");
  require(count <= kMaxExplainedTokens, ErrorCode::invalid_argument, "explain: ", what, " has ",
          count, " tokens, a page can show ", kMaxExplainedTokens, " at most");
}

// A page shows one sentence: text on further lines would silently become part of it.
void check_line(std::string_view what, std::string_view text) {
  const size_t at = text.find_first_of("\r\n");
  require(at == std::string_view::npos, ErrorCode::invalid_argument, "explain: ", what,
          " must be one line, but there is a line break after ", at, " bytes");
}

bool has_word(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::vector<std::string> pieces;
  for (const int32_t token : tokens) pieces.push_back(tokenizer.piece(token));
  const auto words = words_of(pieces);
  return std::any_of(words.begin(), words.end(), [](int32_t word) { return word >= 0; });
}

struct Found {
  std::vector<Hypothesis> hypotheses;
  std::vector<SearchStep> steps;
};

// The page's model reads a START in any case: one that has none is given END, which separates the
// texts that such a model learnt from.
int32_t start_of(const Translator& translator, const LanguagePair& named) {
  const Tokenizer& tokenizer = translator.tokenizer();
  if (!tokenizer.has_start()) return tokenizer.end();
  return tokenizer.start(translator.languages_for(named));
}

SearchOptions options_of(const Translator& translator, const ExplainOptions& options) {
  SearchOptions search =
      translator.search_options({.search = options.search, .languages = options.languages});
  search.start = start_of(translator, options.languages);
  if (!options.search.sample) search.sample = false;
  return search;
}

Found run_search(const Translator& translator, SearchOptions options, const LanguagePair& languages,
                 std::span<const int32_t> tokens, Session& session) {
  const bool decoder_only = translator.model().config().decoder_only();
  options.n_best = options.beam;
  SearchRequest request;
  (decoder_only ? request.prefix : request.source).assign(tokens.begin(), tokens.end());
  if (!decoder_only) {
    request.prefix = translator.forced_first(languages);
    request.forced = static_cast<int64_t>(request.prefix.size());
  }
  const auto room = kMaxExplainedTokens - static_cast<int64_t>(request.prefix.size());
  if (options.max_tokens == 0) options.max_tokens = decoder_only ? kDefaultContinuation : room;
  options.max_tokens = std::min(options.max_tokens, room);
  bool handed_out = false;
  Found found;
  search(
      translator.model(), options, options.beam,
      [&]() -> std::optional<SearchRequest> {
        if (handed_out) return std::nullopt;
        handed_out = true;
        return request;
      },
      [&](SearchResult&& result) {
        found.hypotheses = std::move(result.hypotheses);
        return true;
      },
      session, [&](const SearchStep& step) { found.steps.push_back(step); });
  return found;
}

// Runs the search, which gives what the model writes by itself.
void add_search(const Translator& translator, const ExplainOptions& options,
                std::span<const int32_t> tokens, Explanation& e, Session& session) {
  const SearchOptions rule = options_of(translator, options);
  Found found = run_search(translator, rule, options.languages, tokens, session);
  e.hypotheses = std::move(found.hypotheses);
  e.search_steps = std::move(found.steps);
  e.beam = rule.beam;
  e.length_penalty = rule.length_penalty;
  e.written = e.hypotheses.front().tokens;
  for (const Hypothesis& h : e.hypotheses) {
    e.hypothesis_texts.push_back(translator.tokenizer().decode(h.tokens));
  }
  e.written_text = e.hypothesis_texts.front();
}

// If the beam's result is not the likeliest token at some step: what greedy search would have
// written.
void add_greedy(const Translator& translator, const ExplainOptions& options,
                std::span<const int32_t> tokens, Explanation& e, Session& session) {
  SearchOptions rule = options_of(translator, options);
  const auto unlikely = [](const ExplainedStep& step) {
    return step.candidates.front().token != step.right;
  };
  const auto own = e.steps.begin() + static_cast<ptrdiff_t>(e.prompt);
  if (e.target_given || rule.beam == 1 || std::none_of(own, e.steps.end(), unlikely)) return;
  rule.beam = 1;
  e.greedy = std::move(
      run_search(translator, rule, options.languages, tokens, session).hypotheses.front());
  e.greedy_text = translator.tokenizer().decode(e.greedy->tokens);
}

// START and all tokens but the last are fed in; each is to be predicted one position earlier.
void lay_out_steps(std::span<const int32_t> target, int64_t layers, Explanation& e) {
  for (size_t i = 0; i < target.size(); ++i) {
    ExplainedStep& step = e.steps.emplace_back();
    step.fed = i == 0 ? e.start : target[i - 1];
    step.right = target[i];
    step.differing_in_layer.assign(static_cast<size_t>(layers), 0);
  }
}

int64_t differing(std::span<const float> a, std::span<const float> b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) ? 1 : 0;
  }
  return count;
}

// Compares rows of two passes, one kind of number at a time.
class RowComparison {
 public:
  explicit RowComparison(Explanation& e) : e_(e) {}

  // Adds the number of differences of each row to `count_of(step)`.
  template <class CountOf>
  void add(const std::vector<float>& a, const std::vector<float>& b, const CountOf& count_of) {
    const size_t rows = e_.steps.size();
    check_sizes(a, b);
    const size_t columns = a.size() / rows;
    for (size_t row = 0; row < rows; ++row) {
      const int64_t count = differing(std::span(a).subspan(row * columns, columns),
                                      std::span(b).subspan(row * columns, columns));
      count_of(e_.steps[row]) += count;
      e_.numbers_differing += count;
    }
    e_.numbers_compared += static_cast<int64_t>(a.size());
  }

  // For the source: one row of it serves all steps.
  void add_source(const std::vector<float>& a, const std::vector<float>& b) {
    check_sizes(a, b);
    e_.numbers_differing += differing(a, b);
    e_.numbers_compared += static_cast<int64_t>(a.size());
  }

 private:
  static void check_sizes(const std::vector<float>& a, const std::vector<float>& b) {
    require(a.size() == b.size(), ErrorCode::internal, "explain: the two passes left ", a.size(),
            " and ", b.size(), " numbers");
  }

  Explanation& e_;
};

uint64_t row_fingerprint(const std::vector<float>& matrix, size_t row, size_t rows) {
  const size_t columns = matrix.size() / rows;
  return fingerprint(
      {reinterpret_cast<const char*>(matrix.data() + row * columns), columns * sizeof(float)});
}

// Without the mask, training is no longer the function that decoding computes.
void compare_leaked(const PassRecord& leaked, const PassRecord& stepwise, Explanation& e) {
  const size_t vocab = leaked.logits.size() / e.steps.size();
  for (size_t row = 0; row < e.steps.size(); ++row) {
    e.steps[row].leaked_differing_logits =
        differing(std::span(leaked.logits).subspan(row * vocab, vocab),
                  std::span(stepwise.logits).subspan(row * vocab, vocab));
    e.steps[row].leaked_fingerprint = row_fingerprint(leaked.logits, row, e.steps.size());
  }
}

// One layer of the decoder in both passes.
void compare_layer(const PassRecord& parallel, const PassRecord& stepwise, size_t layer,
                   RowComparison& compare) {
  const auto of_layer = [layer](ExplainedStep& step) -> int64_t& {
    return step.differing_in_layer[layer];
  };
  const AttentionRecord& a = parallel.attention.masked[layer];
  const AttentionRecord& b = stepwise.attention.masked[layer];
  compare.add(a.queries, b.queries, of_layer);
  compare.add(a.keys, b.keys, of_layer);
  compare.add(a.values, b.values, of_layer);
  compare.add(a.context, b.context, of_layer);
  if (!parallel.attention.cross.empty()) {
    const AttentionRecord& c = parallel.attention.cross[layer];
    const AttentionRecord& d = stepwise.attention.cross[layer];
    compare.add(c.queries, d.queries, of_layer);
    compare.add_source(c.keys, d.keys);
    compare.add_source(c.values, d.values);
    compare.add(c.context, d.context, of_layer);
  }
  compare.add(parallel.layer_outputs[layer], stepwise.layer_outputs[layer], of_layer);
}

void compare_passes(const PassRecord& parallel, const PassRecord& stepwise, Explanation& e) {
  RowComparison compare(e);
  for (size_t layer = 0; layer < parallel.attention.encoder.size(); ++layer) {
    const AttentionRecord& a = parallel.attention.encoder[layer];
    const AttentionRecord& b = stepwise.attention.encoder[layer];
    compare.add_source(a.queries, b.queries);
    compare.add_source(a.keys, b.keys);
    compare.add_source(a.values, b.values);
    compare.add_source(a.context, b.context);
  }
  for (size_t layer = 0; layer < parallel.layer_outputs.size(); ++layer) {
    compare_layer(parallel, stepwise, layer, compare);
  }
  const auto of_hidden = [](ExplainedStep& s) -> int64_t& { return s.differing_hidden; };
  const auto of_logits = [](ExplainedStep& s) -> int64_t& { return s.differing_logits; };
  compare.add(parallel.hidden, stepwise.hidden, of_hidden);
  compare.add(parallel.logits, stepwise.logits, of_logits);
  for (size_t row = 0; row < e.steps.size(); ++row) {
    e.steps[row].parallel_fingerprint = row_fingerprint(parallel.logits, row, e.steps.size());
    e.steps[row].stepwise_fingerprint = row_fingerprint(stepwise.logits, row, e.steps.size());
  }
  e.parallel_calls = parallel.calls;
  e.stepwise_calls = stepwise.calls;
  e.parallel_encoder_calls = parallel.encoder_calls;
  e.stepwise_encoder_calls = stepwise.encoder_calls;
}

// log Σ exp(logit / temperature), in double: accurate enough for numbers shown to people.
double log_sum_of(std::span<const float> logits, double temperature) {
  const double largest = double{*std::max_element(logits.begin(), logits.end())};
  double total = 0.0;
  for (const float logit : logits) total += math::exp((double{logit} - largest) / temperature);
  return math::log(total) + largest / temperature;
}

// The softmax of one row of logits.
std::vector<float> log_probs_of(std::span<const float> logits) {
  const double log_total = log_sum_of(logits, 1.0);
  std::vector<float> result;
  result.reserve(logits.size());
  for (const float logit : logits) result.push_back(static_cast<float>(double{logit} - log_total));
  return result;
}

std::vector<TokenChance> likeliest(std::span<const float> log_probs, std::span<const float> logits,
                                   int64_t count) {
  std::vector<int32_t> order(log_probs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const size_t kept = std::min(static_cast<size_t>(count), order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(kept), order.end(),
                    [&](int32_t a, int32_t b) {
                      const float pa = log_probs[static_cast<size_t>(a)];
                      const float pb = log_probs[static_cast<size_t>(b)];
                      return pa != pb ? pa > pb : a < b;
                    });
  std::vector<TokenChance> result;
  for (size_t i = 0; i < kept; ++i) {
    const auto token = static_cast<size_t>(order[i]);
    result.push_back({order[i], log_probs[token], logits[token]});
  }
  return result;
}

void add_candidates(const PassRecord& masked, const PassRecord& leaked, int64_t count,
                    Explanation& e) {
  const size_t vocab = masked.logits.size() / e.steps.size();
  for (size_t row = 0; row < e.steps.size(); ++row) {
    ExplainedStep& step = e.steps[row];
    const auto right = static_cast<size_t>(step.right);
    const auto logits = std::span(masked.logits).subspan(row * vocab, vocab);
    const auto log_probs = log_probs_of(logits);
    step.candidates = likeliest(log_probs, logits, count);
    step.right_log_prob = log_probs[right];
    step.right_logit = logits[right];
    for (int64_t i = 0; i < kTemperatures; ++i) {
      step.log_sums.push_back(log_sum_of(logits, temperature_of(i)));
    }
    const auto leaked_logits = std::span(leaked.logits).subspan(row * vocab, vocab);
    const auto without = log_probs_of(leaked_logits);
    step.leaked_candidates = likeliest(without, leaked_logits, count);
    step.leaked_right_log_prob = without[right];
  }
}

void add_vocabulary(const Tokenizer& tokenizer, Explanation& e) {
  std::set<int32_t> all(e.source.begin(), e.source.end());
  all.insert({e.start, e.end});
  all.insert(e.written.begin(), e.written.end());
  for (const ExplainedStep& step : e.steps) {
    all.insert({step.fed, step.right});
    for (const TokenChance& chance : step.candidates) all.insert(chance.token);
    for (const TokenChance& chance : step.leaked_candidates) all.insert(chance.token);
  }
  for (const SearchStep& step : e.search_steps) {
    for (const auto& candidate : step.candidates) all.insert(candidate.token);
  }
  for (const Hypothesis& h : e.hypotheses) all.insert(h.tokens.begin(), h.tokens.end());
  if (e.greedy) all.insert(e.greedy->tokens.begin(), e.greedy->tokens.end());
  for (const int32_t token : all) {
    e.tokens.push_back(token);
    e.vocabulary.push_back(tokenizer.piece(token));
  }
}

void check_finite(const PassRecord& pass) {
  const auto finite = [](const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
  };
  bool all = finite(pass.hidden) && finite(pass.logits);
  const PassAttention& attention = pass.attention;
  for (const auto* records : {&attention.encoder, &attention.masked, &attention.cross}) {
    for (const AttentionRecord& r : *records) {
      all = all && finite(r.queries) && finite(r.keys) && finite(r.values) && finite(r.context);
    }
  }
  require(all, ErrorCode::bad_format, "explain: the model computes numbers that are not finite");
}

// The tokens of the sentence as the model reads them.
std::vector<int32_t> read_sentence(const Translator& translator, std::string_view sentence,
                                   const LanguagePair& languages) {
  const Tokenizer& tokenizer = translator.tokenizer();
  const TransformerConfig& config = translator.model().config();
  check_line("the sentence", sentence);
  std::vector<int32_t> tokens = tokenizer.encode(sentence);
  if (config.decoder_only()) {
    check_length("the sentence", tokens.size() + 1, config.max_length);
    return tokens;
  }
  require(has_word(tokenizer, tokens), ErrorCode::invalid_argument,
          "explain: the sentence has no word");
  tokens = tokenizer.encode_source(sentence, translator.languages_for(languages));
  check_length("the sentence", tokens.size(), config.max_length);
  return tokens;
}

std::vector<int32_t> read_target(const Translator& translator, std::string_view target,
                                 const LanguagePair& languages) {
  const Tokenizer& tokenizer = translator.tokenizer();
  const TransformerConfig& config = translator.model().config();
  check_line("the target", target);
  std::vector<int32_t> tokens = tokenizer.encode(target, TextSide::target);
  require(has_word(tokenizer, tokens), ErrorCode::invalid_argument,
          "explain: the target has no word");
  const std::vector<int32_t> first = translator.forced_first(languages);
  tokens.insert(tokens.begin(), first.begin(), first.end());
  tokens.push_back(tokenizer.end());
  check_length("the target", tokens.size(), config.max_length);
  return tokens;
}

void check_options(const ExplainOptions& o, const Translator& translator) {
  const TransformerConfig& config = translator.model().config();
  const SearchOptions search = options_of(translator, o);
  require(o.candidates >= 1 && o.candidates <= 100, ErrorCode::invalid_argument,
          "explain: candidates must be from 1 to 100, got ", o.candidates);
  require(!search.sample, ErrorCode::invalid_argument, "explain: a search is shown, not samples");
  require(search.beam >= 1 && search.beam <= 16, ErrorCode::invalid_argument,
          "explain: a beam from 1 to 16 can be shown, got ", search.beam);
  require(!o.target || !config.decoder_only(), ErrorCode::invalid_argument,
          "explain: a target, but the model has no encoder: the sentence itself is what it reads");
}

// Runs the three passes and computes everything derived from them.
void run_passes(const Transformer& model, const ExplainOptions& options, const TestHooks& hooks,
                Explanation& e, Session& session) {
  std::vector<int32_t> fed;
  for (const ExplainedStep& step : e.steps) fed.push_back(step.fed);
  const PassTokens tokens{e.source, fed};
  PassRecord stepwise = stepwise_pass(model, tokens, session);
  session->hooks = hooks;
  PassRecord parallel = training_pass(model, tokens, Masking::causal, session);
  session->hooks = {};
  const PassRecord leaked = training_pass(model, tokens, Masking::none, session);
  check_finite(stepwise);
  check_finite(parallel);
  check_finite(leaked);

  e.scale = e.config.attention_scale > 0.0
                ? static_cast<float>(e.config.attention_scale)
                : 1.0f / std::sqrt(static_cast<float>(e.config.head_dim));
  e.encoder_bias = shortened(parallel.encoder_bias, static_cast<int64_t>(e.source.size()));
  e.masked_bias = shortened(parallel.masked_bias, static_cast<int64_t>(fed.size()));
  compare_passes(parallel, stepwise, e);
  compare_leaked(leaked, stepwise, e);
  add_candidates(parallel, leaked, options.candidates, e);
  for (const AttentionRecord& record : leaked.attention.masked) {
    e.leaked_scores.push_back(scores_of(record, e.config, e.scale, e.masked_bias));
  }
  e.stages = stages_of(model, parallel, kKeptNumbers);
  e.training = std::move(parallel.attention);
  e.stepwise = std::move(stepwise.attention);
  for (const AttentionRecord& record : e.training.encoder) {
    check_contexts(record, e.config, e.scale, e.encoder_bias, e.context_check);
  }
  for (const AttentionRecord& record : e.training.masked) {
    check_contexts(record, e.config, e.scale, e.masked_bias, e.context_check);
  }
  for (const AttentionRecord& record : e.training.cross) {
    check_contexts(record, e.config, e.scale, {}, e.context_check);
  }
}

}  // namespace

Explanation explain(const Translator& translator, std::string_view sentence,
                    const ExplainOptions& options, const TestHooks& hooks) {
  const StandardRounding rounding;
  const Transformer& model = translator.model();
  const Tokenizer& tokenizer = translator.tokenizer();
  Explanation e;
  e.config = model.config();
  check_options(options, translator);
  e.parameters = model.parameter_count();
  e.sentence = sentence;
  e.start = start_of(translator, options.languages);
  e.end = tokenizer.end();
  const std::vector<int32_t> read = read_sentence(translator, sentence, options.languages);
  std::vector<int32_t> target;
  if (options.target) target = read_target(translator, *options.target, options.languages);

  Session session(model, options.threads);
  if (e.config.decoder_only()) {
    e.prompt = static_cast<int64_t>(read.size());
  } else {
    e.source = read;
    e.prompt = static_cast<int64_t>(translator.forced_first(options.languages).size());
  }
  add_search(translator, options, read, e, session);
  if (!options.target) target = e.written;
  e.target_given = options.target.has_value();
  e.target_text = tokenizer.decode(target);
  lay_out_steps(target, e.config.decoder_layers, e);
  run_passes(model, options, hooks, e, session);
  add_greedy(translator, options, read, e, session);
  add_vocabulary(tokenizer, e);
  if (options.target) {
    ExplainOptions by_itself = options;
    by_itself.target.reset();
    e.own = std::make_shared<const Explanation>(explain(translator, sentence, by_itself, hooks));
  }
  return e;
}

std::string explain_page(const Translator& translator, std::string_view sentence,
                         const ExplainOptions& options) {
  return explain_page(explain(translator, sentence, options));
}

}  // namespace tril
