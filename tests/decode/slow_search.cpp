#include "slow_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "tril/base/math.h"

namespace tril::testing {
namespace {

bool is_forbidden(const SearchOptions& options, int32_t token) {
  return std::count(options.forbidden.begin(), options.forbidden.end(), token) > 0;
}

constexpr float kNone = -std::numeric_limits<float>::infinity();

// The log-probabilities of every next token, over the request's set where there is a shortlist.
std::vector<std::vector<float>> rows_for(const Transformer& model, const SearchRequest& request,
                                         const SearchOptions& options, const Tokens& tokens,
                                         Session& session) {
  if (!options.shortlist) {
    return parallel_log_probs(model, request.source, options.start, tokens, session);
  }
  Tokens set;
  options.shortlist->choose(request.source, request.prefix, set);
  return parallel_log_probs(model, request.source, options.start, tokens, set, session);
}

// The prefix as a hypothesis, with its real log-probabilities.
Hypothesis prefix_of(const Transformer& model, const SearchRequest& request,
                     const SearchOptions& options, Session& session) {
  Hypothesis h;
  const auto rows = rows_for(model, request, options, request.prefix, session);
  for (size_t i = 0; i < request.prefix.size(); ++i) {
    h.tokens.push_back(request.prefix[i]);
    h.log_probs.push_back(rows[i][static_cast<size_t>(request.prefix[i])]);
    h.score += double{h.log_probs.back()};
  }
  return h;
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
  for (Hypothesis& h : all) h.rank = slow_rank(h.score, h.tokens.size(), options.length_penalty);
  std::stable_sort(all.begin(), all.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.rank > b.rank; });
  std::stable_partition(all.begin(), all.end(), [](const Hypothesis& h) { return h.ended; });
}

}  // namespace

std::vector<std::vector<float>> parallel_log_probs(const Transformer& model, const Tokens& source,
                                                   int32_t start, const Tokens& tokens,
                                                   Session& session) {
  Tokens all(static_cast<size_t>(model.config().target_vocab));
  std::iota(all.begin(), all.end(), 0);
  return parallel_log_probs(model, source, start, tokens, all, session);
}

std::vector<std::vector<float>> parallel_log_probs(const Transformer& model, const Tokens& source,
                                                   int32_t start, const Tokens& tokens,
                                                   const Tokens& set, Session& session) {
  session.reset();
  Tape tape(session);
  Rows source_rows, target;
  const bool decoder_only = model.config().decoder_only();
  source_rows.add_sequence(source, {.slot = 0});
  Tokens inputs = {start};
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
  const Tensor chosen = tensor_of(session.arena, {logits.rows(), width}, of_set);
  const OnHost log_probs(ops::log_probs(session, chosen));
  std::vector<std::vector<float>> rows;
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const auto from = log_probs.row(row, width);
    auto& result = rows.emplace_back(static_cast<size_t>(logits.columns()), kNone);
    for (size_t i = 0; i < set.size(); ++i) result[static_cast<size_t>(set[i])] = from[i];
  }
  return rows;
}

int64_t slow_limit(const SearchRequest& request, const SearchOptions& options,
                   const TransformerConfig& config) {
  const auto room = config.max_length - static_cast<int64_t>(request.prefix.size());
  int64_t limit = options.max_tokens == 0 ? room : std::min(options.max_tokens, room);
  if (!config.decoder_only() && options.max_ratio > 0.0) {
    const double n = std::floor(options.max_ratio * static_cast<double>(request.source.size()));
    limit = std::min(limit, static_cast<int64_t>(n) + 10);
  }
  return limit;
}

double slow_rank(double score, size_t tokens, double length_penalty) {
  const auto n = static_cast<double>(tokens);
  if (length_penalty == 0.0) return score;
  return length_penalty == 1.0 ? score / n : score / math::pow(n, length_penalty);
}

std::vector<Hypothesis> slow_beam(const Transformer& model, const SearchRequest& request,
                                  const SearchOptions& options) {
  Session session(model, 1);
  const auto beam = static_cast<size_t>(options.beam);
  std::vector<Hypothesis> alive = {prefix_of(model, request, options, session)}, finished;
  const int64_t limit = slow_limit(request, options, model.config());
  for (int64_t step = 1; step <= limit && finished.size() < beam; ++step) {
    // Every continuation there is, in the order the header states.
    std::vector<std::tuple<double, size_t, float, int32_t>> all;
    for (size_t i = 0; i < alive.size(); ++i) {
      const auto next = rows_for(model, request, options, alive[i].tokens, session).back();
      for (int32_t token = 0; token < static_cast<int32_t>(next.size()); ++token) {
        if (is_forbidden(options, token)) continue;
        const float log_prob = next[static_cast<size_t>(token)];
        if (log_prob == kNone) continue;
        all.emplace_back(-(alive[i].score + double{log_prob}), i, -log_prob, token);
      }
    }
    std::sort(all.begin(), all.end());
    std::vector<Hypothesis> next;
    for (size_t i = 0; i < std::min(all.size(), 2 * beam); ++i) {
      const auto [score, parent, log_prob, token] = all[i];
      Hypothesis h = extended(alive[parent], token, -log_prob);
      if (token == options.end) {
        h.ended = true;
        if (i < beam) finished.push_back(h);
      } else if (next.size() < beam) {
        next.push_back(h);
      }
    }
    alive = next;
    const bool cut = step == limit && finished.size() < beam;
    if (cut) finished.insert(finished.end(), alive.begin(), alive.end());
    if (alive.empty()) break;
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
  Hypothesis h = prefix_of(model, request, options, session);
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
  h.rank = slow_rank(h.score, h.tokens.size(), options.length_penalty);
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
        all.push_back(longer);
      } else {
        grow(longer, chosen + 1);
      }
    }
  };
  grow(prefix_of(model, request, options, session), 0);
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
