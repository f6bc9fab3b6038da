#include "tril/prove/stepwise.h"

#include <algorithm>
#include <map>

#include "tril/decode/search.h"
#include "tril/models/session_state.h"
#include "tril/nn/cache.h"

namespace tril {
namespace {

// The arguments of one call of forward(), and the logits computed from it.
class CallRecorder : public Observer {
 public:
  // An observer that was set before still sees everything.
  explicit CallRecorder(Observer* beside) : beside_(beside) {}

  void see(const Observation& o) override {
    if (beside_ != nullptr) beside_->see(o);
    sources.see(o);
    if (o.stack != Stack::decoder || o.site != Site::embedded) return;
    ++calls;
    tokens.assign(o.tokens.begin(), o.tokens.end());
    slots.assign(o.slots.begin(), o.slots.end());
    positions.assign(o.positions.begin(), o.positions.end());
    logits.clear();
  }
  void see_logits(const Tensor& values) override {
    if (beside_ != nullptr) beside_->see_logits(values);
    const OnHost here(values);
    for (int64_t row = 0; row < values.rows(); ++row) {
      const auto from = here.row(row, values.columns());
      logits.push_back(std::make_shared<const std::vector<float>>(from.begin(), from.end()));
    }
  }

  SourceRecorder sources;
  int64_t calls = 0;
  // Of the last call, by row.
  std::vector<int32_t> tokens, slots, positions;
  std::vector<LogitsRow> logits;

 private:
  Observer* beside_;
};

// Slots of a cache, released however this ends.
class OpenSlots {
 public:
  explicit OpenSlots(Cache& cache) : cache_(cache) {}
  ~OpenSlots() {
    for (const int32_t slot : open_) cache_.release(slot);
  }
  OpenSlots(const OpenSlots&) = delete;
  OpenSlots& operator=(const OpenSlots&) = delete;

  int32_t open() {
    open_.reserve(open_.size() + 1);
    return open_.emplace_back(cache_.open());
  }
  void release(int32_t slot) {
    cache_.release(slot);
    std::erase(open_, slot);
  }

 private:
  Cache& cache_;
  std::vector<int32_t> open_;
};

// Feeds given targets token by token, all of `pairs` at a time: sentence i joins at step i.
void feed_given(const Transformer& model, std::span<const TokenPair> pairs, size_t first,
                Session& session, const CallRecorder& recorder, StepwiseResult& result) {
  session.reset();
  const Memory memory = encode_pairs(model, pairs, session);
  OpenSlots slots(session->cache);
  std::vector<int32_t> slot_of(pairs.size(), -1);
  const size_t base = result.transcripts.size();
  for (size_t i = 0; i < pairs.size(); ++i) {
    require(!pairs[i].target.empty(), ErrorCode::invalid_argument, "agreement: a target is empty");
    result.transcripts.emplace_back().sentence = first + i;
  }
  for (size_t joined = 1;; ++joined) {
    Rows rows;
    std::vector<size_t> active;
    for (size_t i = 0; i < std::min(joined, pairs.size()); ++i) {
      const size_t position = result.transcripts[base + i].tokens.size();
      if (position == pairs[i].target.size()) continue;
      if (position == 0) slot_of[i] = slots.open();
      rows.add(pairs[i].target[position],
               {.slot = slot_of[i],
                .segment = model.config().decoder_only() ? -1 : static_cast<int32_t>(i),
                .first = static_cast<int32_t>(position)});
      active.push_back(i);
    }
    if (active.empty() && joined >= pairs.size()) return;
    if (active.empty()) continue;
    session.reset();
    model.logits(model.forward(rows, memory, session), session);
    for (size_t row = 0; row < active.size(); ++row) {
      Transcript& transcript = result.transcripts[base + active[row]];
      transcript.tokens.push_back(recorder.tokens[row]);
      transcript.logits.push_back(recorder.logits[row]);
      if (transcript.tokens.size() == pairs[active[row]].target.size()) {
        slots.release(slot_of[active[row]]);
      }
    }
  }
}

// Follows a search: which hypothesis each row of a call belongs to, what it read, what became of
// it.
class SearchFollower {
 public:
  SearchFollower(const AgreementOptions& options, const CallRecorder& recorder,
                 StepwiseResult& result)
      : start_(options.start), forced_(options.forced), recorder_(recorder), result_(result) {}

  // Called after each step of a sentence; sentences come in the order of their rows in the call.
  void step(const SearchStep& step) {
    if (recorder_.calls != call_) {
      call_ = recorder_.calls;
      next_row_ = 0;
    }
    Sentence& sentence = sentences_[step.number];
    const bool first = sentence.next.empty();  // START, and what is forced after it
    if (first) {
      sentence.next.push_back(
          {.history = {.sentence = static_cast<size_t>(step.number)}, .chosen = start_});
    }
    sentence.read = std::move(sentence.next);
    sentence.next.clear();
    for (Line& line : sentence.read) {
      read(line);
      if (!first) continue;
      for (const int32_t token : forced_) {
        line.chosen = token;
        read(line);
      }
    }
    std::vector<bool> goes_on(sentence.read.size(), false);
    for (const SearchStep::Candidate& candidate : step.candidates) {
      if (candidate.fate != SearchStep::Fate::kept) continue;
      goes_on[candidate.parent] = true;
      Line child = sentence.read[candidate.parent];
      child.parent = candidate.parent;
      child.chosen = candidate.token;
      child.among_others = sentence.read.size() > 1;
      sentence.next.push_back(std::move(child));
    }
    for (size_t i = 0; i < goes_on.size(); ++i) {
      if (!goes_on[i]) keep(sentence.read[i]);
    }
  }
  // Hypotheses kept in the last step are not read any more.
  void done(int64_t number) {
    Sentence& sentence = sentences_[number];
    std::vector<bool> kept(sentence.read.size(), false);
    for (const Line& line : sentence.next) {
      if (!kept[line.parent]) keep(sentence.read[line.parent]);
      kept[line.parent] = true;
    }
    sentences_.erase(number);
  }

