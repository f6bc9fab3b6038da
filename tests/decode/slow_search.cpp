#include "slow_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "tril/base/math.h"
#include "tril/models/session_state.h"
#include "tril/ops/loss.h"

namespace tril::testing {
namespace {

bool has(const Tokens& list, int32_t token) {
  return std::count(list.begin(), list.end(), token) > 0;
}
bool is_forbidden(const SearchOptions& options, int32_t token) {
  return has(options.forbidden, token);
}
bool is_end(const SearchOptions& options, int32_t token) {
  return token == options.end || has(options.more_ends, token);
}

constexpr float kNone = -std::numeric_limits<float>::infinity();

// The tokens that the request is translated with.
Tokens set_for(const SearchRequest& request, const SearchOptions& options, int64_t vocab) {
  Tokens set(static_cast<size_t>(vocab));
  std::iota(set.begin(), set.end(), 0);
  if (options.shortlist) options.shortlist->choose(request.source, request.prefix, set);
  return set;
}

// The log-probabilities of every next token, over the request's set where there is a shortlist.
std::vector<std::vector<float>> rows_for(const Transformer& model, const SearchRequest& request,
                                         const SearchOptions& options, const Tokens& tokens,
                                         Session& session, float* norm = nullptr) {
  const Tokens set = set_for(request, options, model.config().target_vocab);
  return parallel_log_probs(model, request.source, options.start, tokens, set, session, norm);
}

// A hypothesis, and the sum by which it is ordered.
struct Slow {
  Hypothesis h;
  double sum = 0.0;
};

// The prefix as a hypothesis, with its real log-probabilities. Without START the first token is
// not predicted.
Slow prefix_of(const Transformer& model, const SearchRequest& request, const SearchOptions& options,
               Session& session) {
  Slow made;
  if (request.prefix.empty()) return made;
  const auto rows = rows_for(model, request, options, request.prefix, session);
  for (size_t i = 0; i < request.prefix.size(); ++i) {
    const auto token = static_cast<size_t>(request.prefix[i]);
    made.h.tokens.push_back(request.prefix[i]);
    made.h.log_probs.push_back(options.start ? rows[i][token] : i == 0 ? 0.0f : rows[i - 1][token]);
    made.h.score += double{made.h.log_probs.back()};
  }
  made.sum = made.h.score;
  return made;
}

Hypothesis extended(const Hypothesis& h, int32_t token, float log_prob) {
  Hypothesis longer = h;
  longer.tokens.push_back(token);
  longer.log_probs.push_back(log_prob);
  longer.score += double{log_prob};
  return longer;
}

// Ended hypotheses come before cut ones.
void sort_best_first(std::vector<Hypothesis>& all, const SearchOptions& options) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.rank > b.rank; });
  if (options.cut == CutHypotheses::ranked) return;
  std::stable_partition(all.begin(), all.end(), [](const Hypothesis& h) { return h.ended; });
}

// What the rules that look back forbid after a sequence.
bool is_ruled_out(const SearchOptions& options, Tokens sequence, int32_t token) {
  sequence.push_back(token);
  for (const Tokens& forbidden : options.forbidden_sequences) {
    if (forbidden.size() <= sequence.size() &&
        std::equal(forbidden.rbegin(), forbidden.rend(), sequence.rbegin())) {
      return true;
    }
  }
  const auto n = static_cast<size_t>(options.no_repeat_ngram);
  if (n == 0) return false;
  for (size_t first = 0; first + n < sequence.size(); ++first) {
    if (std::equal(sequence.end() - static_cast<ptrdiff_t>(n), sequence.end(),
                   sequence.begin() + static_cast<ptrdiff_t>(first))) {
      return true;
    }
  }
  return false;
}

// The step-by-step rules for one request.
class SlowRules {
 public:
  SlowRules(const SearchRequest& request, const SearchOptions& options,
            const TransformerConfig& config)
      : request_(request),
        o_(options),
        limit_(slow_limit(request, options, config)),
        set_(set_for(request, options, config.target_vocab)) {}

