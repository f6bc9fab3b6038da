#include "tril/prove/expression_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "tril/base/interval.h"

namespace tril {
namespace {

using Sentence = TokenVariables::Sentence;

constexpr int kLogits = 1000;  // in place of a site

int32_t base_of(Sentence sentence) {
  return sentence == Sentence::checked ? 0 : TokenVariables::kNeighbour;
}

}  // namespace

std::string_view name_of(Site site) {
  switch (site) {
    case Site::embedded: return "embedding";
    case Site::query: return "query";
    case Site::key: return "key";
    case Site::value: return "value";
    case Site::context: return "attention";
    case Site::cross_query: return "cross query";
    case Site::cross_key: return "cross key";
    case Site::cross_value: return "cross value";
    case Site::cross_context: return "cross-attention";
    case Site::block_output: return "layer output";
    case Site::final_output: return "output";
    case Site::normed: return "norm";
    case Site::added: return "sub-layer output";
    case Site::sum: return "residual sum";
    case Site::feed_forward_hidden: return "feed-forward";
    case Site::embedding_table:
    case Site::position_table: break;
  }
  return "table";
}

bool is_by_head(Site site) {
  switch (site) {
    case Site::query:
    case Site::key:
    case Site::value:
    case Site::context:
    case Site::cross_query:
    case Site::cross_key:
    case Site::cross_value:
    case Site::cross_context: return true;
    default: return false;
  }
}

TokenVariables::TokenVariables(const EveryInputOptions& options, bool has_source)
    : target_(options.length),
      neighbour_(options.neighbour),
      source_(has_source ? options.source_length : 0),
      neighbour_source_(has_source ? 2 : 0) {}

int64_t TokenVariables::count() const {
  return target_ + neighbour_ + source_ + neighbour_source_ + 1;
}

int64_t TokenVariables::source_length(Sentence sentence) const {
  return sentence == Sentence::checked ? source_ : neighbour_source_;
}

std::vector<int32_t> TokenVariables::neighbour_source() const {
  return tokens(target_ + neighbour_ + source_, neighbour_source_);
}

TokenVariables::Place TokenVariables::place_of(int32_t token) const {
  const std::pair<int64_t, Place> parts[] = {{target_, {Sentence::checked, false}},
                                             {neighbour_, {Sentence::neighbour, false}},
                                             {source_, {Sentence::checked, true}},
                                             {neighbour_source_, {Sentence::neighbour, true}}};
  int64_t rest = token;
  for (const auto& [size, place] : parts) {
    if (rest < size) return {place.sentence, place.in_source, static_cast<int32_t>(rest)};
    rest -= size;
  }
  return {};
}

std::vector<Reach> TokenVariables::reaches() const {
  std::vector<Reach> result;
  for (int32_t token = 0; token < count(); ++token) {
    const Place at = place_of(token);
    // What is written beside the checked sentence stands nowhere a row may see.
    const int32_t position =
        at.sentence == Sentence::other ? 2 * kNeighbour : base_of(at.sentence) + at.position;
    result.push_back(at.in_source ? Reach::source_at(position) : Reach::target_at(position));
  }
  return result;
}

std::vector<int32_t> TokenVariables::tokens(int64_t first, int64_t count) {
  std::vector<int32_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(static_cast<int32_t>(first + i));
  return result;
}

ReachRule::Keys ReachRule::self_keys(const TokenVariables::Place& at) const {
  if (at.in_source) return source_keys(at);
  const auto window = static_cast<int32_t>(config_.window);
  const auto prefix =
      at.sentence == Sentence::checked ? static_cast<int32_t>(options_.prefix) : int32_t{0};
  return {window > 0 ? std::max(0, at.position + 1 - window) : 0,
          std::max(at.position + 1, prefix)};
}

ReachRule::Keys ReachRule::source_keys(const TokenVariables::Place& at) const {
  return {0, static_cast<int32_t>(variables_.source_length(at.sentence))};
}

Reach ReachRule::after(int64_t attentions, const TokenVariables::Place& at) const {
  const int32_t base = base_of(at.sentence);
  const Keys source = source_keys(at);
  Reach reach;
  if (source.hi > 0) reach.source = {base, base + source.hi};
  if (at.in_source) return reach;
  const int64_t back = attentions * (config_.window - 1);
  const int64_t lo = config_.window > 0 ? std::max<int64_t>(0, at.position - back) : 0;
  const int32_t hi = attentions > 0 ? self_keys(at).hi : at.position + 1;
  reach.target = {base + static_cast<int32_t>(lo), base + hi};
  return reach;
}

ExpressionRows::ExpressionRows(const TransformerConfig& config, const EveryInputOptions& options,
                               const TokenVariables& variables, EveryInputResult& result)
    : config_(config),
      options_(options),
      variables_(variables),
      rule_(config, options, variables),
      result_(result) {}

void ExpressionRows::begin_comparing(int64_t length) {
  length_ = length;
  compared_rows_ = 0;
}

void ExpressionRows::end_comparing() {
  int64_t expected = 0;
  for (const auto& [key, numbers] : recorded_) {
    const auto& [checked, in_source, layer, site, position] = key;
    if (checked && (in_source || position < length_)) ++expected;
  }
  if (compared_rows_ != expected) result_.missing += std::abs(expected - compared_rows_);
}

// Self-attentions of the decoder that a number may have passed.
int64_t ExpressionRows::attentions_before(const Observation& o) const {
  if (o.site == Site::embedded) return 0;
  if (o.layer < 0) return config_.decoder_layers;
  const bool before = o.site == Site::query || o.site == Site::key || o.site == Site::value;
  return o.layer + (before ? 0 : 1);
}

void ExpressionRows::see(const Observation& o) {
  if (o.site == Site::embedding_table || o.site == Site::position_table) return;
  if (o.site == Site::embedded) {
    tokens_.assign(o.tokens.begin(), o.tokens.end());
    times_.clear();
  }
  const int time = times_[{o.stack == Stack::encoder, o.layer, static_cast<int>(o.site)}]++;
  if (o.site == Site::query || o.site == Site::cross_query) check_masks(o);
  const EveryInputPlace place{
      .stack = o.stack, .layer = o.layer, .site = std::string(name_of(o.site)), .length = length_};
  see_rows(o.tokens,
           {static_cast<const Expression*>(o.tensor.raw()), static_cast<size_t>(o.tensor.size())},
           attentions_before(o), is_by_head(o.site) ? config_.head_dim : 0, place,
           static_cast<int>(o.site) + kTimes * time);
}

void ExpressionRows::see_logits(const Tensor& logits) {
  const EveryInputPlace place{.site = "logit", .length = length_};
  see_rows(tokens_, {logits.data<Expression>(), static_cast<size_t>(logits.size())},
           config_.decoder_layers, 0, place, kLogits);
}

void ExpressionRows::see_rows(std::span<const int32_t> tokens, std::span<const Expression> values,
                              int64_t attentions, int64_t head_width, const EveryInputPlace& place,
                              int site) {
  const size_t columns = tokens.empty() ? 0 : values.size() / tokens.size();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TokenVariables::Place at = variables_.place_of(tokens[i]);
    if (at.sentence == Sentence::other) continue;
    const bool checked = at.sentence == Sentence::checked;
    Row row{.numbers = values.subspan(i * columns, columns),
            .head_width = head_width,
            .place = place,
            .key = {checked, at.in_source, place.layer, site, at.position}};
    row.place.position = at.position;
    row.place.of_neighbour = !checked;
    check_reach(row, at, attentions);
    if (length_ == 0) {
      std::vector<ExpressionHash>& kept = recorded_[row.key];
      if (!kept.empty()) ++result_.missing;  // a row that came twice hides another
      kept.clear();
      for (const Expression& number : row.numbers) kept.push_back(number.hash);
    } else if (checked || recorded_.contains(row.key)) {
      compare(row);
      compared_rows_ += checked ? 1 : 0;
      if (site == kLogits) result_.logits += static_cast<int64_t>(columns);
    }
  }
}