 private:
  struct Line {
    Transcript history{};       // what was read
    int32_t slot = -1;          // its last slot
    int32_t chosen = 0;         // what it reads next
    size_t parent = 0;          // index among the lines of the step before
    bool among_others = false;  // whether there were others then with different histories
  };
  struct Sentence {
    std::vector<Line> read, next;
  };

  // Takes what the call's next row was given.
  void read(Line& line) {
    require(next_row_ < recorder_.tokens.size() && next_row_ < recorder_.logits.size(),
            ErrorCode::internal, "agreement: the search read fewer rows than it has hypotheses");
    const size_t row = next_row_++;
    std::vector<int32_t>& tokens = line.history.tokens;
    const bool as_chosen = recorder_.tokens[row] == line.chosen &&
                           recorder_.positions[row] == static_cast<int64_t>(tokens.size());
    result_.misread += as_chosen ? 0 : 1;
    const int32_t slot = recorder_.slots[row];
    if (!tokens.empty() && line.slot != slot) {
      ++result_.forked;
      result_.moved += line.among_others ? 1 : 0;
    }
    line.slot = slot;
    tokens.push_back(recorder_.tokens[row]);
    line.history.logits.push_back(recorder_.logits[row]);
  }
  void keep(const Line& line) { result_.transcripts.push_back(line.history); }

  const int32_t start_;
  const std::vector<int32_t>& forced_;
  const CallRecorder& recorder_;
  StepwiseResult& result_;
  std::map<int64_t, Sentence> sentences_;  // by request
  int64_t call_ = 0;
  size_t next_row_ = 0;
};

void write_by_search(const Transformer& model, std::span<const TokenPair> pairs,
                     const AgreementOptions& options, Session& session,
                     const CallRecorder& recorder, StepwiseResult& result) {
  SearchOptions how;
  how.beam = options.writing == Writing::beam ? options.beam : 1;
  how.max_tokens = options.max_tokens;
  how.start = options.start;
  how.end = options.end;
  how.forbidden = options.forbidden;
  // In batches there is room for half of the sentences: the others wait until one is done.
  const auto count = static_cast<int64_t>(pairs.size());
  const int64_t together = options.company == Company::alone ? 1 : (count + 1) / 2;
  SearchFollower follower(options, recorder, result);
  size_t next = 0;
  search(
      model, how, how.beam * together,
      [&]() -> std::optional<SearchRequest> {
        if (next == pairs.size()) return std::nullopt;
        const size_t number = next++;
        return SearchRequest{.number = static_cast<int64_t>(number),
                             .source = pairs[number].source,
                             .prefix = options.forced,
                             .forced = static_cast<int64_t>(options.forced.size())};
      },
      [&](SearchResult&& done) {
        follower.done(done.number);
        return true;
      },
      session, [&](const SearchStep& step) { follower.step(step); });
}

}  // namespace

void SourceRecorder::see(const Observation& o) {
  if (o.stack == Stack::encoder && o.site == Site::embedded) {
    first_ = sentences.size();
    const int32_t last = *std::max_element(o.slots.begin(), o.slots.end());
    sentences.resize(first_ + static_cast<size_t>(last + 1));
  }
  const bool wanted = o.stack == Stack::encoder
                          ? o.site == Site::final_output
                          : o.site == Site::cross_key || o.site == Site::cross_value;
  if (!wanted) return;
  const auto width = o.tensor.size() / static_cast<int64_t>(o.slots.size());
  const OnHost values(o.tensor);
  for (size_t row = 0; row < o.slots.size(); ++row) {
    if (o.slots[row] < 0) continue;
    const auto from = values.row(static_cast<int64_t>(row), width);
    std::vector<float>& to = sentences[first_ + static_cast<size_t>(o.slots[row])];
    to.insert(to.end(), from.begin(), from.end());
  }
}

StepwiseResult write_step_by_step(const Transformer& model, std::span<const TokenPair> pairs,
                                  const AgreementOptions& options, Session& session) {
  StepwiseResult result;
  if (pairs.empty()) return result;
  CallRecorder recorder(session->observer);
  const ObserverScope scope(session, &recorder);
  if (options.writing != Writing::teacher_forced) {
    write_by_search(model, pairs, options, session, recorder, result);
  } else if (options.company == Company::in_batches) {
    feed_given(model, pairs, 0, session, recorder, result);
  } else {
    for (size_t i = 0; i < pairs.size(); ++i) {
      feed_given(model, pairs.subspan(i, 1), i, session, recorder, result);
    }
  }
  result.calls = recorder.calls;
  result.sources = std::move(recorder.sources.sentences);
  return result;
}

}  // namespace tril