  bool forces_end(int64_t chosen) const { return o_.forced_end && chosen + 1 == limit_; }

  // The value of each token that may follow; none for the others.
  std::vector<std::optional<float>> values(const Tokens& tokens, int64_t chosen,
                                           const std::vector<float>& log_probs, float norm) const {
    Tokens sequence = tokens;
    if (o_.start) sequence.insert(sequence.begin(), *o_.start);
    std::vector<std::optional<float>> values(log_probs.size());
    const auto penalty = static_cast<float>(o_.repetition_penalty);
    for (int32_t token = 0; token < static_cast<int32_t>(log_probs.size()); ++token) {
      const float log_prob = log_probs[static_cast<size_t>(token)];
      std::optional<float>& value = values[static_cast<size_t>(token)];
      if (log_prob == kNone) continue;
      if (forces_end(chosen)) {
        if (token == *o_.forced_end) value = 0.0f;
        continue;
      }
      if (is_forbidden(o_, token) || is_ruled_out(o_, sequence, token)) continue;
      if (is_end(o_, token) && request_.forced + chosen < o_.min_tokens) continue;
      value = log_prob;
      if (o_.repetition_penalty == 1.0 || !has(sequence, token)) continue;
      const float x = o_.beam > 1 ? log_prob : log_prob + norm;
      const float changed = x < 0.0f ? x * penalty : x / penalty;
      value = o_.beam > 1 ? changed : changed - norm;
    }
    if (o_.renormalize && o_.beam > 1 && !forces_end(chosen)) share_out(values);
    return values;
  }

  // Of a hypothesis with this sum and number of tokens.
  double rank(double sum, const Slow& prefix, int64_t length) const {
    const auto all = static_cast<int64_t>(request_.prefix.size());
    const int64_t without = o_.rank_prefix ? request_.forced : all;
    double unranked = 0.0;
    for (int64_t i = 0; i < without; ++i) {
      unranked += double{prefix.h.log_probs[static_cast<size_t>(i)]};
    }
    const int64_t n = length - (o_.rank_prefix ? 0 : all - request_.forced);
    return slow_rank(sum - unranked, static_cast<double>(n), o_.length_penalty);
  }

  bool is_done(const std::vector<Hypothesis>& finished, const std::vector<Slow>& alive,
               const Slow& prefix, int64_t chosen) const {
    const auto beam = static_cast<size_t>(o_.beam);
    if (finished.size() < beam) return false;
    if (o_.early_stopping == EarlyStopping::yes || beam == 1 || alive.empty()) return true;
    std::vector<double> ranks;
    for (const Hypothesis& h : finished) ranks.push_back(h.rank);
    std::sort(ranks.rbegin(), ranks.rend());
    const bool far = o_.early_stopping == EarlyStopping::never && o_.length_penalty > 0.0;
    const auto before = static_cast<int64_t>(request_.prefix.size());
    return rank(alive[0].sum, prefix, before + (far ? limit_ : chosen)) <= ranks[beam - 1];
  }

 private:
  // What has no value gives its probability to the others. The sum has the kernel's order, so that
  // results can be compared with ==; tests/kernels holds it to the formula.
  void share_out(std::vector<std::optional<float>>& values) const {
    std::vector<float> row;
    for (const int32_t token : set_) {
      row.push_back(values[static_cast<size_t>(token)].value_or(kNone));
    }
    ops::log_probs_in_place(row);
    for (size_t i = 0; i < set_.size(); ++i) {
      auto& value = values[static_cast<size_t>(set_[i])];
      if (value) value = row[i];
    }
  }

  const SearchRequest& request_;
  const SearchOptions& o_;
  const int64_t limit_;
  const Tokens set_;
};

}  // namespace

std::vector<std::vector<float>> parallel_log_probs(const Transformer& model, const Tokens& source,
                                                   std::optional<int32_t> start,
                                                   const Tokens& tokens, Session& session) {
  Tokens all(static_cast<size_t>(model.config().target_vocab));
  std::iota(all.begin(), all.end(), 0);
  return parallel_log_probs(model, source, start, tokens, all, session);
}

