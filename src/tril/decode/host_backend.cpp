#include "tril/decode/host_backend.h"

#include <algorithm>

#include "tril/decode/ahead_backend.h"
#include "tril/decode/log_probs.h"
#include "tril/models/session_state.h"

namespace tril {
namespace {

// A prefix is part of its sentence's set, so the token is found.
int64_t place_of(int32_t token, const OutputPart& part) {
  const auto tokens = part.tokens();
  return std::lower_bound(tokens.begin(), tokens.end(), token) - tokens.begin();
}

}  // namespace

HostBackend::~HostBackend() {
  for (const auto& [id, sentence] : active_) release_slots(*sentence, session_);
}

void HostBackend::join(std::unique_ptr<Sentence>&& sentence) {
  if (sentence->search().shortlist) choose_shortlist(*sentence);
  sentence->slots.reserve(1);
  sentence->slots.push_back(session_->cache.open());
  active_.try_emplace(sentence->id, std::move(sentence));
}

Sentence* HostBackend::find(RequestId id) const {
  const auto at = active_.find(id);
  return at == active_.end() ? nullptr : at->second.get();
}

std::unique_ptr<Sentence> HostBackend::remove(RequestId id) {
  const auto at = active_.find(id);
  if (at == active_.end()) return nullptr;
  std::unique_ptr<Sentence> sentence = std::move(at->second);
  active_.erase(at);
  release_slots(*sentence, session_);
  if (sentence->shortlist) spare_shortlists_.push_back(std::move(sentence->shortlist));
  return sentence;
}

std::unique_ptr<Sentence> HostBackend::remove_any() {
  if (active_.empty()) return nullptr;
  std::unique_ptr<Sentence> sentence = std::move(active_.begin()->second);
  active_.erase(active_.begin());
  release_slots(*sentence, session_);
  return sentence;
}

int64_t HostBackend::slots_taken() const {
  int64_t taken = 0;
  for (const auto& [id, sentence] : active_) {
    // A beam may grow back to its width; samples that have ended do not come back.
    const bool shrinks = sentence->search().sample && sentence->started;
    taken +=
        shrinks ? static_cast<int64_t>(sentence->hypotheses.alive().size()) : sentence->width();
  }
  return taken;
}

// Chooses the sentence's set and copies its weights, into memory that a finished sentence left.
void HostBackend::choose_shortlist(Sentence& sentence) {
  const SearchRequest& request = sentence.request;
  sentence.search().shortlist->choose(request.source, request.prefix, set_);
  spare_shortlists_.reserve(spare_shortlists_.size() + active_.size() + 1);  // all may come back
  if (spare_shortlists_.empty()) {
    // NOLINTNEXTLINE(modernize-make-unique): an aggregate that cannot be moved
    sentence.shortlist.reset(new ShortlistTokens{});
  } else {
    sentence.shortlist = std::move(spare_shortlists_.back());
    spare_shortlists_.pop_back();
  }
  model_.choose_output(set_, sentence.shortlist->part, session_);
  for (size_t stage = 0; stage < kStages; ++stage) {
    const TokenSet* tokens = sentence.options->tokens[stage].get();
    std::optional<AllowedTokens>& allowed = sentence.shortlist->allowed[stage];
    allowed.reset();
    if (tokens != nullptr) allowed.emplace(tokens->allowed, set_);
  }
}

// The number of continuations per hypothesis: more are never considered.
int64_t HostBackend::best_count(const Sentence& sentence) const {
  const SearchOptions& search = sentence.search();
  return std::min((1 + search.ends()) * search.beam, model_.config().target_vocab);
}

void HostBackend::add_rows(Sentence& sentence) {
  const auto alive = sentence.hypotheses.alive();
  const size_t first_choice = most_choices_.size();
  const SearchOptions& search = sentence.search();
  const int64_t most = search.sample ? search.n_best : best_count(sentence) + 1;
  most_choices_.resize(first_choice + (sentence.started ? alive.size() : 1), most);
  if (sentence.started) {
    const auto position = static_cast<int32_t>(sentence.position(sentence.hypotheses.length()));
    for (size_t i = 0; i < alive.size(); ++i) {
      rows_.add(alive[i].token,
                {.slot = sentence.slots[i], .segment = sentence.segment, .first = position});
      uses_.push_back({first_choice, i, &sentence, -1});
    }
    return;
  }
  const std::vector<int32_t>& prefix = sentence.request.prefix;
  const Place place{.slot = sentence.slots[0], .segment = sentence.segment};
  if (search.start) rows_.add(*search.start, place);
  rows_.add_sequence(prefix,
                     {.slot = place.slot, .segment = place.segment, .first = search.start ? 1 : 0});
  for (const int32_t token : predicted(sentence)) {
    uses_.push_back({first_choice, 0, &sentence, token});
  }
  uses_.push_back({first_choice, 0, &sentence, -1});
}

// One call of the model for all alive hypotheses, then the next hypotheses of every sentence.
void HostBackend::step(std::vector<Leaver>& leavers) {
  leavers.reserve(leavers.size() + active_.size());  // none is lost if memory runs out
  rows_.clear();
  uses_.clear();
  most_choices_.clear();
  part_rows_.clear();
  for (const auto& [id, sentence] : active_) {
    if (!sentence->shortlist) add_rows(*sentence);
  }
  whole_rows_ = rows_.size();
  for (const auto& [id, sentence] : active_) {
    if (!sentence->shortlist) continue;
    const int64_t begin = rows_.size() - whole_rows_;
    add_rows(*sentence);
    part_rows_.push_back({begin, rows_.size() - whole_rows_, &sentence->shortlist->part});
  }
  make_room();
  choose();
  for (size_t row = 0; row < uses_.size();) row = advance(row, leavers);
}

void HostBackend::choose() {
  session_.reset();
  const Tensor hidden = model_.forward(rows_, encoded_.memory(), session_);
  const int64_t whole = whole_rows_;
  const std::span<LargestLogit> largest(largest_);
  const auto first_of_parts = static_cast<size_t>(largest.empty() ? 0 : whole);
  if (whole > 0) {
    each_log_probs(
        model_, hidden.slice(0, whole), session_,
        [&](int64_t row, std::span<const float> log_probs, int worker) {
          choose_in(static_cast<size_t>(row), log_probs, worker);
        },
        largest.first(first_of_parts));
  }
  if (whole < hidden.rows()) {
    each_log_probs(
        model_, hidden.slice(whole, hidden.rows()), part_rows_, session_,
        [&](int64_t row, std::span<const float> log_probs, int worker) {
          choose_in(static_cast<size_t>(whole + row), log_probs, worker);
        },
        largest.subspan(first_of_parts));
  }
}

// Allocates here, because in tasks an exception could not be thrown.
void HostBackend::make_room() {
  forced_log_probs_.resize(uses_.size());
  if (choices_.size() < most_choices_.size()) choices_.resize(most_choices_.size());
  for (size_t i = 0; i < most_choices_.size(); ++i) {
    choices_[i].reserve(static_cast<size_t>(most_choices_[i]));
  }
  bool draws = false, changes_values = false, needs_logits = false;
  for (const auto& [id, sentence] : active_) {
    const SearchOptions& search = sentence->search();
    draws = draws || search.sample;
    changes_values = changes_values || search.changes_values();
    needs_logits = needs_logits || (search.repetition_penalty != 1.0 && search.beam == 1);
  }
  const auto vocab = static_cast<size_t>(model_.config().target_vocab);
  const auto threads = static_cast<size_t>(session_->parallel.threads());
  if (draws) {
    draw_sets_.resize(threads);
    for (DrawSet& set : draw_sets_) {
      set.tokens.reserve(vocab);
      set.weights.reserve(vocab);
    }
  }
  largest_.resize(needs_logits ? uses_.size() : 0);
  if (!changes_values) return;
  values_.resize(threads);
  for (Values& values : values_) values.reserve(vocab);
  if (seen_.size() < most_choices_.size()) seen_.resize(most_choices_.size());
  for (const RowUse& use : uses_) {
    if (use.forced < 0 && use.sentence->search().looks_back()) note_seen(use);
  }
}

// The sequence that the row's choice follows.
void HostBackend::note_seen(const RowUse& use) {
  const Sentence& sentence = *use.sentence;
  auto& [seen, different] = seen_[use.first_choice + use.alive];
  seen.clear();
  if (sentence.search().start) seen.push_back(*sentence.search().start);
  if (sentence.started) {
    sentence.hypotheses.append_tokens(use.alive, seen);
  } else {
    const std::vector<int32_t>& prefix = sentence.request.prefix;
    seen.insert(seen.end(), prefix.begin(), prefix.end());
  }
  if (sentence.search().repetition_penalty == 1.0) return;
  different = seen;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
}

// The values to choose by, where a rule changes them.
std::span<const float> HostBackend::values_for(size_t row, std::span<const float> log_probs,
                                               const AllowedTokens& allowed, Values& values) {
  const RowUse& use = uses_[row];
  const SearchOptions& search = use.sentence->search();
  values.assign(log_probs.begin(), log_probs.end());
  if (search.looks_back()) {
    const ShortlistTokens* shortlist = use.sentence->shortlist.get();
    const Seen& seen = seen_[use.first_choice + use.alive];
    LookBack rules{search, seen.tokens, seen.different};
    if (shortlist != nullptr) rules.tokens = shortlist->part.tokens();
    apply_rules(rules, largest_.empty() ? 0.0f : largest_[row].norm(log_probs), values);
  }
  if (search.renormalizes()) renormalize(allowed, values);
  return values;
}

// Handles one row. Rows are independent: threads take them in any order.
void HostBackend::choose_in(size_t row, std::span<const float> log_probs, int worker) {
  const RowUse& use = uses_[row];
  const ShortlistTokens* shortlist = use.sentence->shortlist.get();
  if (use.forced >= 0) {
    const int64_t at = shortlist == nullptr ? use.forced : place_of(use.forced, shortlist->part);
    forced_log_probs_[row] = log_probs[static_cast<size_t>(at)];
    return;
  }
  const Stage stage = use.sentence->stage(use.sentence->hypotheses.chosen());
  const AllowedTokens& allowed = shortlist == nullptr
                                     ? use.sentence->options->at(stage).allowed
                                     : *shortlist->allowed[static_cast<size_t>(stage)];
  const SearchOptions& search = use.sentence->search();
  const bool changes = search.changes_values() && stage != Stage::ends;
  const std::span<const float> values =
      changes ? values_for(row, log_probs, allowed, values_[static_cast<size_t>(worker)])
              : log_probs;
  std::vector<Choice>& choices = choices_[use.first_choice + use.alive];
  if (search.sample) {
    draw_choices(values, allowed, use, draw_sets_[static_cast<size_t>(worker)], choices);
  } else {
    best_choices(values, allowed, best_count(*use.sentence), choices);
  }
  if (changes) {
    for (Choice& choice : choices) choice.log_prob = log_probs[static_cast<size_t>(choice.token)];
  }
  if (shortlist == nullptr) return;
  // Sets are ascending, so places are in the same order as tokens.
  for (Choice& choice : choices) {
    choice.token = shortlist->part.tokens()[static_cast<size_t>(choice.token)];
  }
}

// On a GPU by the GPU's rule, so that a sample does not depend on the backend that decodes it.
void HostBackend::draw_choices(std::span<const float> row, const AllowedTokens& allowed,
                               const RowUse& use, DrawSet& set,
                               std::vector<Choice>& choices) const {
  const Sentence& sentence = *use.sentence;
  const SearchOptions& search = sentence.search();
  const bool like_gpu = can_choose_tokens(session_.device());
  choices.clear();
  if (!like_gpu) {
    draw_set(row, allowed, search, set);
    if (set.tokens.empty()) return;  // the caller raises
  }
  const auto draw_one = [&](const DrawPlace& at) {
    const std::optional<Choice> drawn =
        like_gpu ? draw_like_gpu(row, allowed, search, at, set.tokens) : draw(set, search.seed, at);
    if (drawn) choices.push_back(*drawn);
  };
  DrawPlace place{.stream = sentence.request.stream};
  if (sentence.started) {
    place.position = sentence.hypotheses.length();
    place.sample = sentence.hypotheses.alive()[use.alive].sample;
    draw_one(place);
    return;
  }
  // After the prefix all samples continue from the same row.
  place.position = static_cast<int64_t>(sentence.request.prefix.size());
  for (place.sample = 0; place.sample < search.n_best; ++place.sample) draw_one(place);
}

// Advances the sentence whose rows begin at `row`; returns where the next sentence's rows begin.
size_t HostBackend::advance(size_t row, std::vector<Leaver>& leavers) {
  Sentence& sentence = *uses_[row].sentence;
  sentence.first_row = row;
  const size_t first_choice = uses_[row].first_choice;
  size_t end = row;
  while (end < uses_.size() && uses_[end].sentence == &sentence) ++end;
  try {
    if (!sentence.started) {
      start(sentence, std::span<const float>(forced_log_probs_.data() + row, end - row - 1));
    }
    tril::advance(sentence, {choices_.data() + first_choice, sentence.hypotheses.alive().size()});
  } catch (const SentenceFault& fault) {
    leavers.push_back({remove(sentence.id), RequestEnd::failed, fault});
    return end;
  }
  move_slots(sentence);
  if (sentence.hypotheses.alive().empty()) leavers.push_back({remove(sentence.id)});
  return end;
}

// The first child of a hypothesis continues in its slot, others in forks of it; slots without
// children are released. Nothing is written before all forks are made. A fork belongs to the
// sentence as soon as it is made: if the next one fails, it is released with the rest.
void HostBackend::move_slots(Sentence& sentence) {
  const auto alive = sentence.hypotheses.alive();
  std::vector<int32_t>& slots = sentence.slots;
  inherited_.assign(slots.size(), false);
  slots.reserve(slots.size() + alive.size());
  next_slots_.clear();
  for (const auto& hypothesis : alive) {
    const size_t parent = hypothesis.parent;
    next_slots_.push_back(inherited_[parent] ? -1 : slots[parent]);
    inherited_[parent] = true;
  }
  for (size_t i = 0; i < alive.size(); ++i) {
    if (next_slots_[i] >= 0) continue;
    next_slots_[i] = session_->cache.fork(slots[alive[i].parent]);
    slots.push_back(next_slots_[i]);
  }
  for (size_t i = 0; i < inherited_.size(); ++i) {
    if (!inherited_[i]) session_->cache.release(slots[i]);
  }
  std::swap(slots, next_slots_);
}

}  // namespace tril
