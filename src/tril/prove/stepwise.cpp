#include "tril/prove/stepwise.h"

#include <algorithm>
#include <limits>

#include "tril/ops/loss.h"

namespace tril {
namespace {

// Slots of a cache that are given back, however this ends.
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
  int32_t fork(int32_t slot) {
    open_.reserve(open_.size() + 1);
    return open_.emplace_back(cache_.fork(slot));
  }
  void release(int32_t slot) {
    cache_.release(slot);
    std::erase(open_, slot);
  }

 private:
  Cache& cache_;
  std::vector<int32_t> open_;
};

struct Line : Transcript {
  double score = 0.0;  // beam: the sum of log-probabilities
};

// A sentence being written: one line, or a beam of them.
struct Sentence {
  std::vector<Line> lines;
  std::vector<int32_t> slots;  // of the lines
  int32_t segment = -1;
  size_t ended = 0;  // hypotheses that came to END
  bool done = false;
};

struct Candidate {
  double score = 0.0;
  size_t line = 0;
  int32_t token = 0;
};

class Writer {
 public:
  Writer(const Transformer& model, std::span<const TokenPair> pairs, size_t first, size_t count,
         const AgreementOptions& options, Session& session)
      : model_(model), options_(options), session_(session), slots_(session.cache) {
    session_.reset();
    memory_ = encode_pairs(model, pairs.subspan(first, count), session_);
    for (size_t i = 0; i < count; ++i) {
      const TokenPair& pair = pairs[first + i];
      require(!pair.target.empty(), ErrorCode::invalid_argument, "agreement: a target is empty");
      Sentence sentence;
      sentence.segment = model.config().decoder_only() ? -1 : static_cast<int32_t>(i);
      sentence.lines.emplace_back().sentence = first + i;
      const bool given = options.writing == Writing::teacher_forced;
      sentence.lines[0].tokens.assign(pair.target.begin(),
                                      given ? pair.target.end() : pair.target.begin() + 1);
      sentences_.push_back(std::move(sentence));
    }
  }

  StepwiseResult run() {
    for (size_t joined = 1;; ++joined) {
      std::vector<Sentence*> active;
      for (size_t i = 0; i < std::min(joined, sentences_.size()); ++i) {
        if (!sentences_[i].done) active.push_back(&sentences_[i]);
      }
      if (active.empty() && joined >= sentences_.size()) break;
      if (!active.empty()) step(active);
    }
    return std::move(result_);
  }

 private:
  // One call for all lines of the sentences at work, whatever their positions.
  void step(const std::vector<Sentence*>& active) {
    Rows rows;
    for (Sentence* sentence : active) {
      if (sentence->slots.empty()) sentence->slots.push_back(slots_.open());
      for (size_t i = 0; i < sentence->lines.size(); ++i) {
        const Line& line = sentence->lines[i];
        const size_t position = line.logits.size();
        rows.add(line.tokens[position], {.slot = sentence->slots[i],
                                         .segment = sentence->segment,
                                         .first = static_cast<int32_t>(position)});
      }
    }
    session_.reset();
    const Tensor logits = model_.logits(model_.forward(rows, memory_, session_), session_);
    const Tensor log_probs =
        options_.writing == Writing::beam ? ops::log_probs(session_, logits) : logits;
    const auto vocab = static_cast<size_t>(logits.columns());
    size_t row = 0;
    for (Sentence* sentence : active) {
      const size_t first_row = row;
      for (Line& line : sentence->lines) {
        const float* from = logits.data() + row++ * vocab;
        line.logits.push_back(std::make_shared<const std::vector<float>>(from, from + vocab));
      }
      advance(*sentence, {log_probs.data() + first_row * vocab, sentence->lines.size() * vocab},
              vocab);
    }
  }

