#include "tril/decode/hypotheses.h"

#include <algorithm>
#include <functional>

#include "tril/base/math.h"

namespace tril {
namespace {

using Fate = SearchStep::Fate;

}  // namespace

// Of a hypothesis with this sum and number of tokens.
double Hypotheses::rank_of(double sum, int64_t length) const {
  const double score = sum - unranked_sum_;
  const auto n = static_cast<double>(length - unranked_length_);
  if (options_->length_penalty == 0.0) return score;
  if (options_->length_penalty == 1.0) return score / n;
  return score / math::pow(n, options_->length_penalty);
}

int32_t Hypotheses::remember(int32_t parent, const Choice& choice) {
  history_.push_back({parent, choice.token, choice.log_prob});
  return static_cast<int32_t>(history_.size() - 1);
}

void Hypotheses::start(std::span<const int32_t> prefix, std::span<const float> log_probs,
                       int64_t forced) {
  Alive first;
  const auto forced_tokens = static_cast<size_t>(forced);
  for (size_t i = 0; i < prefix.size(); ++i) {
    first.node = remember(first.node, {prefix[i], log_probs[i], log_probs[i]});
    first.score += double{log_probs[i]};
    first.token = prefix[i];
    if (i < forced_tokens || !options_->rank_prefix) unranked_sum_ = first.score;
  }
  length_ = static_cast<int64_t>(prefix.size());
  if (!options_->rank_prefix) unranked_length_ = length_ - forced;
  alive_.assign(1, first);
}

void Hypotheses::keep(size_t parent, const Choice& choice, int64_t sample) {
  const Alive& from = alive_[parent];
  next_.push_back({.node = remember(from.node, choice),
                   .score = from.score + value_of(choice),
                   .sample = sample,
                   .parent = parent,
                   .token = choice.token});
}

void Hypotheses::finish(const Alive& last, Ending ending) {
  Finished finished{last.sample, {}};
  Hypothesis& h = finished.hypothesis;
  for (int32_t node = last.node; node >= 0; node = history_[static_cast<size_t>(node)].parent) {
    h.tokens.push_back(history_[static_cast<size_t>(node)].token);
    h.log_probs.push_back(history_[static_cast<size_t>(node)].log_prob);
  }
  std::reverse(h.tokens.begin(), h.tokens.end());
  std::reverse(h.log_probs.begin(), h.log_probs.end());
  for (const float log_prob : h.log_probs) h.score += double{log_prob};
  h.rank = rank_of(last.score, length_);
  h.ended = ending == Ending::ended;
  h.end_forced = h.ended && options_->forced_end && at_limit();
  finished_.push_back(std::move(finished));
}

void Hypotheses::advance_beam(std::span<const std::vector<Choice>> choices, Traced* traced) {
  candidates_.clear();
  for (size_t parent = 0; parent < choices.size(); ++parent) {
    for (size_t place = 0; place < choices[parent].size(); ++place) {
      candidates_.push_back(
          {parent, place, alive_[parent].score + value_of(choices[parent][place])});
    }
  }
  const auto beam = static_cast<size_t>(options_->beam);
  const auto considered = static_cast<size_t>(1 + options_->ends()) * beam;
  const size_t count = std::min(candidates_.size(), considered);
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(count),
                    candidates_.end(), [](const Candidate& a, const Candidate& b) {
                      if (a.score != b.score) return a.score > b.score;
                      return a.parent != b.parent ? a.parent < b.parent : a.place < b.place;
                    });
  const auto trace = [&](const Candidate& candidate, const Choice& choice, Fate fate) {
    if (traced == nullptr) return;
    traced->push_back({candidate.parent, choice.token, choice.log_prob, candidate.score, fate});
  };
  const bool cuts = at_limit() && options_->cut == CutHypotheses::ranked;
  for (size_t i = 0; i < count; ++i) {
    const Candidate& candidate = candidates_[i];
    const Choice& choice = choices[candidate.parent][candidate.place];
    const bool ends = options_->is_end(choice.token);
    if (next_.size() >= beam || ((ends || cuts) && i >= beam)) {
      trace(candidate, choice, Fate::dropped);
      continue;
    }
    trace(candidate, choice, ends ? Fate::finished : Fate::kept);
    keep(candidate.parent, choice, 0);
    if (!ends && !cuts) continue;
    finish(next_.back(), ends ? Ending::ended : Ending::cut);
    next_.pop_back();
  }
  if (enough_finished()) next_.clear();
}

