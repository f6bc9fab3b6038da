#include "tril/prove/agreement.h"

#include <map>

#include "tril/autograd/tape.h"
#include "tril/models/session_state.h"
#include "tril/prove/bits.h"
#include "tril/prove/stepwise.h"

namespace tril {
namespace {

constexpr int64_t kBatchRows = 512;  // of one parallel pass, approximately
constexpr int64_t kFiller = 3;       // padding rows between packed sentences

// The sequences of a parallel pass.
struct Packed {
  Rows source, target;
  std::vector<int64_t> first_rows;  // of the transcripts, in the target
  std::vector<size_t> sentences;    // of the sources, in their order
};

Packed pack(std::span<const Transcript> transcripts, std::span<const TokenPair> pairs,
            const Transformer& model, int64_t filler) {
  Packed packed;
  std::map<size_t, int32_t> segments;  // hypotheses of a sentence share its source
  int32_t slot = 0;
  for (const Transcript& transcript : transcripts) {
    int32_t segment = -1;
    if (!model.config().decoder_only()) {
      const auto [at, is_new] =
          segments.try_emplace(transcript.sentence, static_cast<int32_t>(segments.size()));
      segment = at->second;
      if (is_new) {
        packed.sentences.push_back(transcript.sentence);
        packed.source.add_sequence(pairs[transcript.sentence].source, {.slot = segment});
        packed.source.add_filler(filler);
      }
    }
    packed.first_rows.push_back(packed.target.size());
    packed.target.add_sequence(transcript.tokens, {.slot = slot++, .segment = segment});
    packed.target.add_filler(filler);
  }
  return packed;
}

// Counts the calls of forward(), and keeps the encoder's results.
class PassRecorder : public ForwardCounter {
 public:
  void see(const Observation& o) override {
    ForwardCounter::see(o);
    sources.see(o);
  }
  SourceRecorder sources;
};

// Compares the parallel pass over these transcripts with their logits.
void compare_in_one_pass(const Transformer& model, std::span<const Transcript> transcripts,
                         const StepwiseResult& stepwise, const Packed& packed, Session& session,
                         Agreement& result) {
  session.reset();
  PassRecorder recorder;
  const ObserverScope scope(session, &recorder);
  Tape tape(session);
  const Memory memory = packed.source.size() == 0 ? Memory{} : model.encode(packed.source, session);
  const Tensor logits = model.logits(model.forward(packed.target, memory, session), session);
  result.parallel_calls += recorder.calls();
  const int64_t vocab = logits.columns();
  const OnHost values(logits);
  for (size_t t = 0; t < transcripts.size(); ++t) {
    const Transcript& transcript = transcripts[t];
    for (size_t position = 0; position < transcript.tokens.size(); ++position) {
      const int64_t row = packed.first_rows[t] + static_cast<int64_t>(position);
      const int64_t differing =
          differing_bits(values.row(row, vocab), *transcript.logits[position]);
      result.logits += vocab;
      ++result.positions;
      result.differing += differing;
      if (differing > 0 && !result.first) {
        result.first = {result.sequences, static_cast<int64_t>(position)};
      }
    }
    ++result.sequences;
  }
  for (size_t i = 0; i < packed.sentences.size(); ++i) {
    const std::vector<float>& here = recorder.sources.sentences.at(i);
    result.source_values += static_cast<int64_t>(here.size());
    result.source_differing += differing_bits(here, stepwise.sources.at(packed.sentences[i]));
  }
}

}  // namespace

Agreement compare_parallel_with_stepwise(const Transformer& model, std::span<const TokenPair> pairs,
                                         Session& session, const AgreementOptions& options) {
  const StepwiseResult written = write_step_by_step(model, pairs, options, session);
  Agreement result;
  result.sentences = static_cast<int64_t>(pairs.size());
  result.stepwise_calls = written.calls;
  result.forked = written.forked;
  result.moved = written.moved;
  result.misread = written.misread;
  const bool alone = options.company == Company::alone;
  const std::span<const Transcript> all = written.transcripts;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    int64_t rows = 0;
    do {
      rows += static_cast<int64_t>(all[end++].tokens.size()) + kFiller;
    } while (!alone && end < all.size() && rows < kBatchRows);
    const auto some = all.subspan(begin, end - begin);
    compare_in_one_pass(model, some, written, pack(some, pairs, model, alone ? 0 : kFiller),
                        session, result);
    begin = end;
  }
  return result;
}

}  // namespace tril