std::vector<std::vector<float>> parallel_log_probs(const Transformer& model, const Tokens& source,
                                                   std::optional<int32_t> start,
                                                   const Tokens& tokens, const Tokens& set,
                                                   Session& session, float* norm) {
  session.reset();
  Tape tape(session);
  Rows source_rows, target;
  const bool decoder_only = model.config().decoder_only();
  source_rows.add_sequence(source, {.slot = 0});
  Tokens inputs;
  if (start) inputs.push_back(*start);
  inputs.insert(inputs.end(), tokens.begin(), tokens.end());
  target.add_sequence(inputs, {.slot = 0, .segment = decoder_only ? -1 : 0});
  const Memory memory = decoder_only ? Memory() : model.encode(source_rows, session);
  const Tensor logits = model.logits(model.forward(target, memory, session), session);
  const OnHost all(logits);
  const auto width = static_cast<int64_t>(set.size());
  std::vector<float> of_set;
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const auto from = all.row(row, logits.columns());
    for (const int32_t token : set) of_set.push_back(from[static_cast<size_t>(token)]);
  }
  const Tensor chosen = tensor_of(session->arena, {logits.rows(), width}, of_set);
  const OnHost log_probs(ops::log_probs(session, chosen));
  std::vector<std::vector<float>> rows;
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const auto from = log_probs.row(row, width);
    auto& result = rows.emplace_back(static_cast<size_t>(logits.columns()), kNone);
    for (size_t i = 0; i < set.size(); ++i) result[static_cast<size_t>(set[i])] = from[i];
    if (norm == nullptr || row + 1 < logits.rows()) continue;
    const auto last = of_set.end() - width;
    const auto largest = std::max_element(last, of_set.end());
    *norm = *largest - from[static_cast<size_t>(largest - last)];
  }
  return rows;
}

int64_t slow_limit(const SearchRequest& request, const SearchOptions& options,
                   const TransformerConfig& config) {
  const auto room =
      config.max_length + (options.start ? 0 : 1) - static_cast<int64_t>(request.prefix.size());
  const int64_t most = std::max<int64_t>(1, options.max_tokens - request.forced);
  int64_t limit = options.max_tokens == 0 ? room : std::min(most, room);
  if (!config.decoder_only() && options.max_ratio > 0.0) {
    const double n = std::floor(options.max_ratio * static_cast<double>(request.source.size()));
    limit = std::min(limit, static_cast<int64_t>(n) + 10);
  }
  return limit;
}

double slow_rank(double sum, double tokens, double length_penalty) {
  if (length_penalty == 0.0) return sum;
  return length_penalty == 1.0 ? sum / tokens : sum / math::pow(tokens, length_penalty);
}

std::vector<Hypothesis> slow_beam(const Transformer& model, const SearchRequest& request,
                                  const SearchOptions& options) {
  Session session(model, 1);
  const auto beam = static_cast<size_t>(options.beam);
  const auto considered = (2 + options.more_ends.size()) * beam;
  const Slow prefix = prefix_of(model, request, options, session);
  std::vector<Slow> alive = {prefix};
  std::vector<Hypothesis> finished;
  const int64_t limit = slow_limit(request, options, model.config());
  const SlowRules rules(request, options, model.config());
  for (int64_t step = 1; step <= limit && !alive.empty(); ++step) {
    // Every continuation there is, in the order the header states.
    std::vector<std::tuple<double, size_t, float, int32_t, float>> all;
    for (size_t i = 0; i < alive.size(); ++i) {
      float norm = 0.0f;
      const Tokens& tokens = alive[i].h.tokens;
      const auto next = rows_for(model, request, options, tokens, session, &norm).back();
      const auto values = rules.values(tokens, step - 1, next, norm);
      for (int32_t token = 0; token < static_cast<int32_t>(next.size()); ++token) {
        const auto& value = values[static_cast<size_t>(token)];
        if (!value) continue;
        all.emplace_back(-(alive[i].sum + double{*value}), i, -*value, token,
                         next[static_cast<size_t>(token)]);
      }
    }
    std::sort(all.begin(), all.end());
    const bool cuts = step == limit && options.cut == CutHypotheses::ranked;
    std::vector<Slow> next;
    for (size_t i = 0; i < std::min(all.size(), considered); ++i) {
      const auto [sum, parent, value, token, log_prob] = all[i];
      Slow made{extended(alive[parent].h, token, log_prob), -sum};
      made.h.ended = is_end(options, token);
      made.h.rank = rules.rank(made.sum, prefix, static_cast<int64_t>(made.h.tokens.size()));
      if (made.h.ended || cuts) {
        if (i < beam && next.size() < beam) finished.push_back(made.h);
      } else if (next.size() < beam) {
        next.push_back(made);
      }
    }
    alive = rules.is_done(finished, next, prefix, step) ? std::vector<Slow>() : next;
    if (step < limit) continue;
    for (const Slow& cut : alive) finished.push_back(cut.h);
  }
  sort_best_first(finished, options);
  if (finished.size() > static_cast<size_t>(options.n_best)) {
    finished.resize(static_cast<size_t>(options.n_best));
  }
  return finished;
}

