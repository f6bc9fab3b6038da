#include "tril/decode/engine.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "tril/base/caught.h"
#include "tril/base/rounding.h"
#include "tril/decode/ahead_backend.h"
#include "tril/decode/host_backend.h"
#include "tril/decode/intake.h"
#include "tril/models/session_state.h"

namespace tril {
namespace {

constexpr auto kNever = EngineClock::time_point::max();

// The most tokens of START and prefixes that sentences joining in one step have together, which
// bounds the memory of a step; one sentence always joins.
constexpr int64_t kPrefixTokens = 8192;

RequestOutcome outcome_of(Sentence& sentence, RequestEnd end, std::optional<Error> error = {}) {
  RequestOutcome outcome{.id = sentence.id, .number = sentence.request.number, .end = end};
  outcome.error = std::move(error);
  if (end != RequestEnd::finished) return outcome;
  try {
    outcome.hypotheses = sentence.hypotheses.take();
  } catch (const std::exception& failure) {
    outcome.end = RequestEnd::failed;
    outcome.error = error_of(failure);
  }
  return outcome;
}

// The options of requests in the engine. Requests with the same options share what is derived from
// them; those that forbid the same tokens share the set of tokens.
class OptionsInUse {
 public:
  std::shared_ptr<const CheckedOptions> checked(std::shared_ptr<const SearchOptions> search,
                                                const Transformer& model) {
    forget_unused();
    std::weak_ptr<const CheckedOptions>& known = checked_[search.get()];
    if (auto same = known.lock()) return same;
    check_options(*search, model);
    auto made = std::make_shared<CheckedOptions>();
    made->search = std::move(search);
    add_tokens(*made, model.config().target_vocab);
    known = made;
    return made;
  }

 private:
  void add_tokens(CheckedOptions& options, int64_t vocab) {
    const SearchOptions& search = *options.search;
    const auto set = [&](Stage stage, const std::vector<int32_t>& forbidden) {
      options.tokens[static_cast<size_t>(stage)] = tokens_for(forbidden, vocab);
    };
    set(Stage::goes_on, search.forbidden);
    if (search.min_tokens > 0) {
      std::vector<int32_t> also = search.forbidden;
      also.push_back(search.end);
      also.insert(also.end(), search.more_ends.begin(), search.more_ends.end());
      set(Stage::begins, also);
    }
    if (search.forced_end) {
      std::vector<int32_t> others(static_cast<size_t>(vocab));
      std::iota(others.begin(), others.end(), 0);
      std::erase(others, *search.forced_end);
      set(Stage::ends, others);
    }
  }
  std::shared_ptr<const TokenSet> tokens_for(const std::vector<int32_t>& forbidden, int64_t vocab) {
    std::weak_ptr<const TokenSet>& known = tokens_[forbidden];
    if (auto same = known.lock()) return same;
    auto made = std::make_shared<const TokenSet>(vocab, forbidden);
    known = made;
    return made;
  }
  // When as many were added as were left the last time, so that it costs little per request.
  void forget_unused() {
    if (checked_.size() + tokens_.size() < 2 * left_ + 16) return;
    const auto unused = [](const auto& each) { return each.second.expired(); };
    std::erase_if(checked_, unused);
    std::erase_if(tokens_, unused);
    left_ = checked_.size() + tokens_.size();
  }

