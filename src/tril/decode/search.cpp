#include "tril/decode/search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <memory>

#include "tril/base/rounding.h"
#include "tril/decode/encoded.h"
#include "tril/decode/hypotheses.h"
#include "tril/decode/log_probs.h"
#include "tril/decode/tokens.h"
#include "tril/ops/choice.h"

namespace tril {
namespace {

constexpr auto kBad = ErrorCode::invalid_argument;
constexpr int64_t kEncodeTokens = 512;  // encoded in one call, about: bounds its memory

// How many hypotheses of a request may be alive at once.
int64_t width_of(const SearchOptions& o) { return o.sample ? o.n_best : o.beam; }

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
  require(o.sample || o.n_best <= o.beam, kBad, "search: n_best is ", o.n_best,
          ", more than the beam of ", o.beam);
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

void check_request(const SearchRequest& r, const SearchOptions& o, const TransformerConfig& c) {
  const TokenCheck check{"search", c, r.number};
  check.source(r.source);
  require(static_cast<int64_t>(r.prefix.size()) < c.max_length, kBad, "search: request ", r.number,
          ": the prefix has ", r.prefix.size(), " tokens, the model's max_length of ", c.max_length,
          " leaves no room for another");
  check.in_vocabulary("prefix", r.prefix, c.target_vocab);
  const auto end = std::find(r.prefix.begin(), r.prefix.end(), o.end);
  require(end == r.prefix.end(), kBad, "search: request ", r.number, ": END at ",
          end - r.prefix.begin(), " of the prefix: nothing can follow");
}

// How many tokens may be chosen after the prefix. Token i is predicted at position i, so a model
// emits max_length tokens at most.
int64_t limit_of(const SearchRequest& r, const SearchOptions& o, const TransformerConfig& c) {
  int64_t limit = c.max_length - static_cast<int64_t>(r.prefix.size());
  if (o.max_tokens > 0) limit = std::min(limit, o.max_tokens);
  if (c.decoder_only() || o.max_ratio == 0.0) return limit;
  const double by_ratio = o.max_ratio * static_cast<double>(r.source.size()) + 10.0;
  if (by_ratio < static_cast<double>(limit)) limit = static_cast<int64_t>(by_ratio);
  return limit;
}

// The tokens a sentence is translated with, where there is a shortlist.
struct SentenceTokens {
  OutputPart part;
  AllowedTokens allowed;
};

// A request on its way: encoded and waiting for slots, or being decoded.
struct Sentence {
  Sentence(SearchRequest&& given, const SearchOptions& options, const TransformerConfig& config)
      : request(std::move(given)), hypotheses(options, limit_of(request, options, config)) {}