// Whether no alive hypothesis is to go on.
bool Hypotheses::enough_finished() {
  const auto beam = static_cast<size_t>(options_->beam);
  if (finished_.size() < beam) return false;
  const bool stops = beam == 1 || options_->early_stopping == EarlyStopping::yes;
  if (stops || next_.empty()) return true;
  ranks_.clear();
  for (const Finished& each : finished_) ranks_.push_back(each.hypothesis.rank);
  const auto worst = ranks_.begin() + static_cast<ptrdiff_t>(beam - 1);
  std::nth_element(ranks_.begin(), worst, ranks_.end(), std::greater<>());
  const bool grows =
      options_->early_stopping == EarlyStopping::never && options_->length_penalty > 0.0;
  const int64_t length = grows ? length_ - chosen_ + limit_ : length_;
  return !(rank_of(next_.front().score, length) > *worst);
}

void Hypotheses::advance_samples(std::span<const std::vector<Choice>> choices, Traced* traced) {
  for (size_t parent = 0; parent < choices.size(); ++parent) {
    for (size_t i = 0; i < choices[parent].size(); ++i) {
      const Choice& choice = choices[parent][i];
      keep(parent, choice, alive_[parent].sample + static_cast<int64_t>(i));
      const bool ends = options_->is_end(choice.token);
      if (traced != nullptr) {
        traced->push_back({parent, choice.token, choice.log_prob, next_.back().score,
                           ends ? Fate::finished : Fate::kept});
      }
      if (!ends) continue;
      finish(next_.back(), Ending::ended);
      next_.pop_back();
    }
  }
}

bool Hypotheses::advance(std::span<const std::vector<Choice>> choices, Traced* traced) {
  next_.clear();
  ++chosen_;
  ++length_;
  options_->sample ? advance_samples(choices, traced) : advance_beam(choices, traced);
  if (at_limit()) {
    for (const Alive& cut : next_) finish(cut, Ending::cut);
    next_.clear();
  }
  std::swap(alive_, next_);
  return !alive_.empty();
}

void Hypotheses::append_tokens(size_t index, std::vector<int32_t>& tokens) const {
  const auto first = static_cast<ptrdiff_t>(tokens.size());
  for (int32_t node = alive_[index].node; node >= 0;) {
    const Node& at = history_[static_cast<size_t>(node)];
    tokens.push_back(at.token);
    node = at.parent;
  }
  std::reverse(tokens.begin() + first, tokens.end());
}

void Hypotheses::certain(int64_t sample, size_t first, std::vector<int32_t>& tokens,
                         std::vector<float>& log_probs) const {
  std::vector<int32_t> path;
  std::vector<float> path_log_probs;
  bool any = false;
  size_t agreed = 0;  // of the tokens of `path`
  const auto agree = [&](const std::vector<int32_t>& other) {
    agreed = static_cast<size_t>(std::mismatch(path.begin(),
                                               path.begin() + static_cast<ptrdiff_t>(agreed),
                                               other.begin(), other.end())
                                     .first -
                                 path.begin());
  };
  const auto consider = [&](std::vector<int32_t> other, std::vector<float> probabilities) {
    if (any) return agree(other);
    any = true;
    path = std::move(other);
    path_log_probs = std::move(probabilities);
    agreed = path.size();
  };
  for (const Alive& alive : alive_) {
    if (options_->sample && alive.sample != sample) continue;
    std::vector<int32_t> ids;
    std::vector<float> probabilities;
    auto left = static_cast<size_t>(length_) - std::min(first, static_cast<size_t>(length_));
    for (int32_t node = alive.node; left > 0; --left) {
      const Node& at = history_[static_cast<size_t>(node)];
      ids.push_back(at.token);
      probabilities.push_back(at.log_prob);
      node = at.parent;
    }
    std::reverse(ids.begin(), ids.end());
    std::reverse(probabilities.begin(), probabilities.end());
    consider(std::move(ids), std::move(probabilities));
  }
  for (const Finished& each : finished_) {
    if (options_->sample && each.sample != sample) continue;
    const Hypothesis& h = each.hypothesis;
    const auto from = static_cast<ptrdiff_t>(std::min(first, h.tokens.size()));
    consider({h.tokens.begin() + from, h.tokens.end()},
             {h.log_probs.begin() + from, h.log_probs.end()});
  }
  tokens.insert(tokens.end(), path.begin(), path.begin() + static_cast<ptrdiff_t>(agreed));
  log_probs.insert(log_probs.end(), path_log_probs.begin(),
                   path_log_probs.begin() + static_cast<ptrdiff_t>(agreed));
}

std::vector<Hypothesis> Hypotheses::take() {
  std::stable_sort(finished_.begin(), finished_.end(), [&](const Finished& a, const Finished& b) {
    if (options_->sample) return a.sample < b.sample;
    if (options_->cut == CutHypotheses::last && a.hypothesis.ended != b.hypothesis.ended) {
      return a.hypothesis.ended;
    }
    return a.hypothesis.rank > b.hypothesis.rank;
  });
  std::vector<Hypothesis> results;
  const size_t count = std::min(finished_.size(), static_cast<size_t>(options_->n_best));
  for (size_t i = 0; i < count; ++i) results.push_back(std::move(finished_[i].hypothesis));
  return results;
}

}  // namespace tril