void ExpressionRows::compare(const Row& row) {
  const auto found = recorded_.find(row.key);
  if (found == recorded_.end() || found->second.size() != row.numbers.size()) {
    ++result_.missing;
    return;
  }
  for (size_t c = 0; c < row.numbers.size(); ++c) {
    ++result_.numbers;
    const ExpressionHash& hash = row.numbers[c].hash;
    // A number that nobody made has no hash: it must not be found equal to another such.
    if (hash == found->second[c] && !(hash == ExpressionHash{})) continue;
    ++result_.differing;
    if (result_.first_difference) continue;
    result_.first_difference = row.place;
    if (row.head_width > 0) {
      result_.first_difference->head = static_cast<int64_t>(c) / row.head_width;
    }
  }
}

void ExpressionRows::check_reach(const Row& row, const TokenVariables::Place& at,
                                 int64_t attentions) {
  const Reach permitted = rule_.after(attentions, at);
  const auto within = [](const Reach::Side& side, const Reach::Side& bounds) {
    return side.empty() || (!bounds.empty() && side.within(bounds.lo, bounds.hi));
  };
  for (size_t c = 0; c < row.numbers.size(); ++c) {
    const Reach& reach = row.numbers[c].reach;
    const bool in_target = within(reach.target, permitted.target);
    const bool in_source = within(reach.source, permitted.source);
    if (in_target && in_source) {
      // A logit has to be made from everything its row may see: a model that looked at nothing
      // would leak nothing.
      if (std::get<3>(row.key) == kLogits && !(reach == permitted)) {
        ++result_.short_reach;
        if (!result_.first_short_reach) result_.first_short_reach = row.place;
      }
      continue;
    }
    ++result_.forbidden;
    if (result_.first_leak) continue;
    result_.first_leak = row.place;
    if (row.head_width > 0) result_.first_leak->head = static_cast<int64_t>(c) / row.head_width;
    const Reach::Side& side = in_target ? reach.source : reach.target;
    const Reach::Side& bounds = in_target ? permitted.source : permitted.target;
    const int32_t reached = side.hi > bounds.hi ? side.hi - 1 : side.lo;
    result_.first_leak->in_source = in_target;
    result_.first_leak->in_other =
        (reached >= TokenVariables::kNeighbour) != (at.sentence == Sentence::neighbour);
    result_.first_leak->reached = reached % TokenVariables::kNeighbour;
  }
}

