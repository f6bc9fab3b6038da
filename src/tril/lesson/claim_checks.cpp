// One function per claim: the experiment's figures, and whether they match the verdict.
#include <algorithm>
#include <array>
#include <cmath>

#include "tril/base/error.h"
#include "tril/base/plot.h"
#include "tril/lesson/claim_results.h"
#include "tril/lesson/mask_check.h"

namespace tril {
namespace {

using plot::decimals;
using Results = ClaimLab::Results;

std::string percent(double share) { return concat(decimals(100.0 * share, 1), "%"); }

std::string row_text(std::span<const double> row) {
  std::string text;
  for (const double value : row) text += concat(text.empty() ? "" : ", ", decimals(value));
  return text;
}

int64_t logits_of(const ProofReport& report) {
  int64_t logits = 0;
  for (const AgreementLine& line : report.agreement) logits += line.figures.logits;
  return logits;
}
int64_t differing_of(const ProofReport& report) {
  int64_t differing = 0;
  for (const AgreementLine& line : report.agreement) differing += line.figures.differing;
  return differing;
}

// The statement.

ClaimFinding one_function(Results& r) {
  const ProofReport& p = r.proof();
  return {p.holds() && r.series().logits_differing == 0,
          concat(logits_of(p), " logits computed both ways, ", differing_of(p),
                 " differ in any bit; calls for one sentence: ", p.table.training_calls,
                 " in training, ", p.table.inference_calls, " at inference.")};
}

ClaimFinding friday(Results& r) {
  const SeriesLesson& l = r.series();
  return {l.holds && l.expected != l.expected_other_wednesday &&
              l.expected != l.expected_other_thursday,
          concat("Expected on Friday: ", decimals(l.expected, 1),
                 "; had Wednesday been 31: ", decimals(l.expected_other_wednesday, 1),
                 "; had Thursday been 28: ", decimals(l.expected_other_thursday, 1), ".")};
}

ClaimFinding fewer_calls(Results& r) {
  const DecodingLesson& l = r.decoding();
  return {l.holds && l.same_bits_guessing && l.calls_with_guessing < l.calls_one_by_one,
          concat(l.sentences, " sentences: ", l.calls_one_by_one, " calls one by one, ",
                 l.calls_with_guessing, " with guesses checked in one pass; same bits: ",
                 l.same_bits_guessing ? "yes." : "NO.")};
}

ClaimFinding neither_alone(Results& r) {
  const ForcingLesson& l = r.forcing();
  const auto text = [](const ForcingRun& run) {
    return concat(run.inputs_known() ? "inputs known" : "inputs not known", " and ",
                  run.same_bits() ? "the same function" : "another function");
  };
  return {l.holds && l.both_are_needed,
          concat("Forcing and mask: ", text(l.forcing_masked),
                 "; forcing alone: ", text(l.forcing_unmasked),
                 "; mask alone: ", text(l.own_masked), "; neither: ", text(l.own_unmasked), ".")};
}

ClaimFinding either_way(Results& r) {
  const SequentialRow& row = r.sequential().rows.front();
  const SequentialComparison& f = row.figures;
  return {r.sequential().holds && f.positions_agree() && f.sums_agree(),
          concat(f.sequential.calls, " calls or ", f.parallel.calls, ": of ", f.positions_compared,
                 " positions ", f.positions_differing,
                 " have a gradient with other bits; sums over positions use ", percent(f.sum_share),
                 " of the rounding bound.")};
}

ClaimFinding previous_word(Results& r) {
  const SwappedWord& s = r.teacher().swapped;
  return {s.depends_on_previous(),
          concat("\"", s.english, "\", ", s.right, " changed to ", s.wrong, ": ", s.after_changed,
                 " of ", s.after, " positions from there on have other logits, ", s.before_changed,
                 " of ", s.before, " before it.")};
}

ClaimFinding wrong_word(Results& r) {
  const TeacherLesson& l = r.teacher();
  const TeacherExample& e = l.example;
  return {l.holds, concat("\"", e.english, "\": after the mistake, ", e.right_when_corrected,
                          " of ", e.following, " right when corrected, ", e.right_when_followed,
                          " in position when followed; it writes ", e.written, ".")};
}

ClaimFinding own_words(Results& r) {
  const TableEvidence& t = r.proof().table;
  return {t.reads_what_it_wrote() && t.fed_in_inference.size() > 1,
          concat(t.own_words, " of ", t.fed_in_inference.size() - 1,
                 " tokens fed at inference after START are its own predictions.")};
}

ClaimFinding both_senses(Results& r) {
  const ProofReport& p = r.proof();
  return {p.table.calls_as_stated() && p.leaks.holds() && p.holds(Section::agreement),
          concat(p.table.training_calls, " call for ", p.table.training_rows,
                 " positions; every future position poisoned with NaN: ", p.leaks.values,
                 " values that may not see it, ", p.leaks.heads_leaking.size(), " heads leak.")};
}

ClaimFinding same_decoder(Results& r) {
  const TableEvidence& t = r.proof().table;
  return {t.same_weights() && t.same_mask() && t.calls_as_stated() && t.teacher_forced(),
          concat("Same ", t.tensors, " tensors, untouched: ", t.weights_untouched() ? "yes" : "NO",
                 "; same interval per row: ", t.same_mask() ? "yes" : "NO", "; calls ",
                 t.training_calls, " and ", t.inference_calls, ".")};
}

// What it costs.

ClaimFinding calls(Results& r) {
  const SequentialLesson& l = r.sequential();
  std::string text;
  bool as_stated = l.holds;
  for (const SequentialRow& row : l.rows) {
    const int64_t counted = row.figures.sequential.calls;
    as_stated = as_stated && counted == row.rows * (row.words + 1);
    text += concat(text.empty() ? "" : ", ", row.rows == 1 ? "" : concat(row.rows, " × "),
                   row.words, " words: ", counted, " calls");
  }
  return {as_stated, text + "."};
}

ClaimFinding no_pie(Results& r) {
  const SequentialLesson& l = r.sequential();
  const SequentialRow& shortest = l.rows.front();
  double most = shortest.figures.time_ratio();
  for (const SequentialRow& row : l.rows) most = std::max(most, row.figures.time_ratio());
  return {l.holds && most > 2.0 * shortest.figures.time_ratio(),
          concat("Parallel training was ", decimals(shortest.figures.time_ratio(), 1),
                 " times as fast for ", shortest.words, " words and up to ", decimals(most, 0),
                 " times for longer targets; the pie says 3 times.")};
}

ClaimFinding steps_and_work(Results& r) {
  const WorkLesson& l = r.work();
  const WorkRow& first = l.rows.front();
  const WorkRow& last = l.rows.back();
  return {l.counts_hold && last.parallel.positions > first.parallel.positions,
          concat("From ", first.words, " to ", last.words, " words: steps ", first.sequential.steps,
                 " → ", last.sequential.steps, " against ", first.parallel.steps, " → ",
                 last.parallel.steps, "; positions computed ", first.sequential.positions, " → ",
                 last.sequential.positions, " against ", first.parallel.positions, " → ",
                 last.parallel.positions, ".")};
}

double mebibytes(const SequentialComparison::Cost& cost) {
  return static_cast<double>(cost.peak_bytes) / (1 << 20);
}

ClaimFinding memory(Results& r) {
  const SequentialLesson& l = r.sequential();
  const SequentialRow& last = l.rows.back();
  return {l.holds && l.memory_growth <= 1.05 * l.length_growth &&
              l.matrix_growth > 2.0 * l.memory_growth,
          concat(decimals(l.length_growth), " times the length: ", decimals(l.memory_growth),
                 " times the memory, measured; stored matrices would grow ",
                 decimals(l.matrix_growth), " times. ", last.rows, " × ", last.words,
                 " words: ", decimals(mebibytes(last.figures.parallel), 1), " MiB in parallel, ",
                 decimals(mebibytes(last.figures.sequential), 1), " one by one.")};
}

ClaimFinding machine_use(Results& r) {
  const WorkLesson& l = r.work();
  const WorkRow& last = l.rows.back();
  const std::string peak =
      l.peak_gflops > 0.0
          ? concat(". Of this machine's peak: ", percent(last.parallel.gflops() / l.peak_gflops),
                   " in parallel; one by one ", percent(last.sequential.gflops() / l.peak_gflops),
                   ", of which ", percent(last.useful_gflops() / l.peak_gflops), " is new work")
          : "";
  return {l.holds && last.sequential.seconds > last.parallel.seconds,
          concat(last.words, " words: ", decimals(last.parallel.gflops(), 1),
                 " GFLOP per second of useful work in parallel, ",
                 decimals(last.useful_gflops(), 1), " one by one", peak, ".")};
}

ClaimFinding long_targets(Results& r) {
  const SequentialLesson& l = r.sequential();
  const auto long_row = std::ranges::find_if(
      l.rows, [](const SequentialRow& row) { return row.rows == 1 && row.words >= 300; });
  require(long_row != l.rows.end(), ErrorCode::internal, "claim 16: no row of 300 words");
  const double ratio = long_row->figures.time_ratio();
  return {l.holds && ratio > 30.0 && ratio > l.rows.front().figures.time_ratio(),
          concat("Sequential training took ", decimals(ratio, 0), " times as long for 300 words (",
                 decimals(l.rows.front().figures.time_ratio(), 1), " times for ",
                 l.rows.front().words, "); memory in parallel grew ", decimals(l.memory_growth),
                 " times over ", decimals(l.length_growth), " times the length.")};
}

ClaimFinding faster_and_stable(Results& r) {
  const ForcingLesson& l = r.forcing();
  const double spread = l.forcing_masked.norm_spread / l.own_masked.norm_spread;
  return {l.holds && l.faster_with_forcing && spread > 0.5 && spread < 2.0,
          concat("After ", l.updates, " updates ", l.forcing_masked.exact, " of ", l.held_out,
                 " sentences right with forcing, ", l.own_masked.exact,
                 " with own predictions. Spread of the gradient norm (deviation ÷ mean): ",
                 decimals(l.forcing_masked.norm_spread), " and ",
                 decimals(l.own_masked.norm_spread), ".")};
}

// Leakage.

ClaimFinding weights_of_the_future(Results& r) {
  const AttentionLesson& l = r.attention();
  const Matrix& without = l.unmasked.weights;
  const Matrix& with = l.masked.engine_weights;
  const auto above = [&](const Matrix& m) {
    return m.at(0, 1) > 0.0 && m.at(0, 2) > 0.0 && m.at(1, 2) > 0.0;
  };
  const bool zero = with.at(0, 1) == 0.0 && with.at(0, 2) == 0.0 && with.at(1, 2) == 0.0;
  return {l.holds && above(without) && zero,
          concat("w₁₂, w₁₃, w₂₃ = ", decimals(without.at(0, 1)), ", ", decimals(without.at(0, 2)),
                 ", ", decimals(without.at(1, 2)), " without the mask; with it ",
                 zero ? "exactly 0, 0, 0." : "NOT 0.")};
}

ClaimFinding learns_to_copy(Results& r) {
  const LeakageLesson& l = r.leakage();
  return {l.holds,
          concat("Fed the Hindi of another sentence, it predicts the word fed next in ",
                 l.unmasked.copied, " of ", l.unmasked.rows, " positions (with the mask in ",
                 l.masked.copied, "): it has learnt to copy.")};
}

ClaimFinding another_function(Results& r) {
  const DecodingLesson& l = r.decoding();
  return {
      l.holds && l.same_bits_without_mask == (l.decoder_layers == 1) && l.unmasked.logits > 0,
      concat("Recomputed without the mask over the words that exist: ", l.unmasked.logits_differing,
             " of ", l.unmasked.logits,
             " logits differ from the cache's in some bit; another token ", "is the likeliest in ",
             l.unmasked.tokens_differing, " of ", l.unmasked.tokens, " places.")};
}

ClaimFinding excellent_then_poor(Results& r) {
  const LeakageLesson& l = r.leakage();
  return {l.holds, concat("Loss per token in training ", decimals(l.unmasked.curve.back(), 3),
                          " without the mask, ", decimals(l.masked.curve.back(), 3),
                          " with it; sentences right ", l.unmasked.exact, " and ", l.masked.exact,
                          " of ", l.held_out, ".")};
}

ClaimFinding three_kinds(Results& r) {
  const LeakageLesson& l = r.leakage();
  const SequentialComparison& f = r.sequential().rows.back().figures;
  const ProofReport& p = r.proof();
  return {l.holds && r.sequential().holds && p.leaks.holds(),
          concat("Calls for 16 × 300 words: ", f.sequential.calls, " one by one, ",
                 f.parallel.calls, " in parallel. Trained without the mask, ", l.unmasked.exact,
                 " of ", l.held_out, " sentences right; with it ", l.masked.exact, ", and ",
                 p.leaks.heads_leaking.size(), " heads leak.")};
}

// Attention and the mask.

ClaimFinding why_root(Results& r) {
  const ScaleLesson& l = r.scale();
  const ScaleRow& last = l.dims.back();
  return {l.holds, concat("d_k = ", last.head_dim, ": spread ", decimals(last.undivided.spread, 1),
                          ", slope of the softmax ", decimals(last.undivided.slope, 3),
                          " undivided and ", decimals(last.divided.slope, 3), " divided; ",
                          l.not_finite, " weights not finite either way.")};
}

ClaimFinding contextual(Results& r) {
  const ContextLesson& l = r.context();
  const ContextLayer& last = l.layers.back();
  return {l.holds && r.attention().holds,
          concat("\"bank\": the same input vector; after layer ", last.layer, " distance ",
                 decimals(last.other_sense.distance), " between meanings, ",
                 decimals(last.same_sense.distance), " within one.")};
}

ClaimFinding worked_scores(Results& r) {
  const AttentionLesson& l = r.attention();
  return {
      l.holds && l.masked.within(),
      concat("Masked rows: (", row_text(l.masked.weights.row(0)), "), (",
             row_text(l.masked.weights.row(1)), "), (", row_text(l.masked.weights.row(2)),
             "); the engine uses ", percent(l.masked.largest_share), " of the rounding bound.")};
}

ClaimFinding row_of_more_than_one(Results& r) {
  const AttentionLesson& l = r.attention();
  return {l.third_sum > 1.05 && std::fabs(l.third_softmax[0] - 1.0 / 11.0) < 1e-12,
          concat("0.1 + 0.3 + 0.7 = ", decimals(l.third_sum, 1),
                 "; as a softmax: ", row_text(l.third_softmax), ".")};
}

ClaimFinding exactly_zero(Results& r) {
  const MaskLesson& m = r.masks();
  const AttentionLesson& a = r.attention();
  const double forbidden = m.one_key[2].forbidden;
  return {m.holds && a.masked.forbidden_is_zero && forbidden == 0.0,
          concat("Weight on forbidden keys in the engine: ",
                 forbidden == 0.0 && a.masked.forbidden_is_zero ? "exactly 0." : "NOT 0.")};
}

ClaimFinding times_zero(Results& r) {
  const Forbidding& zeroed = r.masks().one_key[3];
  return {r.masks().holds && zeroed.forbidden > 0.1,
          concat(percent(zeroed.forbidden), " of the weight goes to the future.")};
}

ClaimFinding minus_1e9(Results& r) {
  const MaskLesson& l = r.masks();
  return {l.holds && std::isinf(l.half_of_minus_1e9),
          concat("A row that sees nothing: ", percent(l.no_key[1].forbidden),
                 " of its weight on forbidden keys; a row that sees something: ",
                 percent(l.one_key[1].forbidden), ". In half precision −1e9 is ",
                 std::isinf(l.half_of_minus_1e9) ? "−∞." : "NOT −∞.")};
}

ClaimFinding dozen_lines(Results& r) {
  const AttentionLesson& l = r.attention();
  return {l.holds && l.masked.within() && l.unmasked.within(),
          concat("Textbook and kernel: ", l.masked.compared, " numbers, largest difference ",
                 percent(l.masked.largest_share), " of the rounding bound.")};
}

ClaimFinding two_names(Results&) {
  const MaskCheck kept = check_mask("1 0 0\n1 1 0\n1 1 1");
  const MaskCheck added = check_mask("0 -inf -inf\n0 0 -inf\n0 0 0");
  const MaskCheck blocked = check_mask("0 1 1\n0 0 1\n0 0 0");
  return {kept.causal() && added.causal() && blocked.causal() && kept.looks == added.looks &&
              kept.looks == blocked.looks,
          "1s in the lower triangle (may look), 1s in the upper triangle (blocked) and -∞ in the "
          "upper triangle: all three read as the same mask."};
}

ClaimFinding wrong_sketch(Results&) {
  const MaskCheck check = check_mask(". . . X\n. . . X\n. . . X\n. . . .");
  return {
      !check.causal() && check.leaks.size() == 3,
      concat("It is not causal: ", check.leaks.size(), " cells see the future, the first in row ",
             check.leaks.front().row + 1, ", column ", check.leaks.front().column + 1, ".")};
}

ClaimFinding dots_and_crosses(Results&) {
  const MaskCheck check = check_mask(". X X\n. . X\n. . .");
  return {check.causal(),
          concat(check.rows, " × ", check.columns, ", causal: ", check.causal() ? "yes." : "NO.")};
}

ClaimFinding broadcasting(Results& r) {
  const Broadcast& b = r.masks().broadcast;
  return {
      b.equal && std::ssize(b.combined) == b.batch * b.heads * b.length * b.length,
      concat("[", b.batch, ", ", b.heads, ", ", b.length, ", ", b.length, "]: ", b.combined.size(),
             " entries, all equal to the intervals: ", b.equal ? "yes." : "NO.")};
}

ClaimFinding encoder_sees_all(Results& r) {
  const MaskLesson& l = r.masks();
  const auto encoder = std::ranges::find(l.in_use, "encoder self-attention", &MaskInUse::where);
  const bool found = encoder != l.in_use.end();
  const bool all = found && std::ranges::all_of(encoder->mask.rows(), [&](const Interval& row) {
                     return row.lo == 0 && row.hi == encoder->keys;
                   });
  return {l.holds && all, concat("Every encoder row sees keys 1 to ", found ? encoder->keys : 0,
                                 ": ", all ? "yes." : "NO.")};
}

ClaimFinding padding_and_causal(Results& r) {
  const MaskLesson& l = r.masks();
  const NamedMask& causal = l.kinds[0];
  const NamedMask& padding = l.kinds[1];
  const NamedMask& both = l.kinds[2];
  const bool intersection =
      std::ranges::equal((causal.mask & padding.mask).rows(), both.mask.rows());
  const bool different = !std::ranges::equal(causal.mask.rows(), padding.mask.rows());
  return {l.holds && intersection && different,
          concat("Causal and padding masks differ: ", different ? "yes" : "NO",
                 "; combined = intersection, row by row: ", intersection ? "yes." : "NO.")};
}

ClaimFinding order_of_sublayers(Results& r) {
  const std::vector<std::string> expected = {"masked self-attention", "cross-attention",
                                             "feed-forward"};
  const auto& layers = r.sublayers();
  const auto right = std::ranges::count(layers, expected);
  return {!layers.empty() && right == std::ssize(layers),
          concat("In ", right, " of ", layers.size(),
                 " decoder layers: masked self-attention, cross-attention, feed-forward.")};
}

// From words to probabilities: the same, and at the end one logit for each token of the vocabulary.
ClaimFinding whole_way(Results& r) {
  const ClaimFinding order = order_of_sublayers(r);
  const TransformerConfig& c = r.translator().model().config();
  const TableEvidence& t = r.proof().table;
  return {order.as_stated && t.logits == t.training_rows * c.target_vocab,
          concat(order.figure, " Then ", t.logits, " logits for ", t.training_rows,
                 " positions: one per token of the vocabulary.")};
}

ClaimFinding what_heads_do(Results& r) {
  const HeadsLesson& l = r.heads();
  const std::string by_number = [&] {
    std::string text;
    for (const HeadCount& count : l.counts) {
      text +=
          concat(text.empty() ? "" : ", ", decimals(count.mean().bleu, 1), " with ", count.heads);
    }
    return text;
  }();
  return {l.holds, concat(l.heads.size(), " heads, ", l.descriptions,
                          " kinds of behaviour; switching one off raises the loss by ",
                          decimals(l.cost(l.heads[l.least]), 3), " to ",
                          decimals(l.cost(l.heads[l.most]), 3), "; BLEU ", by_number, " heads.")};
}

ClaimFinding three_ways(Results& r) {
  const DecodingLesson& l = r.decoding();
  // With a single layer the mask makes no difference, as the lesson shows.
  return {l.holds && l.same_bits_cached_and_recomputed &&
              l.same_bits_without_mask == (l.decoder_layers == 1),
          concat("Recomputed with the mask: ", l.masked.logits_differing, " of ", l.masked.logits,
                 " logits differ from the cache's; without it ", l.unmasked.logits_differing,
                 "; with one decoder layer, without it ", l.one_layer.logits_differing, ".")};
}

ClaimFinding just_add_a_mask(Results& r) {
  const AttentionLesson& a = r.attention();
  const LeakageLesson& l = r.leakage();
  const double diagonal = a.masked.engine_weights.at(1, 1);
  return {l.holds && diagonal > 0.0,
          concat("The mask alone makes the difference between ", l.unmasked.exact, " and ",
                 l.masked.exact, " of ", l.held_out,
                 " sentences right. But in lesson attention w₂₂ = ", decimals(diagonal),
                 ": a row sees its own input, so inputs must be shifted.")};
}

// What it is for.

ClaimFinding three_tasks(Results& r) {
  const TasksLesson& l = r.tasks();
  std::string text;
  for (const TaskFigures& task : l.tasks) {
    text += concat(text.empty() ? "" : "; ", task.name, ": ", task.exact, " of ", task.held_out,
                   " right, ", task.agreement.differing, " of ", task.agreement.logits,
                   " logits differ");
  }
  return {l.holds && l.tasks.size() == 3, text + "."};
}

// Each line of the pocket summary is one of these claims.
ClaimFinding pocket_summary(Results& r) {
  const bool holds = weights_of_the_future(r).as_stated && exactly_zero(r).as_stated &&
                     wrong_word(r).as_stated && own_words(r).as_stated &&
                     encoder_sees_all(r).as_stated && order_of_sublayers(r).as_stated &&
                     both_senses(r).as_stated;
  return {holds,
          concat("Claims 7, 8, 9, 18, 27, 35 and 37, which its lines rest on, are as stated: ",
                 holds ? "yes." : "NO.")};
}

ClaimFinding twenty_questions(Results& r) {
  const std::vector<QuizQuestion> quiz = make_quiz(r.translator(), r.options.seed);
  const bool sound =
      quiz.size() == kQuizQuestions && std::ranges::all_of(quiz, [](const QuizQuestion& question) {
        return question.right < question.choices.size() && !question.because.empty() &&
               !question.command.empty();
      });
  const auto own = std::ranges::count(quiz, 0, &QuizQuestion::claim);
  return {sound && own == 6, concat(quiz.size(), " questions, ", own,
                                    " of them made from this model, each with its experiment.")};
}

using Check = ClaimFinding (*)(Results&);
constexpr std::array<Check, 44> kChecks = {
    // The statement
    one_function, friday, fewer_calls, neither_alone, either_way, previous_word, wrong_word,
    own_words, both_senses, same_decoder,
    // What it costs
    calls, no_pie, steps_and_work, memory, machine_use, long_targets, faster_and_stable,
    // Leakage
    weights_of_the_future, learns_to_copy, another_function, excellent_then_poor, three_kinds,
    // Attention and the mask
    why_root, contextual, worked_scores, row_of_more_than_one, exactly_zero, times_zero, minus_1e9,
    dozen_lines, two_names, wrong_sketch, dots_and_crosses, broadcasting, encoder_sees_all,
    padding_and_causal, order_of_sublayers, what_heads_do, three_ways, just_add_a_mask,
    // What it is for
    three_tasks, whole_way, pocket_summary, twenty_questions};

}  // namespace

ClaimFinding check_claim(int number, ClaimLab& lab) {
  claim_number(number);  // raises for an invalid number
  return kChecks[static_cast<size_t>(number - 1)](lab.results());
}

}  // namespace tril
