#include "tril/decode/search.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "tril/base/rounding.h"
#include "tril/decode/log_probs.h"
#include "tril/decode/search_ahead.h"
#include "tril/decode/sentences.h"
#include "tril/decode/tokens.h"

namespace tril {
namespace {

constexpr auto kBad = ErrorCode::invalid_argument;

void check_options(const SearchOptions& o, int64_t slots, const TransformerConfig& config) {
  constexpr int64_t kMost = int64_t{1} << 20;
  const TokenCheck check{"search", config};
  check.special("start", o.start);
  check.special("end", o.end);
  for (const int32_t token : o.forbidden) check.special("forbidden", token);
  if (o.shortlist) {
    o.shortlist->check_fits("search", config);
    require(o.shortlist->always(o.end), kBad, "search: END, token ", o.end,
            ", is not in every set of the shortlist");
  }
  require(o.beam >= 1 && o.beam <= kMost, kBad, "search: beam must be from 1 to ", kMost, ", got ",
          o.beam);
  require(o.n_best >= 1 && o.n_best <= kMost, kBad, "search: n_best must be from 1 to ", kMost,
          ", got ", o.n_best);
  require(o.sample || o.n_best <= o.beam, kBad, Field{"beam"}, "search: ", o.n_best,
          " best translations from a beam of ", o.beam);
  require(!o.sample || o.beam == 1, kBad, "search: sampling needs a beam of 1, got ", o.beam);
  require(std::isfinite(o.length_penalty), kBad, "search: length_penalty must be finite, got ",
          o.length_penalty);
  require(o.max_tokens >= 0, kBad, "search: max_tokens must be at least 0, got ", o.max_tokens);
  require(o.max_ratio >= 0.0, kBad, "search: max_ratio must be at least 0, got ", o.max_ratio);
  require(o.temperature > 0.0 && std::isfinite(o.temperature), kBad,
          "search: temperature must be above 0, got ", o.temperature);
  require(o.top_k >= 0, kBad, "search: top_k must be at least 0, got ", o.top_k);
  require(o.top_p > 0.0 && o.top_p <= 1.0, kBad,
          "search: top_p must be above 0 and at most 1, got ", o.top_p);
  require(slots >= width_of(o), kBad, "search: ", slots,
          " slots do not hold one request: ", o.sample ? "n_best" : "beam", " is ", width_of(o));
}

class Search {
 public:
  Search(const Transformer& model, const SearchOptions& options, int64_t slots, Session& session,
         const SearchTrace& trace)
      : model_(model),
        config_(model.config()),
        options_(options),
        slots_(slots),
        width_(width_of(options)),
        allowed_(config_.target_vocab, options.forbidden),
        session_(session),
        trace_(trace),
        intake_(model, options, slots / width_, encoded_, session) {}
  ~Search() {
    for (const auto& sentence : active_) release_slots(*sentence, session_);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  void run(const NextRequest& next, const SearchDone& done) {
    for (;;) {
      refill(next);
      if (active_.empty()) return;
      step();
      for (size_t i = 0; i < active_.size();) {
        Sentence& sentence = *active_[i];
        if (!sentence.hypotheses.alive().empty()) {
          ++i;
          continue;
        }
        SearchResult result{sentence.request.number, sentence.hypotheses.take()};
        intake_.release(sentence);
        if (sentence.tokens) spare_tokens_.push_back(std::move(sentence.tokens));
        active_.erase(active_.begin() + static_cast<ptrdiff_t>(i));
        if (!done(std::move(result))) return;
      }
    }
  }

 private:
  // Where a row of the step belongs.
  struct RowUse {
    size_t first_choice;  // in choices_: of the sentence's first alive hypothesis
    size_t alive;         // which alive hypothesis reads this row
    Sentence* sentence;
    int32_t forced;  // the token that must follow, in a prefix; -1: choose
  };

  int64_t free_slots() const {
    int64_t free = slots_;
    for (const auto& sentence : active_) {
      // A beam may grow back to its width; samples that have ended do not come back.
      const bool shrinks = options_.sample && sentence->started;
      free -= shrinks ? static_cast<int64_t>(sentence->hypotheses.alive().size()) : width_;
    }
    return free;
  }

  void refill(const NextRequest& next) {
    for (int64_t free = free_slots(); free >= width_; free -= width_) {
      std::unique_ptr<Sentence> sentence = intake_.take(next);
      if (sentence == nullptr) return;
      if (options_.shortlist) choose_tokens(*sentence);
      active_.push_back(std::move(sentence));
      active_.back()->slots.assign(1, session_.cache.open());
    }
  }

  // The sentence's set and its weights, into memory that another sentence has done with.
  void choose_tokens(Sentence& sentence) {
    const SearchRequest& request = sentence.request;
    options_.shortlist->choose(request.source, request.prefix, set_);
    if (spare_tokens_.empty()) {
      // NOLINTNEXTLINE(modernize-make-unique): an aggregate that cannot be moved
      sentence.tokens.reset(new SentenceTokens{{}, allowed_});
    } else {
      sentence.tokens = std::move(spare_tokens_.back());
      spare_tokens_.pop_back();
    }
    model_.choose_output(set_, sentence.tokens->part, session_);
    sentence.tokens->allowed = AllowedTokens(allowed_, set_);
  }

  void add_rows(Sentence& sentence) {
    const auto alive = sentence.hypotheses.alive();
    const size_t first_choice = choices_used_;
    if (sentence.started) {
      const auto position = static_cast<int32_t>(sentence.hypotheses.length());
      for (size_t i = 0; i < alive.size(); ++i) {
        rows_.add(alive[i].token,
                  {.slot = sentence.slots[i], .segment = sentence.segment, .first = position});
        uses_.push_back({first_choice, i, &sentence, -1});
      }
      choices_used_ += alive.size();
      return;
    }
    const std::vector<int32_t>& prefix = sentence.request.prefix;
    const Place place{.slot = sentence.slots[0], .segment = sentence.segment};
    rows_.add(options_.start, place);
    rows_.add_sequence(prefix, {.slot = place.slot, .segment = place.segment, .first = 1});
    for (size_t i = 0; i <= prefix.size(); ++i) {
      uses_.push_back({first_choice, 0, &sentence, i < prefix.size() ? prefix[i] : -1});
    }
    ++choices_used_;
  }

  // One call of the model for all that are alive, then every sentence's next hypotheses.
  void step() {
    rows_.clear();
    uses_.clear();
    choices_used_ = 0;
    part_rows_.clear();
    for (const auto& sentence : active_) {
      const int64_t begin = rows_.size();
      add_rows(*sentence);
      if (sentence->tokens) part_rows_.push_back({begin, rows_.size(), &sentence->tokens->part});
    }
    forced_log_probs_.resize(uses_.size());
    make_room();
    choose();
    for (size_t row = 0; row < uses_.size();) row = advance(row);
  }

  void choose() {
    session_.reset();
    const Tensor hidden = model_.forward(rows_, intake_.memory(), session_);
    const auto use = [&](int64_t row, std::span<const float> log_probs, int worker) {
      choose_in(static_cast<size_t>(row), log_probs, worker);
    };
    if (options_.shortlist) {
      each_log_probs(model_, hidden, part_rows_, session_, use);
    } else {
      each_log_probs(model_, hidden, session_, use);
    }
  }

  // Here, so that nothing is allocated in tasks: an exception could not leave them.
  void make_room() {
    if (choices_.size() < choices_used_) choices_.resize(choices_used_);
    const int64_t most = options_.sample ? options_.n_best : best_count() + 1;
    for (auto& choices : choices_) choices.reserve(static_cast<size_t>(most));
    if (!options_.sample) return;
    draw_sets_.resize(static_cast<size_t>(session_.parallel.threads()));
    for (DrawSet& set : draw_sets_) {
      set.tokens.reserve(static_cast<size_t>(config_.target_vocab));
      set.weights.reserve(static_cast<size_t>(config_.target_vocab));
    }
  }

  // Continuations a hypothesis offers: no more can be looked at.
  int64_t best_count() const { return std::min(2 * options_.beam, config_.target_vocab); }

  // What a row is for. Rows are independent: threads take them as they come.
  void choose_in(size_t row, std::span<const float> log_probs, int worker) {
    const RowUse& use = uses_[row];
    const SentenceTokens* tokens = use.sentence->tokens.get();
    if (use.forced >= 0) {
      const int64_t at = tokens == nullptr ? use.forced : place_of(use.forced, tokens->part);
      forced_log_probs_[row] = log_probs[static_cast<size_t>(at)];
      return;
    }
    const AllowedTokens& allowed = tokens == nullptr ? allowed_ : tokens->allowed;
    std::vector<Choice>& choices = choices_[use.first_choice + use.alive];
    if (options_.sample) {
      draw_choices(log_probs, allowed, use, draw_sets_[static_cast<size_t>(worker)], choices);
    } else {
      best_choices(log_probs, allowed, best_count(), choices);
    }
    if (tokens == nullptr) return;
    // Sets are ascending, so places are ordered as tokens are.
    for (Choice& choice : choices) {
      choice.token = tokens->part.tokens()[static_cast<size_t>(choice.token)];
    }
  }

  // A prefix is part of its sentence's set.
  static int64_t place_of(int32_t token, const OutputPart& part) {
    const auto tokens = part.tokens();
    return std::lower_bound(tokens.begin(), tokens.end(), token) - tokens.begin();
  }

  void draw_choices(std::span<const float> row, const AllowedTokens& allowed, const RowUse& use,
                    DrawSet& set, std::vector<Choice>& choices) const {
    const Sentence& sentence = *use.sentence;
    choices.clear();
    draw_set(row, allowed, options_, set);
    if (set.tokens.empty()) return;  // the caller raises
    DrawPlace place{.request = sentence.request.number};
    if (sentence.started) {
      place.position = sentence.hypotheses.length();
      place.sample = sentence.hypotheses.alive()[use.alive].sample;
      choices.push_back(draw(set, options_.seed, place));
      return;
    }
    // After the prefix all samples part from the same row.
    place.position = static_cast<int64_t>(sentence.request.prefix.size());
    for (place.sample = 0; place.sample < options_.n_best; ++place.sample) {
      choices.push_back(draw(set, options_.seed, place));
    }
  }

  // Advances the sentence whose rows begin at `row`; returns where the next sentence's begin.
  size_t advance(size_t row) {
    Sentence& sentence = *uses_[row].sentence;
    const size_t first_choice = uses_[row].first_choice;
    size_t end = row;
    while (end < uses_.size() && uses_[end].sentence == &sentence) ++end;
    if (!sentence.started) {
      start(sentence, std::span<const float>(forced_log_probs_.data() + row, end - row - 1));
      sentence.started = true;
    }
    tril::advance(sentence, {choices_.data() + first_choice, sentence.hypotheses.alive().size()},
                  trace_);
    move_slots(sentence);
    return end;
  }

  // The first child of a hypothesis goes on in its slot, others in copies; the slots of those
  // without children are given back. Nobody writes before all copies are made. A copy belongs to
  // the sentence as soon as it is made: when the next one fails, it is given back with the rest.
  void move_slots(Sentence& sentence) {
    const auto alive = sentence.hypotheses.alive();
    std::vector<int32_t>& slots = sentence.slots;
    std::vector<bool> inherited(slots.size(), false);
    slots.reserve(slots.size() + alive.size());
    std::vector<int32_t> next;
    next.reserve(alive.size());
    for (const auto& hypothesis : alive) {
      const size_t parent = hypothesis.parent;
      next.push_back(inherited[parent] ? -1 : slots[parent]);
      inherited[parent] = true;
    }
    for (size_t i = 0; i < alive.size(); ++i) {
      if (next[i] >= 0) continue;
      next[i] = session_.cache.fork(slots[alive[i].parent]);
      slots.push_back(next[i]);
    }
    for (size_t i = 0; i < inherited.size(); ++i) {
      if (!inherited[i]) session_.cache.release(slots[i]);
    }
    slots = std::move(next);
  }

  const Transformer& model_;
  const TransformerConfig& config_;
  const SearchOptions& options_;
  const int64_t slots_;
  const int64_t width_;  // slots a request may need
  const AllowedTokens allowed_;
  Session& session_;
  const SearchTrace& trace_;

  EncodedSentences encoded_;
  Intake intake_;
  std::vector<std::unique_ptr<Sentence>> active_;  // in slots
  std::vector<std::unique_ptr<SentenceTokens>> spare_tokens_;

  // Of the current step; kept between steps so that a warm one allocates little.
  Rows rows_;
  std::vector<RowUse> uses_;
  std::vector<int32_t> set_;
  std::vector<PartRows> part_rows_;           // by sentence, where there is a shortlist
  std::vector<float> forced_log_probs_;       // by row
  std::vector<std::vector<Choice>> choices_;  // by alive hypothesis of all sentences
  size_t choices_used_ = 0;
  std::vector<DrawSet> draw_sets_;  // by thread
};

}  // namespace

void search(const Transformer& model, const SearchOptions& options, int64_t slots,
            const NextRequest& next, const SearchDone& done, Session& session,
            const SearchTrace& trace) {
  const StandardRounding rounding;
  require(session.tape == nullptr, kBad, "search: a tape is recording on the session");
  check_options(options, slots, model.config());
  if (can_search_ahead(options, session)) {
    search_ahead(model, options, slots, next, done, session, trace);
  } else {
    Search(model, options, slots, session, trace).run(next, done);
  }
}

}  // namespace tril