  // By address: whoever uses CheckedOptions keeps the options it was made from.
  std::map<const SearchOptions*, std::weak_ptr<const CheckedOptions>> checked_;
  std::map<std::vector<int32_t>, std::weak_ptr<const TokenSet>> tokens_;
  size_t left_ = 0;
};

void check_width(const SearchOptions& options, int64_t slots) {
  require(options.width() <= slots, ErrorCode::invalid_argument, "search: ", slots,
          " slots do not hold one request: ", options.sample ? "n_best" : "beam", " is ",
          options.width());
}

}  // namespace

struct Engine::State {
  State(const Transformer& transformer, EngineOptions&& given, Session& own)
      : model(transformer),
        options(std::move(given)),
        session(own),
        kept(KeptForEngine::take(session, model.config())),
        intake(model, kept->encoded, session),
        host(model, kept->encoded, session) {
    if (can_choose_tokens(session.device())) ahead = make_ahead_backend(model, *kept, session);
    backends.push_back(&host);
    if (ahead) backends.push_back(ahead.get());
  }
  ~State() {
    while (const auto sentence = any_sentence()) {
      sentence->events = {};
      intake.release(*sentence);
    }
    ahead.reset();
    KeptForEngine::give_back(std::move(kept), session);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const Transformer& model;
  EngineOptions options;
  Session& session;
  std::shared_ptr<KeptForEngine> kept;
  Intake intake;
  HostBackend host;
  std::unique_ptr<Backend> ahead;  // where the session's device can choose tokens
  std::vector<Backend*> backends;  // these two, or the host alone
  RequestId next_id = 1;
  OptionsInUse options_in_use;
  EngineClock::time_point earliest = kNever;  // no request has a deadline before this
  std::vector<Leaver> leavers;                // to be told
  // For tell_steps() and stream(); kept so that a warm step allocates little.
  std::vector<Sentence*> traced;
  std::vector<RequestId> streaming;
  std::vector<int32_t> certain_tokens;
  std::vector<float> certain_log_probs;

  int64_t free_slots() const {
    int64_t free = options.slots;
    for (const Backend* backend : backends) free -= backend->slots_taken();
    return free;
  }
  bool decodes() const {
    return std::any_of(backends.begin(), backends.end(),
                       [](const Backend* backend) { return !backend->empty(); });
  }
  int64_t requests() const {
    int64_t count = intake.size() + static_cast<int64_t>(leavers.size());
    for (const Backend* backend : backends) count += backend->size();
    return count;
  }

  Backend& backend_for(const Sentence& sentence) {
    const bool goes_ahead =
        ahead != nullptr && session->observer == nullptr && can_go_ahead(sentence.search());
    return goes_ahead ? *ahead : static_cast<Backend&>(host);
  }

  template <class F>
  void each_decoded(const F& f) const {
    for (const Backend* backend : backends) backend->each(f);
  }
  Sentence* find_decoded(RequestId id) const {
    for (const Backend* backend : backends) {
      if (Sentence* sentence = backend->find(id)) return sentence;
    }
    return nullptr;
  }

  // Removes a sentence that joined; null if there is none with this id.
  std::unique_ptr<Sentence> remove_joined(RequestId id) {
    for (Backend* backend : backends) {
      if (auto sentence = backend->remove(id)) return sentence;
    }
    const auto leaver = std::find_if(leavers.begin(), leavers.end(),
                                     [&](const Leaver& each) { return each.sentence->id == id; });
    std::unique_ptr<Sentence> found;
    if (leaver != leavers.end()) {
      found = std::move(leaver->sentence);
      leavers.erase(leaver);
    }
    return found;
  }

  // Removes the sentences with these ids, wherever they are.
  std::vector<std::unique_ptr<Sentence>> remove(std::span<const RequestId> ids) {
    std::vector<RequestId> sorted(ids.begin(), ids.end());
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::unique_ptr<Sentence>> removed;
    removed.reserve(sorted.size());  // none is lost if memory runs out
    for (const RequestId id : sorted) {
      if (auto sentence = remove_joined(id)) removed.push_back(std::move(sentence));
    }
    if (removed.size() == sorted.size()) return removed;
    intake.take_out(
        [&](const Sentence& sentence) {
          return std::binary_search(sorted.begin(), sorted.end(), sentence.id);
        },
        [&](std::unique_ptr<Sentence> sentence) { removed.push_back(std::move(sentence)); });
    return removed;
  }

  // Removes one sentence, whatever state a failed step has left all of them in; null if none is
  // left. Allocates nothing: the step may have failed because there was no memory.
  std::unique_ptr<Sentence> any_sentence() {
    for (Backend* backend : backends) {
      if (std::unique_ptr<Sentence> sentence = backend->remove_any()) return sentence;
    }
    if (leavers.empty()) return intake.remove_any();
    std::unique_ptr<Sentence> sentence = std::move(leavers.back().sentence);
    leavers.pop_back();
    return sentence;
  }

  // ---- requests that join and time out ----------------------------------------------------------
  void admit() {
    int64_t tokens = 0;
    for (;;) {
      // If the number of slots was reduced below its width, a request is decoded alone.
      const int64_t free = decodes() ? free_slots() : std::numeric_limits<int64_t>::max();
      const Sentence* next = intake.next(free, options.slots);
      if (next == nullptr) return;
      const int64_t more = static_cast<int64_t>(next->request.prefix.size()) + 1;
      if (tokens > 0 && tokens + more > kPrefixTokens) return;
      tokens += more;
      join(intake.pop());
    }
  }

  // If it cannot join, it fails alone.
  void join(std::unique_ptr<Sentence> sentence) {
    try {
      backend_for(*sentence).join(std::move(sentence));
    } catch (const std::exception& failure) {
      release_slots(*sentence, session);
      leavers.push_back({std::move(sentence), RequestEnd::failed, error_of(failure)});
    }
  }

  // Moves those whose deadline has passed to the leavers: all of them or, if memory runs out, none.
  void expire() {
    if (earliest == kNever) return;
    const EngineClock::time_point now = options.now();
    if (now < earliest) return;
    const auto is_late = [&](const Sentence& sentence) {
      return sentence.terms.deadline && *sentence.terms.deadline <= now;
    };
    size_t late = 0;
    std::vector<RequestId> late_decoded;
    EngineClock::time_point next = kNever;
    const auto look_at = [&](const Sentence& sentence) {
      if (is_late(sentence))
        ++late;
      else if (sentence.terms.deadline)
        next = std::min(next, *sentence.terms.deadline);
    };
    intake.each(look_at);
    each_decoded([&](const Sentence& sentence) {
      look_at(sentence);
      if (is_late(sentence)) late_decoded.push_back(sentence.id);
    });
    leavers.reserve(leavers.size() + late);
    earliest = next;
    const auto leave = [&](std::unique_ptr<Sentence> sentence) {
      Error error = make_error(ErrorCode::timed_out, "search: request ", sentence->request.number,
                               ": its deadline has passed");
      leavers.push_back({std::move(sentence), RequestEnd::timed_out, std::move(error)});
    };
    intake.take_out(is_late, leave);
    for (const RequestId id : late_decoded) leave(remove_joined(id));
  }

  // ---- callbacks --------------------------------------------------------------------------------
  // In the order of the sentences' rows, whether they leave or go on. What a callback that throws
  // keeps from being told is told by the next step.
  void tell_steps() {
    traced.clear();
    const auto note = [&](Sentence& sentence) {
      if (sentence.traced) traced.push_back(&sentence);
    };
    each_decoded(note);
    for (const Leaver& leaver : leavers) note(*leaver.sentence);
    std::sort(traced.begin(), traced.end(), [](const Sentence* a, const Sentence* b) {
      return a->first_row != b->first_row ? a->first_row < b->first_row : a->id < b->id;
    });
    for (Sentence* sentence : traced) {
      const SearchStep step = std::move(*sentence->traced);
      sentence->traced.reset();
      sentence->events.step(step);
    }
  }

  void stream() {
    streaming.clear();
    each_decoded([&](const Sentence& sentence) {
      if (sentence.events.tokens && sentence.started) streaming.push_back(sentence.id);
    });
    for (const RequestId id : streaming) stream_certain(id);
  }
  // A callback may cancel any request, this one too.
  void stream_certain(RequestId id) {
    Sentence* sentence = find_decoded(id);
    if (sentence == nullptr) return;
    const auto listener = sentence->events.tokens;
    sentence->streamed.resize(sentence->samples(), 0);
    for (size_t sample = 0; sentence != nullptr && sample < sentence->samples(); ++sample) {
      certain_tokens.clear();
      certain_log_probs.clear();
      sentence->hypotheses.certain(static_cast<int64_t>(sample), sentence->streamed[sample],
                                   certain_tokens, certain_log_probs);
      if (certain_tokens.empty()) continue;
      sentence->streamed[sample] += certain_tokens.size();
      listener({id, static_cast<int64_t>(sample), certain_tokens, certain_log_probs});
      sentence = find_decoded(id);
    }
  }
  // All samples, even if the callback throws; returns the first exception.
  static std::exception_ptr stream_rest(Sentence& sentence,
                                        const std::vector<Hypothesis>& results) {
    std::exception_ptr thrown;
    if (!sentence.events.tokens) return thrown;
    const size_t samples = sentence.search().sample ? results.size() : 1;
    sentence.streamed.resize(samples, 0);
    for (size_t sample = 0; sample < samples; ++sample) {
      const Hypothesis& h = results[sample];
      const size_t first = sentence.streamed[sample];
      if (first == h.tokens.size()) continue;
      try {
        sentence.events.tokens({sentence.id, static_cast<int64_t>(sample),
                                std::span(h.tokens).subspan(first),
                                std::span(h.log_probs).subspan(first)});
      } catch (...) {
        if (!thrown) thrown = std::current_exception();
      }
    }
    return thrown;
  }

  // Calls the request's `done`, after the sentence has released everything; also if its `tokens`
  // callback throws.
  void tell(std::unique_ptr<Sentence> sentence, RequestEnd end, std::optional<Error> error) {
    intake.left(*sentence);
    RequestOutcome outcome = outcome_of(*sentence, end, std::move(error));
    std::exception_ptr thrown;
    if (outcome.end == RequestEnd::finished) thrown = stream_rest(*sentence, outcome.hypotheses);
    sentence->tell(std::move(outcome));
    if (thrown) std::rethrow_exception(thrown);
  }

  void tell_leavers() {
    while (!leavers.empty()) {
      Leaver leaver = std::move(leavers.front());
      leavers.erase(leavers.begin());
      tell(std::move(leaver.sentence), leaver.end, std::move(leaver.error));
    }
  }

  // ---- steps ------------------------------------------------------------------------------------
  void decode() {
    try {
      admit();
      for (Backend* backend : backends) {
        if (!backend->empty()) backend->step(leavers);
      }
    } catch (const std::exception& failure) {
      fail_all(error_of(failure));
      throw;
    }
  }
  // Every request is told, even if the callback of one of them throws.
  void fail_all(const Error& error) {
    std::unique_ptr<Sentence> all;  // collected first: callbacks may submit new requests
    while (std::unique_ptr<Sentence> sentence = any_sentence()) {
      sentence->next = std::exchange(all, nullptr);
      all = std::move(sentence);
    }
    kept->encoded = {};
    while (all != nullptr) {
      const std::unique_ptr<Sentence> sentence = std::exchange(all, std::move(all->next));
      sentence->segment = -1;
      try {
        sentence->tell(outcome_of(*sentence, RequestEnd::failed, error));
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the failure is thrown
      }
    }
  }
};

Engine::Engine(const Transformer& model, EngineOptions options, Session& session) {
  require(session->tape == nullptr, ErrorCode::invalid_argument,
          "search: a tape is recording on the session");
  require(options.slots >= 1, ErrorCode::invalid_argument, "search: slots must be at least 1, got ",
          options.slots);
  state_ = std::make_unique<State>(model, std::move(options), session);
}
Engine::~Engine() = default;

void Engine::check(const SearchOptions& options, int64_t slots, const Transformer& model) {
  check_options(options, model);
  check_width(options, slots);
}

RequestId Engine::submit(SearchRequest request, std::shared_ptr<const SearchOptions> options,
                         RequestEvents events, const RequestTerms& terms) {
  State& s = *state_;
  std::shared_ptr<const CheckedOptions> checked =
      s.options_in_use.checked(std::move(options), s.model);
  check_width(*checked->search, s.options.slots);
  check_request(request, *checked->search, s.model.config());
  auto sentence = std::make_unique<Sentence>(s.next_id, std::move(request), std::move(checked),
                                             s.model.config());
  sentence->terms = terms;
  // It gets its callbacks when it was taken in: otherwise the exception alone tells the caller.
  s.intake.add(std::move(sentence)).events = std::move(events);
  if (terms.deadline) s.earliest = std::min(s.earliest, *terms.deadline);
  return s.next_id++;
}

bool Engine::cancel(RequestId id) { return cancel(std::span(&id, 1)) == 1; }

int64_t Engine::cancel(std::span<const RequestId> ids) {
  State& s = *state_;
  std::vector<std::unique_ptr<Sentence>> removed = s.remove(ids);
  // Everybody is told, even if a callback throws.
  std::exception_ptr thrown;
  for (auto& sentence : removed) {
    Error error = make_error(ErrorCode::cancelled, "search: request ", sentence->request.number,
                             " was cancelled");
    try {
      s.tell(std::move(sentence), RequestEnd::cancelled, std::move(error));
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
  return std::ssize(removed);
}

bool Engine::step() {
  State& s = *state_;
  const StandardRounding rounding;
  require(s.session->tape == nullptr, ErrorCode::invalid_argument,
          "search: a tape is recording on the session");
  s.tell_steps();  // left over when a callback threw
  s.expire();
  s.tell_leavers();
  s.decode();
  s.tell_steps();
  s.stream();
  s.tell_leavers();
  return !idle();
}

bool Engine::idle() const { return requests() == 0; }

bool Engine::has_room_for(int64_t width) const {
  return state_->intake.encodes_more(width, state_->free_slots(), state_->options.slots);
}

int64_t Engine::requests() const { return state_->requests(); }

void Engine::set_slots(int64_t slots) {
  require(slots >= 1, ErrorCode::invalid_argument, "search: slots must be at least 1, got ", slots);
  state_->options.slots = slots;
}
int64_t Engine::slots() const { return state_->options.slots; }

}  // namespace tril
