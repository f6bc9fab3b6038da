#include <fmt/core.h>

#include <algorithm>

#include "prove.h"
#include "terminal.h"
#include "tril/base/cpu.h"
#include "tril/prove/report.h"
#include "tril/text/display.h"
#include "units.h"

namespace tril::app {
namespace {

constexpr std::string_view kIndent = "     ";

// Begins a section of the report.
void print_section(std::string_view number, std::string_view text, bool holds) {
  fmt::print("\n{}  {}: {}\n", number, text, holds ? good("holds") : bad("FAILS"));
}

void print_paragraph(std::string_view text) { fmt::print("{}", set_text(text, kIndent, kIndent)); }

void print_failure(std::string_view text) {
  const std::string set = set_text(text, fmt::format("{}FAILS: ", kIndent), "            ");
  fmt::print("{}{}{}", kIndent, bad("FAILS"), set.substr(kIndent.size() + 5));
}

// Tokens in readable form: pieces without the sign for a blank, START by its name.
class Pieces {
 public:
  explicit Pieces(const ProvedModel& proved) : proved_(proved) {}

  std::string operator()(int32_t token) const {
    const auto& tokenizer = proved_.tokenizer;
    if (!tokenizer) return fmt::format("{}", token);
    if (tokenizer->has_start() && token == tokenizer->start()) return "START";
    if (token == tokenizer->end()) return "END";
    std::string piece = tokenizer->piece(token);
    const std::string blank = "▁";
    if (piece.starts_with(blank) && piece.size() > blank.size()) piece.erase(0, blank.size());
    return escaped(piece);
  }
  // As many as fit on a line.
  std::string operator()(const std::vector<int32_t>& tokens) const {
    constexpr int64_t kColumns = 60;
    std::string text;
    for (const int32_t token : tokens) {
      const std::string next = concat(text.empty() ? "" : " ", (*this)(token));
      if (display_width(text) + display_width(next) > kColumns) return text + " …";
      text += next;
    }
    return text;
  }