Hypothesis slow_greedy(const Transformer& model, const SearchRequest& request,
                       const SearchOptions& options) {
  Session session(model, 1);
  Hypothesis h = prefix_of(model, request, options, session).h;
  const int64_t limit = slow_limit(request, options, model.config());
  for (int64_t step = 0; step < limit && !h.ended; ++step) {
    const auto next = rows_for(model, request, options, h.tokens, session).back();
    int32_t best = -1;
    for (int32_t token = 0; token < static_cast<int32_t>(next.size()); ++token) {
      if (is_forbidden(options, token)) continue;
      if (best < 0 || next[static_cast<size_t>(token)] > next[static_cast<size_t>(best)]) {
        best = token;
      }
    }
    h = extended(h, best, next[static_cast<size_t>(best)]);
    h.ended = best == options.end;
  }
  h.rank = slow_rank(h.score, static_cast<double>(h.tokens.size()), options.length_penalty);
  return h;
}

std::vector<Hypothesis> all_hypotheses(const Transformer& model, const SearchRequest& request,
                                       const SearchOptions& options) {
  Session session(model, 1);
  const int64_t limit = slow_limit(request, options, model.config());
  std::vector<Hypothesis> all;
  const std::function<void(const Hypothesis&, int64_t)> grow = [&](const Hypothesis& h,
                                                                   int64_t chosen) {
    const auto next = rows_for(model, request, options, h.tokens, session).back();
    for (int32_t token = 0; token < static_cast<int32_t>(next.size()); ++token) {
      if (is_forbidden(options, token)) continue;
      Hypothesis longer = extended(h, token, next[static_cast<size_t>(token)]);
      longer.ended = token == options.end;
      if (longer.ended || chosen + 1 == limit) {
        longer.rank = slow_rank(longer.score, static_cast<double>(longer.tokens.size()),
                                options.length_penalty);
        all.push_back(longer);
      } else {
        grow(longer, chosen + 1);
      }
    }
  };
  grow(prefix_of(model, request, options, session).h, 0);
  sort_best_first(all, options);
  return all;
}

std::vector<SearchResult> run_search(const Transformer& model, const SearchOptions& options,
                                     int64_t slots, const std::vector<SearchRequest>& requests,
                                     Session& session) {
  size_t handed_out = 0;
  std::vector<SearchResult> results;
  search(
      model, options, slots,
      [&]() -> std::optional<SearchRequest> {
        if (handed_out == requests.size()) return std::nullopt;
        return requests[handed_out++];
      },
      [&](SearchResult&& result) {
        results.push_back(std::move(result));
        return true;
      },
      session);
  std::sort(results.begin(), results.end(),
            [](const SearchResult& a, const SearchResult& b) { return a.number < b.number; });
  return results;
}

bool same(const Hypothesis& a, const Hypothesis& b) {
  return a.tokens == b.tokens && equal_bits(a.log_probs, b.log_probs) && a.score == b.score &&
         a.rank == b.rank && a.ended == b.ended;
}