// What a row is given to see is compared with the rule: a mask that is too narrow leaks nothing.
void ExpressionRows::check_masks(const Observation& o) {
  if (options_.masking != Masking::causal) return;
  for (size_t row = 0; row < o.tokens.size(); ++row) {
    if (o.slots[row] < 0) continue;
    const TokenVariables::Place at = variables_.place_of(o.tokens[row]);
    if (at.sentence == Sentence::other) continue;
    const Interval& interval = o.intervals[row];
    const ReachRule::Keys given{interval.lo - interval.origin, interval.hi - interval.origin};
    const bool self = o.site == Site::query;
    if (given == (self ? rule_.self_keys(at) : rule_.source_keys(at))) continue;
    ++result_.wrong_masks;
    if (result_.first_wrong_mask) continue;
    result_.first_wrong_mask = EveryInputPlace{.stack = o.stack,
                                               .layer = o.layer,
                                               .site = self ? "mask" : "cross mask",
                                               .position = at.position,
                                               .of_neighbour = at.sentence != Sentence::checked,
                                               .length = length_};
  }
}

const std::vector<ExpressionHash>& ExpressionRows::recorded_logits(int32_t position) const {
  return recorded_.at({true, false, -1, kLogits, position});
}

void ExpressionRows::compare_logits(std::span<const Expression> logits, int32_t position) {
  compare({.numbers = logits,
           .place = {.site = "logit, not observed", .position = position},
           .key = {true, false, -1, kLogits, position}});
}

void ExpressionRows::compare_chosen(std::span<const Expression> logits,
                                    std::span<const int32_t> chosen, int32_t position) {
  const std::vector<ExpressionHash>& all = recorded_logits(position);
  for (size_t i = 0; i < chosen.size(); ++i) {
    ++result_.numbers;
    if (logits[i].hash == all[static_cast<size_t>(chosen[i])]) continue;
    ++result_.differing;
    if (result_.first_difference) continue;
    result_.first_difference = EveryInputPlace{.site = "shortlist", .position = position};
  }
}

void ExpressionRows::count_distinct() {
  std::vector<std::pair<uint64_t, uint64_t>> all;
  for (const auto& [key, row] : recorded_) {
    if (std::get<3>(key) != kLogits || !std::get<0>(key)) continue;
    for (const ExpressionHash& hash : row) all.emplace_back(hash.low, hash.high);
  }
  std::sort(all.begin(), all.end());
  result_.expected_distinct = static_cast<int64_t>(all.size());
  result_.distinct = std::unique(all.begin(), all.end()) - all.begin();
}

}  // namespace tril