 private:
  const ProvedModel& proved_;
};

// The seal of the file the weights came from; the first half of it, which fits on a line.
std::string seal_text(const ProvedModel& proved) {
  const FolderSeal& seal = proved.model.seal();
  return seal.sealed() ? fmt::format("seal {}", seal.identity.substr(0, 16))
                       : "a file that is not sealed";
}

void print_head(const ProvedModel& proved, const ProofReport& report) {
  const TransformerConfig& c = proved.model.config();
  const std::string layers =
      c.decoder_only() ? counted(c.decoder_layers, "layer")
                       : fmt::format("{} + {} layers", c.encoder_layers, c.decoder_layers);
  const auto line = [](const std::string& text) { fmt::print("{}", set_text(text, "", "  ")); };
  line(fmt::format("{}: {}, {} of {}, {} wide, {}, {}", proved.flags.model,
                   c.decoder_only() ? "decoder-only" : "encoder–decoder", layers,
                   counted(c.heads, "head"), c.model,
                   counted(proved.model.parameter_count(), "parameter"),
                   counted(c.target_vocab, "token")));
  line(fmt::format("{}, {}: {}", counted(report.sentences, "sentence"),
                   counted(report.positions, "position"), proved.text.origin));
  line(fmt::format("{}, {}, {}", cpu_name(), to_string(current_target()),
                   counted(proved.threads, "thread")));
  const auto sealed =
      std::count_if(proved.files.begin(), proved.files.end(),
                    [](const VerifiedFile& file) { return file.state == FileState::sound; });
  line(fmt::format("{} of {} verified: every byte matches its checksum", sealed,
                   counted(std::ssize(proved.files), "file")));
  if (proved.flags.unmasked) fmt::print("{}\n", bad("THE CAUSAL MASK IS OFF."));
}

// The rows of the mask as the calls received them, side by side.
void add_mask(const TableEvidence& t, const Pieces& pieces, Table& table) {
  constexpr size_t kRows = 5;
  const size_t all =
      std::min({t.mask_in_training.size(), t.mask_in_inference.size(), t.fed_in_inference.size()});
  const size_t rows = std::min(kRows, all);
  const auto row = [&](const std::vector<TableEvidence::Seen>& mask, size_t r, size_t columns) {
    std::string text;
    for (size_t key = 0; key < columns; ++key) {
      const auto at = static_cast<int64_t>(key);
      text += mask[r].begin <= at && at < mask[r].end ? "■ " : "· ";
    }
    return text;
  };
  for (size_t r = 0; r < rows; ++r) {
    const std::string inference =
        fmt::format("{:<7} {}", fmt::format("call {}", r + 1), row(t.mask_in_inference, r, r + 1));
    table.push_back(
        {r == 0 ? "mask by row" : "",
         fmt::format("{:<7} {}", r == 0 ? "call 1" : "", row(t.mask_in_training, r, rows)),
         pad_right(inference, static_cast<int64_t>(9 + 2 * rows)) +
             shortened(pieces(t.fed_in_inference[r]), 12)});
  }
  if (rows < all) table.push_back({"", "        …", "…"});
}

// What is fed in: every cell is decided by figures.
struct FedCells {
  std::string training, inference;
};
FedCells fed_cells(const TableEvidence& t) {
  FedCells cells;
  cells.training =
      t.teacher_forced() ? "yes: the given tokens are fed" : "NO: something else is fed";
  const auto read = static_cast<int64_t>(t.fed_in_inference.size()) - 1 - t.forced;
  if (!t.reads_what_it_wrote()) {
    cells.inference = fmt::format("NO: {} of {} inputs are its own predictions", t.own_words, read);
  } else if (read == 0) {
    cells.inference = "no: it wrote END at once";
  } else {
    cells.inference = fmt::format("no: all {} inputs are its own predictions", read);
  }
  if (t.forced > 0) cells.inference += fmt::format(", after {} forced", t.forced);
  return cells;
}

void print_evidence(const ProvedModel& proved, const ProofReport& report) {
  const TableEvidence& t = report.table;
  const Pieces pieces(proved);
  const auto yes = [](bool is) { return is ? "yes" : "NO"; };
  const size_t n = t.given.size();
  print_section("1", "The same decoder, called in two ways", t.holds());
  Table table = {{"", "training", "inference"}};
  table.push_back({"weights", seal_text(proved),
                   t.weights_untouched()
                       ? fmt::format("same {}, unchanged", counted(t.tensors, "tensor"))
                       : "CHANGED on the way"});
  table.push_back(
      {"1 weight changed",
       fmt::format("{} of {} logits change", grouped(t.moved_in_training), grouped(t.logits)),
       fmt::format("{} of {} logits change", grouped(t.moved_in_inference), grouped(t.logits))});
  add_mask(t, pieces, table);
  table.push_back(
      {"mask needed",
       fmt::format("{}: {} of {} rows change without", yes(t.mask_needed_in_training()),
                   t.unmasked_training_rows, n),
       t.mask_needed_in_inference() && t.unmasked_step_rows == 0
           ? fmt::format("yes, with {} tokens per call; with 1 there is nothing to hide", n)
           : fmt::format("{}: {} of {} rows change without, {} at 1 per call",
                         yes(t.mask_needed_in_inference()), t.unmasked_call_rows, n,
                         t.unmasked_step_rows)});
  const FedCells fed = fed_cells(t);
  table.push_back({"teacher forcing", fed.training, fed.inference});
  table.push_back({"forward() calls", grouped(t.training_calls), grouped(t.inference_calls)});
  table.push_back(
      {"rows per call",
       fmt::format("{}{}", t.training_rows, t.one_call() ? ": all positions in parallel" : ""),
       fmt::format("{}{}", t.inference_rows / std::max<int64_t>(1, t.inference_calls),
                   t.call_a_token() ? ": one position at a time" : "")});
  const bool steps = t.call_a_token() && t.reads_what_it_wrote() && t.unmasked_step_rows == 0;
  table.push_back({"autoregressive", report.leaks.holds() ? "in function (see 3)" : "NO (see 3)",
                   steps ? "in function and in computation" : "NO"});
  app::print_table(table, Align::left, kIndent);
  print_paragraph(fmt::format("fed in training:  {}", pieces(t.fed_in_training)));
  print_paragraph(fmt::format("fed at inference: {}", pieces(t.fed_in_inference)));
  print_paragraph(fmt::format("In training {} of {} tokens {} predicted wrongly{}.", t.mistaken, n,
                              t.mistaken == 1 ? "was" : "were",
                              t.mistaken > 0
                                  ? fmt::format("; {} of these predictions {} fed", t.followed,
                                                t.followed == 1 ? "was" : "were")
                                  : ""));
  const auto fails = [](bool holds, const char* why) {
    if (!holds) print_failure(why);
  };
  fails(t.same_weights(), "the two ways do not read the same weights");
  fails(t.same_mask(), "the rows of training do not see the keys that those of inference see");
  fails(t.mask_needed(), "without the mask nothing changes");
  fails(t.teacher_forced(), "training was not fed the given tokens");
  fails(t.reads_what_it_wrote(), "inference was not fed what it wrote");
  fails(t.calls_as_stated(),
        "forward() was not called once in training and once per token at inference");
}

std::string name_of(const AgreementLine& line) {
  return fmt::format("{}{}, {}", word_for(line.writing), line.without_end ? ", no END" : "",
                     word_for(line.company));
}

void print_agreement(const ProofReport& report) {
  print_section("2", "Parallel and stepwise, bit for bit", report.holds(Section::agreement));
  Table table = {{"", "", "calls,", "calls,", "", ""},
                 {"", "sequences", "parallel", "stepwise", "logits", "differing"}};
  int64_t forked = 0, moved = 0, values = 0, differing = 0;
  for (const AgreementLine& line : report.agreement) {
    const Agreement& a = line.figures;
    forked += a.forked;
    moved += a.moved;
    values += a.source_values;
    differing += a.source_differing;
    table.push_back({name_of(line), grouped(a.sequences), grouped(a.parallel_calls),
                     grouped(a.stepwise_calls), grouped(a.logits), grouped(a.differing)});
  }
  app::print_table(table, Align::right, kIndent);
  if (values > 0) {
    print_paragraph(fmt::format("Encoder output: {}, {} differing.", counted(values, "number"),
                                grouped(differing)));
  }
  print_paragraph(fmt::format(
      "Beam search: {} times a hypothesis started from a copy of another's cache; in {} of these "
      "the other hypotheses contained other words. The longest target has {}.",
      grouped(forked), grouped(moved), counted(report.longest, "position")));
  for (const AgreementLine& line : report.agreement) {
    const Agreement& a = line.figures;
    if (line.holds()) continue;
    if (a.first) {
      print_failure(fmt::format("first at position {} of sequence {} (from 0): {}",
                                a.first->position, a.first->sequence, name_of(line)));
    } else if (a.same()) {
      print_failure(
          fmt::format("no hypothesis took over the cache of one of several: {}", name_of(line)));
    } else {
      print_failure(
          fmt::format("{} of the encoder's numbers differ, {} did not read what was chosen: {}",
                      grouped(a.source_differing), counted(a.misread, "row"), name_of(line)));
    }
    break;
  }
}

void print_leak(const std::string& text) {
  const std::string set = set_text(text, fmt::format("{}LEAK: ", kIndent), "           ");
  fmt::print("{}{}{}", kIndent, bad("LEAK"), set.substr(kIndent.size() + 4));
}

// Where it leaks, and where a row misses what it may see.
void print_places(const LeakProbe& p) {
  constexpr size_t kShown = 4;
  if (p.first_wrong_mask) {
    const WrongMask& wrong = *p.first_wrong_mask;
    print_failure(fmt::format(
        "in layer {} position {} of sentence {} is given keys {} to {} instead of {} to {}",
        wrong.layer, wrong.row.position, wrong.row.sentence, wrong.begin, wrong.end - 1,
        wrong.rule_begin, wrong.rule_end - 1));
  }
  const bool everywhere =
      static_cast<int64_t>(p.heads_leaking.size()) == p.model_layers * p.model_heads;
  if (p.first_future) {
    print_leak(fmt::format("position {} already sees position {}{}", p.first_future->row.position,
                           p.first_future->key.position,
                           everywhere ? ", in every head of every layer" : ""));
  }
  for (size_t i = 0; !everywhere && i < std::min(p.heads_leaking.size(), kShown); ++i) {
    const HeadLeak& leak = p.heads_leaking[i];
    print_leak(fmt::format("layer {}, head {}: position {} of sentence {} sees {}", leak.layer,
                           leak.head, leak.row.position, leak.row.sentence,
                           leak.key.sentence == leak.row.sentence
                               ? fmt::format("position {}", leak.key.position)
                               : fmt::format("sentence {}", leak.key.sentence)));
  }
  if (!everywhere && p.heads_leaking.size() > kShown) {
    print_paragraph(fmt::format(
        "and in {} more", counted(static_cast<int64_t>(p.heads_leaking.size() - kShown), "head")));
  }
  for (size_t i = 0; i < std::min(p.heads_blind.size(), kShown); ++i) {
    const BlindHead& blind = p.heads_blind[i];
    print_failure(fmt::format("layer {}, head {}: position {} of sentence {} does not see {}",
                              blind.layer, blind.head, blind.row.position, blind.row.sentence,
                              blind.key.position));
  }
  if (p.heads_leaking.empty() && p.end_to_end) {
    print_leak(fmt::format("outside the attention: position {} sees position {}",
                           p.end_to_end->row.position, p.end_to_end->key.position));
  }
}

void print_leaks(const ProofReport& report) {
  const LeakProbe& p = report.leaks;
  print_section("3", "What a row may not see does not reach it", p.holds());
  print_paragraph(
      fmt::format("The mask in use, row by row in every layer: {} of {} rows match the "
                  "rule.",
                  grouped(p.mask_rows - p.mask_wrong), grouped(p.mask_rows)));
  print_paragraph(fmt::format(
      "{} of {} × {} × {} ({:.0f}%) were poisoned with a number, NaN, +inf and -inf. In {} outputs "
      "and query gradients of rows that may not see them: {}.",
      grouped(p.poisoned), counted(p.positions, "position"), counted(p.layers, "layer"),
      counted(p.heads, "head"), 100.0 * p.coverage(), grouped(p.values),
      p.heads_leaking.empty()
          ? "no head leaks"
          : fmt::format("{} LEAK{}", counted(static_cast<int64_t>(p.heads_leaking.size()), "head"),
                        p.heads_leaking.size() == 1 ? "S" : "")));
  print_paragraph(fmt::format(
      "The control: where a row may see a key, NaN must reach it, and did in {} of {} heads.",
      grouped(p.controls - p.controls_missed), grouped(p.controls)));
  print_paragraph(fmt::format(
      "{} poisoned before the first layer: of {} hidden values they may not reach, {}. Of {} that "
      "may see them, NaN reached {}.",
      counted(p.tokens_poisoned, "token"), grouped(p.hidden_values),
      p.end_to_end ? "some CHANGED" : "none changed", counted(p.hidden_controls, "row"),
      grouped(p.hidden_controls - p.hidden_unreached)));
  if (p.unfaithful > 0) {
    print_failure(
        fmt::format("{} not what the model's own pass gave", counted(p.unfaithful, "output")));
  }
  if (!p.every_head_probed()) {
    print_failure(fmt::format("{} heads × positions were probed instead of {}", grouped(p.probes),
                              grouped(p.poisoned * p.model_layers * p.model_heads)));
  }
  print_places(p);
  if (!p.holds()) print_paragraph("(All are counted from 0.)");
}

std::string case_name(const SequentialLine& line) {
  return fmt::format("{} × {}{}", line.rows, line.length, line.on_tiny_model ? "*" : "");
}

void print_costs(const std::vector<SequentialLine>& lines) {
  Table times = {{"", "calls,", "calls,", "time,", "time,", ""},
                 {"rows × n", "by prefix", "at once", "by prefix", "at once", "ratio"}};
  Table memory = {{"", "memory,", "memory,", "score matrices,"},
                  {"rows × n", "by prefix", "at once", "not stored"}};
  for (const SequentialLine& line : lines) {
    const SequentialComparison& s = line.figures;
    times.push_back({case_name(line), grouped(s.sequential.calls), grouped(s.parallel.calls),
                     time_text(s.sequential.seconds), time_text(s.parallel.seconds),
                     fmt::format("{:.1f}×", s.time_ratio())});
    memory.push_back({case_name(line), bytes_text(s.sequential.peak_bytes),
                      bytes_text(s.parallel.peak_bytes), bytes_text(s.score_matrix_bytes)});
  }
  app::print_table(times, Align::right, kIndent);
  print_paragraph("Times under a second are medians of three.");
  app::print_table(memory, Align::right, kIndent);
}

void print_gradients(const std::vector<SequentialLine>& lines) {
  Table table = {{"", "positions", "that", "error of", "error if one", "error of"},
                 {"rows × n", "compared", "differ", "sums", "is missing", "losses"}};
  for (const SequentialLine& line : lines) {
    const SequentialComparison& s = line.figures;
    table.push_back(
        {case_name(line),
         fmt::format("{} of {}", grouped(s.positions_compared), grouped(s.positions)),
         grouped(s.positions_differing), fmt::format("{:.3g}", s.sum_share),
         fmt::format("{:.1e}", s.weakest_position),
         s.holds()
             ? fmt::format("{:.2g}", s.loss_bound > 0.0 ? s.loss_difference() / s.loss_bound : 0.0)
             : "FAILS"});
  }
  app::print_table(table, Align::right, kIndent);
}

void print_sequential(const ProofReport& report) {
  constexpr std::string_view kTitle = "Training prefix by prefix and all at once";
  if (report.without_gradients.empty()) {
    print_section("4", kTitle, report.holds(Section::sequential));
  } else {
    fmt::print("\n4  {}: nothing to compare\n", kTitle);
    return print_paragraph(
        fmt::format("This model cannot be trained: {}.", report.without_gradients));
  }
  const SequentialLine* shown = nullptr;  // the longest on the model itself
  bool tiny = false;
  for (const SequentialLine& line : report.sequential) {
    tiny = tiny || line.on_tiny_model;
    if (shown == nullptr || !line.on_tiny_model) shown = &line;
  }
  if (shown == nullptr) return;
  print_costs(report.sequential);
  print_paragraph("Gradients, and errors relative to what fp32 rounding allows:");
  print_gradients(report.sequential);
  const SequentialComparison& s = shown->figures;
  print_paragraph(fmt::format(
      "{} × {}: {} per position, compared bit for bit with the position's share of the parallel "
      "pass. In the last layer, where positions do not mix, {} sums over positions differ by at "
      "most {:.3g} of what fp32 rounding allows; leaving out one position would cause an error of "
      "{:.1e} times what is allowed{}. All gradients are at most {:.1e} apart; the losses are "
      "{:.5f} "
      "and {:.5f}.",
      shown->rows, shown->length, counted(s.gradients, "gradient"), grouped(s.summed), s.sum_share,
      s.weakest_position,
      s.none_is_lost()
          ? ""
          : ", too little to be noticed among so many: that none is missing is shown by the "
            "smaller batches above, and bit for bit for the positions compared",
      s.gradient_difference, s.sequential_loss, s.parallel_loss));
  if (shown->in_fp32) {
    print_paragraph(
        "This section is computed in fp32, and what has a * on the CPU, because sums of bf16 "
        "numbers "
        "have no useful bound. The sections above are computed as this model runs: in bf16.");
  }
  if (tiny) {
    print_paragraph(
        "* on a tiny model of the same kind: too long for this one, or slow without "
        "--full");
  }
}

// The first fault of a line, in words.
std::string first_fault_of(const EveryInputResult& r) {
  if (r.first_leak) return to_string(*r.first_leak);
  if (r.first_wrong_mask) return to_string(*r.first_wrong_mask) + ": not what the rule says";
  if (r.first_difference) return to_string(*r.first_difference) + ": another formula";
  if (r.first_short_reach) {
    return to_string(*r.first_short_reach) + ": not made from all that its row may see";
  }
  if (r.missing > 0) return "rows of one phase are missing in the other";
  return "formulas that should differ are equal";
}

std::string first_fault_of(const EveryGradientResult& r) {
  if (r.first_leak) {
    return to_string(*r.first_leak) + (r.first_leak->reached < 0 ? ": it should have none" : "");
  }
  if (r.first_difference) return to_string(*r.first_difference) + ": another formula";
  if (r.first_short_reach) {
    return to_string(*r.first_short_reach) + ": not made from all that its row may see";
  }
  if (r.missing > 0) return "rows of one pass are missing in the other";
  return fmt::format("{} has no gradient", r.first_silent);
}

std::string lengths_of(const EveryInputLine& line) {
  return fmt::format("{}{}{}", line.every_length ? "1 to " : "", line.length,
                     line.on_tiny_model ? "*" : "");
}

// Whose kernels, and with which weights. On CUDA bf16 weights need bf16 activations.
std::string kernels_of(const EveryInputLine& line) {
  switch (line.order) {
    case OperationOrder::cuda_fp32: return "CUDA, fp32";
    case OperationOrder::cuda_bf16: return "CUDA, bf16";
    case OperationOrder::cpu: break;
  }
  return line.compute == Compute::fp32 ? "CPU, fp32 or bf16"
                                       : fmt::format("CPU, {}", word_for(line.compute));
}

void print_every_input(const ProofReport& report, int64_t parameters) {
  print_section("5", "For every input", report.holds(Section::every_input));
  Table table = {{"", "", "numbers", "other", "wrong", "wrong"},
                 {"kernels", "lengths", "compared", "formula", "reach", "mask"}};
  int64_t operations = 0;
  bool tiny = false;
  for (const EveryInputLine& line : report.every_input) {
    const EveryInputResult& r = line.figures;
    operations += r.operations;
    tiny = tiny || line.on_tiny_model;
    table.push_back({kernels_of(line), lengths_of(line), grouped(r.numbers),
                     grouped(r.differing + r.missing), grouped(r.forbidden + r.short_reach),
                     grouped(r.wrong_masks)});
  }
  for (const EveryGradientLine& line : report.every_gradient) {
    const EveryGradientResult& r = line.figures;
    operations += r.operations;
    tiny = tiny || line.on_tiny_model;
    table.push_back({"CPU, gradients",
                     fmt::format("{}{}{}", line.every_position ? "1 to " : "", line.length,
                                 line.on_tiny_model ? "*" : ""),
                     grouped(r.numbers), grouped(r.differing + r.missing + r.silent),
                     grouped(r.forbidden + r.short_reach), ""});
  }
  app::print_table(table, Align::right, kIndent);
  if (tiny) {
    print_paragraph(fmt::format(
        "* on a tiny model of the same kind: this one is too much work{}",
        parameters > kMostGradients ? ", and gradients of so many weights too much memory" : ""));
  }
  print_paragraph(fmt::format(
      "The same layers, run on numbers that do not compute but remember how they were made: {} "
      "operations. Where nothing differs, one call and token by token are the same formula: the "
      "same bits for all weights and tokens of these lengths (a NaN counts as one value). int8 and "
      "bf16-dot are forms for inference; their one call is scoring.",
      grouped(operations)));
  if (report.without_gradients.empty()) {
    print_paragraph(
        "Gradients: the loss of a position, or of all up to it, gives every weight the same "
        "formula "
        "in a packed batch as from that prefix alone, with no later position in it. Zeros of rows "
        "without a label are left out: equal numbers (0 and -0 are) where the forward pass and its "
        "slopes are finite.");
  }
  print_paragraph(
      "Assumed: operations of the processor are functions, 128-bit hashes do not collide, and the "
      "kernels do what their models do, which tests compare (but for bf16-dot). On CUDA a step of "
      "the tensor cores or a function such as exp is one operation, cuBLASLt's products have our "
      "bits, as its trials find, and a row that zero times a forbidden value would spoil is "
      "computed again. Not covered: dropout, the optimiser, the choice of tokens; on CUDA "
      "gradients, lists of work, tables of the cache.");
  for (const EveryInputLine& line : report.every_input) {
    if (!line.figures.holds()) {
      return print_paragraph("First fault: " + first_fault_of(line.figures) + ".");
    }
  }
  for (const EveryGradientLine& line : report.every_gradient) {
    if (!line.figures.holds()) {
      return print_paragraph("First fault: " + first_fault_of(line.figures) + ".");
    }
  }
}

std::string verdict(const ProofReport& report) {
  int64_t logits = 0;
  for (const AgreementLine& line : report.agreement) logits += line.figures.logits;
  if (report.holds()) {
    return fmt::format(
        "Proved on this model: one call in training and token by token at inference are the same "
        "function. {} have the same bits, {} nothing{} For all weights and tokens the formulas "
        "are the same, in the lengths of section 5.",
        counted(logits, "logit"),
        report.leaks.layers * report.leaks.heads == 1
            ? "the one head leaks"
            : counted(report.leaks.layers * report.leaks.heads, "head") + " leak",
        report.without_gradients.empty() ? ", and training prefix by prefix gives every position "
                                           "compared the same gradient, bit "
                                           "for bit."
                                         : ".");
  }
  std::string text = "NOT proved on this model. What fails:";
  const auto failed = report.failed();
  for (size_t i = 0; i < failed.size(); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", static_cast<int>(failed[i]) + 1,
                        word_for(failed[i]));
  }
  return text + ".";
}

}  // namespace

void print_report(const ProvedModel& proved, const ProofReport& report) {
  print_head(proved, report);
  print_evidence(proved, report);
  print_agreement(report);
  print_leaks(report);
  print_sequential(report);
  print_every_input(report, proved.model.parameter_count());
  fmt::print("\n{}",
             set_text(fmt::format("{} ({:.0f} s)", verdict(report), proved.seconds), "", ""));
}

}  // namespace tril::app