  // What follows each line of a sentence. `rows` are its lines' log-probabilities (or logits).
  void advance(Sentence& sentence, std::span<const float> rows, size_t vocab) {
    const Line& line = sentence.lines[0];
    if (options_.writing == Writing::teacher_forced) {
      if (line.logits.size() == line.tokens.size()) finish(sentence);
      return;
    }
    if (static_cast<int64_t>(line.tokens.size()) >= limit()) return finish(sentence);
    if (options_.writing == Writing::beam) return advance_beam(sentence, rows, vocab);
    const Candidate best = best_of(rows, 0, 0.0, 1)[0];
    if (best.token == options_.end) return finish(sentence);
    sentence.lines[0].tokens.push_back(best.token);
  }

  int64_t limit() const { return std::min(model_.config().max_length, options_.max_tokens + 1); }

  // The best continuations of all lines. Those that end are set aside, as many as the beam is wide
  // take the places of the lines before.
  void advance_beam(Sentence& sentence, std::span<const float> rows, size_t vocab) {
    const auto beam = static_cast<size_t>(options_.beam);
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < sentence.lines.size(); ++i) {
      const auto best =
          best_of(rows.subspan(i * vocab, vocab), i, sentence.lines[i].score, 2 * beam);
      candidates.insert(candidates.end(), best.begin(), best.end());
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    std::vector<Line> next;
    std::vector<int32_t> parents;
    for (const Candidate& candidate : candidates) {
      if (next.size() == beam) break;
      const Line& parent = sentence.lines[candidate.line];
      if (candidate.token == options_.end) {
        keep(parent);
        ++sentence.ended;
        continue;
      }
      next.push_back(parent);
      next.back().tokens.push_back(candidate.token);
      next.back().score = candidate.score;
      parents.push_back(sentence.slots[candidate.line]);
    }
    if (next.empty() || sentence.ended >= beam) return finish(sentence);
    while (sentence.slots.size() < next.size()) {
      sentence.slots.push_back(slots_.fork(sentence.slots[0]));
    }
    const std::span<const int32_t> kept(sentence.slots.data(), next.size());
    for (size_t i = 0; i < next.size(); ++i) result_.moved += kept[i] != parents[i] ? 1 : 0;
    session_.cache.reorder(kept, parents);
    while (sentence.slots.size() > next.size()) {
      slots_.release(sentence.slots.back());
      sentence.slots.pop_back();
    }
    sentence.lines = std::move(next);
  }

  // The `count` likeliest tokens of a row, at equal numbers the lower one first.
  std::vector<Candidate> best_of(std::span<const float> row, size_t line, double score,
                                 size_t count) const {
    std::vector<int32_t> order;
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i] > -std::numeric_limits<float>::infinity()) {  // not so for NaN
        order.push_back(static_cast<int32_t>(i));
      }
    }
    require(!order.empty(), ErrorCode::bad_format,
            "agreement: the model gives no token a probability: its logits are NaN");
    count = std::min(count, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
                      order.end(), [&](int32_t a, int32_t b) {
                        const float at_a = row[static_cast<size_t>(a)];
                        const float at_b = row[static_cast<size_t>(b)];
                        return at_a != at_b ? at_a > at_b : a < b;
                      });
    std::vector<Candidate> best;
    for (size_t i = 0; i < count; ++i) {
      best.push_back(
          {score + static_cast<double>(row[static_cast<size_t>(order[i])]), line, order[i]});
    }
    return best;
  }

  void keep(const Line& line) { result_.transcripts.push_back(line); }
  void finish(Sentence& sentence) {
    for (const Line& line : sentence.lines) keep(line);
    for (const int32_t slot : sentence.slots) slots_.release(slot);
    sentence.lines.clear();
    sentence.slots.clear();
    sentence.done = true;
  }

  const Transformer& model_;
  const AgreementOptions& options_;
  Session& session_;
  OpenSlots slots_;
  Memory memory_;
  std::vector<Sentence> sentences_;
  StepwiseResult result_;
};

}  // namespace

StepwiseResult write_step_by_step(const Transformer& model, std::span<const TokenPair> pairs,
                                  size_t first, size_t count, const AgreementOptions& options,
                                  Session& session) {
  return Writer(model, pairs, first, count, options, session).run();
}

}  // namespace tril
