#include "tril/decode/engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tril/base/caught.h"
#include "tril/base/rounding.h"
#include "tril/decode/ahead_backend.h"
#include "tril/decode/host_backend.h"
#include "tril/decode/intake.h"

namespace tril {
namespace {

constexpr auto kBad = ErrorCode::invalid_argument;

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

void check_width(const SearchOptions& options, int64_t slots) {
  require(width_of(options) <= slots, kBad, "search: ", slots,
          " slots do not hold one request: ", options.sample ? "n_best" : "beam", " is ",
          width_of(options));
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
    if (can_choose_tokens(session)) ahead = make_ahead_backend(model, *kept, session);
  }
  ~State() {
    while (const auto sentence = any_sentence()) {
      sentence->events = {};
      intake.release(*sentence);
    }
    ahead.reset();
    if (usable) KeptForEngine::give_back(std::move(kept), session);
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
  RequestId next_id = 1;
  // False after a failure: some encoded sentences may then belong to no request.
  bool usable = true;
  // Options in use, so that requests share what is derived from them.
  std::vector<std::weak_ptr<const CheckedOptions>> checked;
  std::vector<Leaver> leavers;  // of the current step

  int64_t free_slots() const {
    return options.slots - host.slots_taken() - (ahead ? ahead->slots_taken() : 0);
  }
  bool decodes() const { return !host.empty() || (ahead && !ahead->empty()); }

  Backend& backend_for(const Sentence& sentence) {
    const bool goes_ahead =
        ahead != nullptr && session.observer == nullptr && can_go_ahead(sentence.search());
    return goes_ahead ? *ahead : static_cast<Backend&>(host);
  }

  // Shared by requests with the same options, or at least the same forbidden tokens.
  std::shared_ptr<const CheckedOptions> checked_options(
      std::shared_ptr<const SearchOptions> search) {
    std::erase_if(checked, [](const auto& each) { return each.expired(); });
    std::shared_ptr<const TokenSet> tokens;
    for (const auto& weak : checked) {
      const auto each = weak.lock();
      if (each->search == search) return each;
      if (each->tokens->forbidden == search->forbidden) tokens = each->tokens;
    }
    check_options(*search, model.config());
    if (tokens == nullptr) {
      tokens = std::make_shared<TokenSet>(model.config().target_vocab, search->forbidden);
    }
    auto made = std::make_shared<CheckedOptions>(std::move(search), std::move(tokens));
    checked.push_back(made);
    return made;
  }

  template <class F>
  void take_out(const F& leaves, std::vector<std::unique_ptr<Sentence>>& out) {
    intake.take_out(leaves, out);
    for (Backend* backend : {static_cast<Backend*>(&host), ahead.get()}) {
      if (backend == nullptr) continue;
      std::vector<RequestId> ids;
      backend->each([&](Sentence& sentence) {
        if (leaves(sentence)) ids.push_back(sentence.id);
      });
      for (const RequestId id : ids) out.push_back(backend->remove(id));
    }
  }

  // Removes one sentence, whatever state a failed step has left all of them in; null if none is
  // left. Allocates nothing: the step may have failed because there was no memory.
  std::unique_ptr<Sentence> any_sentence() {
    for (Backend* backend : {static_cast<Backend*>(&host), ahead.get()}) {
      if (backend == nullptr) continue;
      if (std::unique_ptr<Sentence> sentence = backend->remove_any()) return sentence;
    }
    if (leavers.empty()) return intake.remove_any();
    std::unique_ptr<Sentence> sentence = std::move(leavers.back().sentence);
    leavers.pop_back();
    return sentence;
  }
  int64_t requests() const {
    int64_t count = intake.size() + static_cast<int64_t>(leavers.size());
    host.each([&](Sentence&) { ++count; });
    if (ahead) ahead->each([&](Sentence&) { ++count; });
    return count;
  }

  // Calls the request's `done`, after the sentence has released everything; also if its `tokens`
  // callback throws.
  void tell(std::unique_ptr<Sentence> sentence, RequestEnd end, std::optional<Error> error = {}) {
    intake.release(*sentence);
    RequestOutcome outcome = outcome_of(*sentence, end, std::move(error));
    std::exception_ptr thrown;
    try {
      if (outcome.end == RequestEnd::finished) stream_rest(*sentence, outcome.hypotheses);
    } catch (...) {
      thrown = std::current_exception();
    }
    sentence->tell(std::move(outcome));
    if (thrown) std::rethrow_exception(thrown);
  }

  void expire() {
    const EngineClock::time_point now = options.now();
    std::vector<std::unique_ptr<Sentence>> late;
    take_out(
        [&](const Sentence& sentence) {
          return sentence.terms.deadline && *sentence.terms.deadline <= now;
        },
        late);
    for (auto& sentence : late) {
      const Error error = make_error(ErrorCode::timed_out, "search: request ",
                                     sentence->request.number, ": its deadline has passed");
      tell(std::move(sentence), RequestEnd::timed_out, error);
    }
  }

  void admit() {
    for (;;) {
      // If the number of slots was reduced below its width, a request is decoded alone.
      const int64_t free = decodes() ? free_slots() : std::numeric_limits<int64_t>::max();
      std::unique_ptr<Sentence> sentence = intake.take(free, options.slots);
      if (sentence == nullptr) return;
      backend_for(*sentence).join(std::move(sentence));
    }
  }

  // ---- streams ----------------------------------------------------------------------------------
  void stream() {
    std::vector<RequestId> ids;  // a callback may cancel any of them
    each_streaming([&](Sentence& sentence) { ids.push_back(sentence.id); });
    for (const RequestId id : ids) {
      Sentence* found = nullptr;
      each_streaming([&](Sentence& sentence) {
        if (sentence.id == id) found = &sentence;
      });
      if (found != nullptr) stream_certain(*found);
    }
  }
  template <class F>
  void each_streaming(const F& f) {
    for (Backend* backend : {static_cast<Backend*>(&host), ahead.get()}) {
      if (backend == nullptr) continue;
      backend->each([&](Sentence& sentence) {
        if (sentence.events.tokens && sentence.started) f(sentence);
      });
    }
  }
  static void stream_certain(Sentence& sentence) {
    const int64_t samples = sentence.search().sample ? sentence.search().n_best : 1;
    sentence.streamed.resize(static_cast<size_t>(samples), 0);
    // What a callback is given must outlive the sentence: the callback may cancel it.
    const auto listener = sentence.events.tokens;
    const RequestId id = sentence.id;
    std::vector<std::pair<std::vector<int32_t>, std::vector<float>>> news(
        static_cast<size_t>(samples));
    for (size_t sample = 0; sample < news.size(); ++sample) {
      auto& [tokens, log_probs] = news[sample];
      sentence.hypotheses.certain(static_cast<int64_t>(sample), sentence.streamed[sample], tokens,
                                  log_probs);
      sentence.streamed[sample] += tokens.size();
    }
    for (size_t sample = 0; sample < news.size(); ++sample) {
      const auto& [tokens, log_probs] = news[sample];
      if (!tokens.empty()) listener({id, static_cast<int64_t>(sample), tokens, log_probs});
    }
  }
  static void stream_rest(Sentence& sentence, const std::vector<Hypothesis>& results) {
    if (!sentence.events.tokens) return;
    const size_t samples = sentence.search().sample ? results.size() : 1;
    sentence.streamed.resize(samples, 0);
    for (size_t sample = 0; sample < samples; ++sample) {
      const Hypothesis& h = results[sample];
      const size_t first = sentence.streamed[sample];
      if (first == h.tokens.size()) continue;
      sentence.events.tokens({sentence.id, static_cast<int64_t>(sample),
                              std::span(h.tokens).subspan(first),
                              std::span(h.log_probs).subspan(first)});
    }
  }

  // ---- steps ------------------------------------------------------------------------------------
  void decode() {
    try {
      admit();
      if (!host.empty()) host.step(leavers);
      if (ahead && !ahead->empty()) ahead->step(leavers);
    } catch (const std::exception& failure) {
      fail_all(error_of(failure));
      throw;
    }
  }
  // Every request is told, even if the callback of one of them throws.
  void fail_all(const Error& error) {
    usable = false;
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
    usable = true;
  }

  void tell_leavers() {
    // A callback may throw: the remaining ones are called by the next step.
    while (!leavers.empty()) {
      Leaver leaver = std::move(leavers.front());
      leavers.erase(leavers.begin());
      const RequestEnd end = leaver.error ? RequestEnd::failed : RequestEnd::finished;
      tell(std::move(leaver.sentence), end, std::move(leaver.error));
    }
  }
};

Engine::Engine(const Transformer& model, EngineOptions options, Session& session) {
  require(session.tape == nullptr, kBad, "search: a tape is recording on the session");
  require(options.slots >= 1, kBad, "search: slots must be at least 1, got ", options.slots);
  state_ = std::make_unique<State>(model, std::move(options), session);
}
Engine::~Engine() = default;

void Engine::check(const SearchOptions& options, int64_t slots, const TransformerConfig& config) {
  check_options(options, config);
  check_width(options, slots);
}

RequestId Engine::submit(SearchRequest request, std::shared_ptr<const SearchOptions> options,
                         RequestEvents events, const RequestTerms& terms) {
  State& s = *state_;
  std::shared_ptr<const CheckedOptions> checked = s.checked_options(std::move(options));
  check_width(*checked->search, s.options.slots);
  check_request(request, *checked->search, s.model.config());
  auto sentence = std::make_unique<Sentence>(s.next_id, std::move(request), std::move(checked),
                                             s.model.config());
  sentence->events = std::move(events);
  sentence->terms = terms;
  s.intake.add(std::move(sentence));
  return s.next_id++;
}

bool Engine::cancel(RequestId id) {
  State& s = *state_;
  std::vector<std::unique_ptr<Sentence>> found;
  s.take_out([&](const Sentence& sentence) { return sentence.id == id; }, found);
  const auto leaver = std::find_if(s.leavers.begin(), s.leavers.end(),
                                   [&](const Leaver& each) { return each.sentence->id == id; });
  if (leaver != s.leavers.end()) {
    found.push_back(std::move(leaver->sentence));
    s.leavers.erase(leaver);
  }
  if (found.empty()) return false;
  const Error error = make_error(ErrorCode::cancelled, "search: request ", found[0]->request.number,
                                 " was cancelled");
  s.tell(std::move(found[0]), RequestEnd::cancelled, error);
  return true;
}

bool Engine::step() {
  State& s = *state_;
  const StandardRounding rounding;
  require(s.session.tape == nullptr, kBad, "search: a tape is recording on the session");
  s.tell_leavers();  // left over when a callback threw
  s.expire();
  s.decode();
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
  require(slots >= 1, kBad, "search: slots must be at least 1, got ", slots);
  state_->options.slots = slots;
}
int64_t Engine::slots() const { return state_->options.slots; }

}  // namespace tril
