#include "tril/prove/agreement.h"

#include <cstring>
#include <map>

#include "tril/prove/stepwise.h"

namespace tril {
namespace {

constexpr int64_t kBatchRows = 512;  // of one parallel pass, about
constexpr int64_t kFiller = 3;       // rows between packed sentences

// An observer for as long as it lives, beside none.
class Watched {
 public:
  Watched(Session& session, Observer& observer) : session_(session), before_(session.observer) {
    session_.observer = &observer;
  }
  ~Watched() { session_.observer = before_; }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  Session& session_;
  Observer* before_;
};

// All tokens of these transcripts in one call; returns the row at which each begins.
std::vector<int64_t> add_packed(std::span<const Transcript> transcripts,
                                std::span<const TokenPair> pairs, const Transformer& model,
                                int64_t filler, Rows& source, Rows& target) {
  std::map<size_t, int32_t> segments;  // hypotheses of a sentence share its source
  std::vector<int64_t> first_rows;
  int32_t slot = 0;
  for (const Transcript& transcript : transcripts) {
    int32_t segment = -1;
    if (!model.config().decoder_only()) {
      const auto [at, is_new] =
          segments.try_emplace(transcript.sentence, static_cast<int32_t>(segments.size()));
      segment = at->second;
      if (is_new) {
        source.add_sequence(pairs[transcript.sentence].source, {.slot = segment});
        source.add_filler(filler);
      }
    }
    first_rows.push_back(target.size());
    target.add_sequence(transcript.tokens, {.slot = slot++, .segment = segment});
    target.add_filler(filler);
  }
  return first_rows;
}

// Compares what the parallel pass over these transcripts gives with what they hold.
void compare_in_one_pass(const Transformer& model, std::span<const Transcript> transcripts,
                         std::span<const TokenPair> pairs, int64_t filler, Session& session,
                         Agreement& result) {
  session.reset();
  Rows source, target;
  const auto first_rows = add_packed(transcripts, pairs, model, filler, source, target);
  Tape tape(session);
  const Memory memory = source.size() == 0 ? Memory{} : model.encode(source, session);
  const Tensor logits = model.logits(model.forward(target, memory, session), session);
  const int64_t vocab = logits.columns();
  for (size_t t = 0; t < transcripts.size(); ++t) {
    const Transcript& transcript = transcripts[t];
    for (size_t position = 0; position < transcript.tokens.size(); ++position) {
      const float* here = logits.data() + (first_rows[t] + static_cast<int64_t>(position)) * vocab;
      const std::vector<float>& there = *transcript.logits[position];
      result.logits += vocab;
      ++result.positions;
      if (std::memcmp(here, there.data(), there.size() * sizeof(float)) == 0) continue;
      if (!result.first) result.first = {result.sequences, static_cast<int64_t>(position)};
      for (size_t i = 0; i < there.size(); ++i) {
        if (std::memcmp(here + i, &there[i], sizeof(float)) != 0) ++result.differing;
      }
    }
    ++result.sequences;
  }
}

}  // namespace

Agreement compare_parallel_with_stepwise(const Transformer& model, std::span<const TokenPair> pairs,
                                         Session& session, const AgreementOptions& options) {
  Agreement result;
  result.sentences = static_cast<int64_t>(pairs.size());
  ForwardCounter counter;
  const Watched watched(session, counter);
  const bool alone = options.company == Company::alone;
  const size_t together = alone ? 1 : pairs.size();
  for (size_t first = 0; first < pairs.size(); first += together) {
    counter.clear();
    const StepwiseResult written =
        write_step_by_step(model, pairs, first, together, options, session);
    result.stepwise_calls += counter.calls();
    result.moved += written.moved;

    counter.clear();
    const std::span<const Transcript> all = written.transcripts;
    for (size_t begin = 0; begin < all.size();) {
      size_t end = begin;
      int64_t rows = 0;
      do {
        rows += static_cast<int64_t>(all[end++].tokens.size()) + kFiller;
      } while (!alone && end < all.size() && rows < kBatchRows);
      compare_in_one_pass(model, all.subspan(begin, end - begin), pairs, alone ? 0 : kFiller,
                          session, result);
      begin = end;
    }
    result.parallel_calls += counter.calls();
  }
  return result;
}

}  // namespace tril