  SearchRequest request;
  int32_t segment = -1;
  Hypotheses hypotheses;
  std::vector<int32_t>
      slots;             // of the alive hypotheses; one, for the prefix, before the first step
  bool started = false;  // the prefix was read
  std::unique_ptr<SentenceTokens> tokens;  // while it is in slots; none: the whole vocabulary
};
using SentenceList = std::deque<std::unique_ptr<Sentence>>;

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
        bits_(config_.target_vocab, options.forbidden),
        session_(session),
        trace_(trace) {}
  ~Search() {
    for (const auto& sentence : active_) release_slots(*sentence);
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
        if (sentence.segment >= 0) encoded_.release(sentence.segment);
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

  // Waiting sentences go into free slots. When none waits, as many as all slots together could hold
  // are fetched and encoded at once: one call for many sentences costs far less than one for each.
  void refill(const NextRequest& next) {
    for (int64_t free = free_slots(); free >= width_; free -= width_) {
      if (waiting_.empty()) fetch(next);
      if (waiting_.empty()) return;
      if (options_.shortlist) choose_tokens(*waiting_.front());
      active_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
      active_.back()->slots.assign(1, session_.cache.open());
    }
  }

  // The sentence's set and its weights, into memory that another sentence has done with.
  void choose_tokens(Sentence& sentence) {
    const SearchRequest& request = sentence.request;
    options_.shortlist->choose(request.source, request.prefix, set_);
    if (spare_tokens_.empty()) {
      sentence.tokens.reset(new SentenceTokens{{}, allowed_});
    } else {
      sentence.tokens = std::move(spare_tokens_.back());
      spare_tokens_.pop_back();
    }
    model_.choose_output(set_, sentence.tokens->part, session_);
    sentence.tokens->allowed = AllowedTokens(allowed_, set_);
  }

  void fetch(const NextRequest& next) {
    Rows source;
    const int64_t places = slots_ / width_;
    for (int32_t count = 0; count < places && source.size() < kEncodeTokens; ++count) {
      std::optional<SearchRequest> request = next();
      if (!request) break;
      check_request(*request, options_, config_);
      source.add_sequence(request->source, {.slot = count});
      waiting_.push_back(std::make_unique<Sentence>(std::move(*request), options_, config_));
    }
    if (waiting_.empty() || config_.decoder_only()) return;
    session_.reset();
    const std::vector<int32_t> segments = encoded_.add(model_, source, session_);
    for (size_t i = 0; i < waiting_.size(); ++i) waiting_[i]->segment = segments[i];
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
    if (session_.device() != Device::cpu && !options_.sample && !options_.shortlist) {
      choose_on_device();
    } else {
      choose_on_host();
    }
    for (size_t row = 0; row < uses_.size();) row = advance(row);
  }

  void choose_on_host() {
    session_.reset();
    const Tensor hidden = model_.forward(rows_, encoded_.memory(), session_);
    const auto use = [&](int64_t row, std::span<const float> log_probs, int worker) {
      choose(static_cast<size_t>(row), log_probs, worker);
    };
    if (options_.shortlist) {
      each_log_probs(model_, hidden, part_rows_, session_, use);
    } else {
      each_log_probs(model_, hidden, session_, use);
    }
  }

  // Only the best tokens come over. Steps of the same number of rows are one graph, so filler makes
  // the number of rows a power of two.
  void choose_on_device() {
    const auto used = static_cast<size_t>(rows_.size());
    rows_.add_filler(static_cast<int64_t>(std::bit_ceil(used) - used));
    wanted_.assign(static_cast<size_t>(rows_.size()), -1);
    for (size_t row = 0; row < used; ++row) wanted_[row] = uses_[row].forced;
    ops::ChosenTokens chosen;
    session_.step([&] {
      session_.reset();
      forget_rows();
      const Tensor hidden = model_.forward(rows_, encoded_.memory(), session_);
      chosen = ops::choose_tokens(session_, model_.logits_to_choose(hidden, session_), bits_,
                                  best_count(), session_.mirror<int32_t>(wanted_));
    });
    const auto count = static_cast<size_t>(chosen.tokens.columns());
    const size_t part = wanted_.size() * count;
    found_.resize(static_cast<size_t>(chosen.all.size()));
    session_.queue.download(chosen.all.raw(), chosen.all.size() * size_of(DType::f32),
                            found_.data());
    for (size_t row = 0; row < used; ++row) {
      const RowUse& use = uses_[row];
      if (use.forced >= 0) {
        forced_log_probs_[row] = found_[2 * part + row];
        continue;
      }
      std::vector<Choice>& choices = choices_[use.first_choice + use.alive];
      choices.clear();
      for (size_t i = row * count; i < (row + 1) * count; ++i) {
        const auto token = std::bit_cast<int32_t>(found_[i]);
        if (token < 0) break;
        choices.push_back({token, found_[part + i]});
      }
    }
  }

  // The slots as they were before this step: a step may be walked before it runs.
  void forget_rows() {
    for (int64_t row = rows_.size() - 1; row >= 0; --row) {
      const auto r = static_cast<size_t>(row);
      const int32_t slot = rows_.slots[r];
      if (slot >= 0 && session_.cache.length(slot) > rows_.positions[r]) {
        session_.cache.truncate(slot, rows_.positions[r]);
      }
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
  void choose(size_t row, std::span<const float> log_probs, int worker) {
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
      const std::span<const float> forced(forced_log_probs_.data() + row, end - row - 1);
      for (size_t i = 0; i < forced.size(); ++i) {
        require(!std::isnan(forced[i]), ErrorCode::bad_format, "search: request ",
                sentence.request.number, ": the model's log-probability of prefix token ", i,
                " is NaN");
      }
      sentence.hypotheses.start(sentence.request.prefix, forced);
      sentence.started = true;
    }
    const std::span<const std::vector<Choice>> choices(choices_.data() + first_choice,
                                                       sentence.hypotheses.alive().size());
    for (const std::vector<Choice>& choice : choices) {
      require(!choice.empty(), ErrorCode::bad_format, "search: request ", sentence.request.number,
              ": the model gives no allowed token a probability at position ",
              sentence.hypotheses.length(), " (NaN, or all forbidden)");
    }
    if (trace_) {
      SearchStep step{sentence.request.number, sentence.hypotheses.length(), {}};
      sentence.hypotheses.advance(choices, &step.candidates);
      trace_(step);
    } else {
      sentence.hypotheses.advance(choices);
    }
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

  void release_slots(Sentence& sentence) {
    for (const int32_t slot : sentence.slots) session_.cache.release(slot);
    sentence.slots.clear();
  }

  const Transformer& model_;
  const TransformerConfig& config_;
  const SearchOptions& options_;
  const int64_t slots_;
  const int64_t width_;  // slots a request may need
  const AllowedTokens allowed_;
  const ops::TokenBits bits_;  // the same for a device
  Session& session_;
  const SearchTrace& trace_;

  EncodedSentences encoded_;
  SentenceList waiting_;  // encoded
  SentenceList active_;   // in slots
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
  std::vector<int32_t> wanted_;     // where a device chooses, by row
  std::vector<float> found_;        // as ops::ChosenTokens has it
};

}  // namespace

void search(const Transformer& model, const SearchOptions& options, int64_t slots,
            const NextRequest& next, const SearchDone& done, Session& session,
            const SearchTrace& trace) {
  const StandardRounding rounding;
  require(session.tape == nullptr, kBad, "search: a tape is recording on the session");
  check_options(options, slots, model.config());
  Search(model, options, slots, session, trace).run(next, done);
}

}  // namespace tril