bool same(const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Hypothesis& x, const Hypothesis& y) { return same(x, y); });
}

SearchOptions small_options() {
  SearchOptions options;
  options.start = 0;
  options.end = 1;
  options.forbidden = {0};
  options.max_tokens = 12;
  return options;
}

Transformer sharp_model(Family family, int64_t vocab, uint64_t seed, int64_t max_length) {
  TransformerConfig config = tiny_config(family);
  config.target_vocab = vocab;
  if (family == Family::encoder_decoder) config.source_vocab = vocab;
  config.max_length = max_length;
  Transformer model(config, seed, placement());
  Random random(seed, 777);
  change_weights(model, [&](const std::string&, std::vector<float>& values, const Shape&) {
    for (float& value : values) value += random.uniform(-0.5f, 0.5f);
  });
  return model;
}

std::vector<SearchRequest> random_requests(const TransformerConfig& config, int count,
                                           int longest_source, int longest_prefix, int32_t end) {
  std::vector<SearchRequest> requests(static_cast<size_t>(count));
  const auto tokens = [](int length, int64_t vocab) {
    return *rc::gen::container<Tokens>(static_cast<size_t>(length),
                                       rc::gen::inRange<int32_t>(0, static_cast<int32_t>(vocab)));
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    SearchRequest& request = requests[i];
    request.number = static_cast<int64_t>(i);
    if (!config.decoder_only()) {
      request.source = tokens(*rc::gen::inRange(1, longest_source + 1), config.source_vocab);
    }
    request.prefix = tokens(*rc::gen::inRange(0, longest_prefix + 1), config.target_vocab);
    std::erase(request.prefix, end);
  }
  return requests;
}

void add_random_rules(SearchOptions& options, const TransformerConfig& config) {
  const auto chance = [](int of) { return *rc::gen::inRange(0, of) == 0; };
  const auto last = static_cast<int32_t>(config.target_vocab - 1);
  options.early_stopping =
      *rc::gen::element(EarlyStopping::yes, EarlyStopping::no, EarlyStopping::never);
  options.cut = *rc::gen::element(CutHypotheses::last, CutHypotheses::ranked);
  options.rank_prefix = *rc::gen::arbitrary<bool>();
  if (chance(3)) options.min_tokens = *rc::gen::inRange<int64_t>(1, 8);
  if (chance(3)) options.no_repeat_ngram = *rc::gen::element<int64_t>(2, 3, 4);
  if (chance(3)) options.repetition_penalty = *rc::gen::element(0.7, 1.3, 2.5);
  if (chance(3)) options.renormalize = true;
  if (chance(3)) options.forced_end = options.end;
  if (chance(3)) {
    options.forbidden_sequences = {{last, last}, {2, last, 2}, {options.end, last}};
  }
  if (chance(3) && !options.shortlist && last > options.end) options.more_ends = {last};
  if (chance(3) && config.decoder_only()) options.start.reset();
}

void fit_to_rules(SearchRequest& request, const SearchOptions& options) {
  std::erase_if(request.prefix, [&](int32_t token) { return is_end(options, token); });
  if (!options.start && request.prefix.empty()) request.prefix = {0};
  request.forced = *rc::gen::inRange<int64_t>(0, static_cast<int64_t>(request.prefix.size()) + 1);
}

Shortlist random_shortlist(const TransformerConfig& config, int32_t end) {
  ShortlistTable table{.target_vocab = config.target_vocab, .always = {end}, .listed = {}};
  const auto vocab = static_cast<int32_t>(config.target_vocab);
  for (int64_t source = 0; source < config.source_vocab; ++source) {
    table.listed.push_back(*rc::gen::container<Tokens>(static_cast<size_t>(*rc::gen::inRange(0, 4)),
                                                       rc::gen::inRange<int32_t>(0, vocab)));
  }
  if (*rc::gen::arbitrary<bool>()) table.always.push_back(vocab - 1);
  return Shortlist(table);
}

}  // namespace tril::testing
