#include "tril/lesson/lesson_leakage.h"

#include <algorithm>

#include "tril/data/batches.h"
#include "tril/decode/search.h"
#include "tril/lesson/demo.h"
#include "tril/lesson/learn_phrasebook.h"
#include "tril/models/session_state.h"
#include "tril/train/evaluation.h"

namespace tril {
namespace {

constexpr int64_t kLeakagePoints = 10;  // of the curve

// Greedy, with END forbidden until as many pieces are written as the right answer has.
std::string written_without_end(const Translator& translator, const PhrasePair& phrase,
                                Session& session) {
  const Tokenizer& tokenizer = translator.tokenizer();
  SearchOptions options{{}, tokenizer.start(), tokenizer.end(), tokenizer.unwritable()};
  options.forbidden.push_back(tokenizer.end());
  std::sort(options.forbidden.begin(), options.forbidden.end());
  options.max_tokens = static_cast<int64_t>(tokenizer.encode(phrase.hindi).size());
  SearchRequest request{.number = 0, .source = tokenizer.encode(phrase.english), .prefix = {}};
  request.source.push_back(tokenizer.end());
  std::string text;
  bool given = false;
  search(
      translator.model(), options, 1,
      [&]() -> std::optional<SearchRequest> {
        if (given) return std::nullopt;
        given = true;
        return request;
      },
      [&](SearchResult&& done) {
        text = tokenizer.decode(done.hypotheses.front().tokens);
        return true;
      },
      session);
  return text;
}

// How many rows of a target, read as in training, have the next input token as their likeliest
// token: all rows but the last, and the last, after which END would have to come.
struct NextTokens {
  int64_t rows = 0, same = 0;
  bool ended = false;
};
NextTokens read_target(const Translator& translator, const std::string& english,
                       std::span<const int32_t> target, Session& session) {
  const Transformer& model = translator.model();
  Batch batch;
  add_to_batch(batch, translator.tokenizer(), translator.tokenizer().encode(english), target, 0);
  session.reset();
  Tape tape(session);
  const Tensor logits = model.logits(
      model.forward(batch.target, model.encode(batch.source, session), session), session);
  NextTokens result{.rows = logits.rows() - 1};
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const float* begin = logits.data() + row * logits.columns();
    const auto best = std::max_element(begin, begin + logits.columns()) - begin;
    const bool same = best == batch.labels[static_cast<size_t>(row)];
    if (row < result.rows) result.same += same ? 1 : 0;
    if (row == result.rows) result.ended = same;
  }
  return result;
}

// What a model without the mask has learnt. Given words that do not belong to the sentence: a model
// that copies its neighbour predicts them all the same, one that translates does not. Given a
// sentence cut in the middle: if END were its answer to a missing neighbour, it would end there; a
// model that translates goes on.
void look_for_copying(const Translator& translator, const std::vector<PhrasePair>& phrases,
                      Session& session, LeakageRun& result) {
  for (size_t i = 0; i < phrases.size(); ++i) {
    // From far away in the list, because neighbouring phrases are very similar.
    const PhrasePair& other = phrases[(i + phrases.size() / 2) % phrases.size()];
    const std::vector<int32_t> wrong = translator.tokenizer().encode(other.hindi);
    const NextTokens all = read_target(translator, phrases[i].english, wrong, session);
    result.rows += all.rows;
    result.copied += all.same;
    const std::vector<int32_t> right = translator.tokenizer().encode(phrases[i].hindi);
    const auto half = std::span(right).first(right.size() / 2);
    if (half.empty()) continue;
    ++result.cut;
    result.ended += read_target(translator, phrases[i].english, half, session).ended ? 1 : 0;
  }
}

LeakageRun run_once(const Phrasebook& phrasebook, Masking masking, const LeakageOptions& options) {
  LeakageRun result;
  double sum = 0.0;
  int64_t begun = 0;  // the update before the current point of the curve
  const auto progress = [&](int64_t update, double loss) {
    sum += loss;
    const auto points = static_cast<int64_t>(result.curve.size());
    if (update == options.updates * (points + 1) / kLeakagePoints) {
      result.curve.push_back(sum / static_cast<double>(update - begun));
      sum = 0.0;
      begun = update;
    }
    if (options.progress) options.progress(masking, update, loss);
  };
  const Translator translator = learn_phrasebook(phrasebook, {.updates = options.updates,
                                                              .masking = masking,
                                                              .seed = options.seed,
                                                              .threads = options.threads,
                                                              .progress = progress});

  Session session(translator.model(), options.threads);
  const auto look = [&](const std::vector<PhrasePair>& phrases, Masking with) {
    session->masking = with;
    return evaluate(translator.model(), translator.tokenizer(), corpus_of(phrases), {}, session);
  };
  const Evaluation trained = look(phrasebook.held_out, masking);
  result.held_out_loss = trained.loss;
  result.exact = trained.exact;
  result.bleu = trained.bleu;
  result.empty = std::ranges::count(trained.outputs, std::string());
  look_for_copying(translator, phrasebook.held_out, session, result);  // masked as it was trained
  result.held_out_loss_masked = look(phrasebook.held_out, Masking::causal).loss;
  result.writes = look(lesson_sentences(), masking).outputs;
  for (const PhrasePair& phrase : lesson_sentences()) {
    result.forced.push_back(written_without_end(translator, phrase, session));
  }
  return result;
}

}  // namespace

LeakageLesson teach_leakage(const LeakageOptions& options) {
  require(options.updates >= kLeakagePoints, ErrorCode::invalid_argument,
          "lesson leakage: ", options.updates, " updates; it needs at least ", kLeakagePoints);
  const Phrasebook phrasebook = make_phrasebook();
  LeakageLesson lesson;
  lesson.updates = options.updates;
  lesson.sentences = lesson_sentences();
  lesson.held_out = static_cast<int64_t>(phrasebook.held_out.size());
  lesson.masked = run_once(phrasebook, Masking::causal, options);
  lesson.unmasked = run_once(phrasebook, Masking::none, options);
  const LeakageRun& with = lesson.masked;
  const LeakageRun& without = lesson.unmasked;
  lesson.holds = without.curve.back() < 0.5 * with.curve.back() &&
                 without.held_out_loss < 0.5 * with.held_out_loss &&
                 without.held_out_loss_masked > with.held_out_loss &&
                 10 * without.exact < with.exact && 2 * with.exact > lesson.held_out &&
                 10 * without.copied > 9 * without.rows && 2 * with.copied < with.rows;
  return lesson;
}

}  // namespace tril
