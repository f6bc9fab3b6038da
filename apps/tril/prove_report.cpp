#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "prove.h"
#include "units.h"

namespace tril::app {
namespace {

std::string mark(bool holds) { return holds ? "holds" : "FAILS"; }

// Tokens as a person reads them: pieces without the sign for a blank, START by its name.
class Pieces {
 public:
  explicit Pieces(const ProvedModel& proved) : proved_(proved) {}

  std::string operator()(int32_t token) const {
    const auto& tokenizer = proved_.tokenizer;
    if (!tokenizer) return fmt::format("{}", token);
    if (token == tokenizer->start()) return "START";
    if (token == tokenizer->end()) return "END";
    std::string piece = tokenizer->piece(token);
    const std::string blank = "▁";
    if (piece.starts_with(blank) && piece.size() > blank.size()) piece.erase(0, blank.size());
    return escaped(piece);
  }
  // As many as a line has room for.
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

// Of the file the weights came from; the first half of it, which a line has room for.
std::string seal_text(const ProvedModel& proved) {
  const FolderSeal& seal = proved.model.seal();
  return seal.sealed() ? fmt::format("seal {}, the file", seal.identity.substr(0, 16))
                       : "a file that is not sealed";
}

void print_files(const ProvedModel& proved) {
  const auto sealed =
      std::count_if(proved.files.begin(), proved.files.end(),
                    [](const VerifiedFile& file) { return file.state == FileState::sound; });
  fmt::print("{} of {} verified: every byte matches its checksum\n", sealed,
             counted(std::ssize(proved.files), "file"));
}

void print_head(const ProvedModel& proved, const ProofReport& report) {
  const TransformerConfig& c = proved.model.config();
  const std::string layers =
      c.decoder_only() ? counted(c.decoder_layers, "layer")
                       : fmt::format("{} + {} layers", c.encoder_layers, c.decoder_layers);
  fmt::print("{}: {}, {} of {}, {} wide, {}, {}\n", proved.flags.model,
             c.decoder_only() ? "decoder-only" : "encoder–decoder", layers,
             counted(c.heads, "head"), c.model, counted(proved.model.parameter_count(), "weight"),
             counted(c.target_vocab, "token"));
  fmt::print("{}, {}: {}\n{}, {}, {}\n", counted(report.sentences, "sentence"),
             counted(report.positions, "position"), proved.text.origin, cpu_name(),
             to_string(current_target()), counted(proved.threads, "thread"));
  print_files(proved);
  if (proved.flags.unmasked) fmt::print("THE CAUSAL MASK IS OFF.\n");
}

// The rows of the mask as the calls got them, side by side.
void print_mask(const TableEvidence& t, const Pieces& pieces) {
  constexpr size_t kRows = 5;
  const size_t rows = std::min(
      {kRows, t.mask_in_training.size(), t.mask_in_inference.size(), t.fed_in_training.size()});
  const auto row = [&](const std::vector<TableEvidence::Seen>& mask, size_t r, size_t columns) {
    std::string text;
    for (size_t key = 0; key < columns; ++key) {
      const auto at = static_cast<int64_t>(key);
      text += mask[r].begin <= at && at < mask[r].end ? "■ " : "· ";
    }
    return text;
  };
  for (size_t r = 0; r < rows; ++r) {
    const std::string training =
        fmt::format("{:<7} {}", r == 0 ? "call 1" : "", row(t.mask_in_training, r, rows));
    const std::string inference =
        fmt::format("{:<7} {}", fmt::format("call {}", r + 1), row(t.mask_in_inference, r, r + 1));
    // As wide as the table's column, and all pieces below each other.
    fmt::print("     {:<16} {} {} {}\n", r == 0 ? "mask, row by row" : "", pad_right(training, 36),
               pad_right(inference, static_cast<int64_t>(8 + 2 * rows)),
               pieces(t.fed_in_training[r]));
  }
}

// What went in: every cell is decided by figures.
struct FedCells {
  std::string training, inference;
};
FedCells fed_cells(const TableEvidence& t) {
  FedCells cells;
  cells.training =
      t.teacher_forced() ? "yes: it reads what is given" : "NO: it read something else";
  const auto read = static_cast<int64_t>(t.fed_in_inference.size()) - 1;
  if (!t.reads_what_it_wrote()) {
    cells.inference = fmt::format("NO: {} of {} read are its own", t.own_words, read);
  } else if (read == 0) {
    cells.inference = "no: it wrote END at once";
  } else {
    cells.inference = fmt::format("no: {} of {} read are its own", t.own_words, read);
  }
  return cells;
}

void print_table(const ProvedModel& proved, const ProofReport& report) {
  const TableEvidence& t = report.table;
  const Pieces pieces(proved);
  const auto cells = [](std::string_view what, const std::string& training,
                        const std::string& inference) {
    fmt::print("     {:<16} {:<36} {}\n", what, training, inference);
  };
  const auto yes = [](bool is) { return is ? "yes" : "NO"; };
  const size_t n = t.given.size();
  fmt::print("\n1  The same decoder, called in two ways: {}\n", mark(t.holds()));
  cells("", "training", "inference");
  cells("weights", seal_text(proved),
        t.weights_untouched() ? fmt::format("the same {}, unchanged", counted(t.tensors, "tensor"))
                              : "CHANGED on the way");
  cells("1 weight moved",
        fmt::format("{} of {} logits follow", grouped(t.moved_in_training), grouped(t.logits)),
        fmt::format("{} of {} logits follow", grouped(t.moved_in_inference), grouped(t.logits)));
  print_mask(t, pieces);
  cells("mask needed",
        fmt::format("{}: {} of {} rows change without", yes(t.mask_needed_in_training()),
                    t.unmasked_training_rows, n),
        fmt::format("{}: {} of {} in one call (alone: {})", yes(t.mask_needed_in_inference()),
                    t.unmasked_call_rows, n, t.unmasked_step_rows));
  const FedCells fed = fed_cells(t);
  cells("teacher forcing", fed.training, fed.inference);
  fmt::print("     {:<16} {} of {} predicted wrong{}\n", "", t.mistaken, n,
             t.mistaken > 0 ? fmt::format(", {} of these then fed", t.followed) : "");
  fmt::print("     {:<16} training:  {}\n", "input tokens", pieces(t.fed_in_training));
  fmt::print("     {:<16} inference: {}\n", "", pieces(t.fed_in_inference));
  cells("forward() calls", grouped(t.training_calls), grouped(t.inference_calls));
  cells("rows in a call",
        fmt::format("{}{}", t.training_rows, t.one_call() ? ": all positions in parallel" : ""),
        fmt::format("{}{}", t.inference_rows / std::max<int64_t>(1, t.inference_calls),
                    t.call_a_token() ? ": one position after another" : ""));
  const bool steps = t.call_a_token() && t.reads_what_it_wrote() && t.unmasked_step_rows == 0;
  cells("autoregressive", report.leaks.holds() ? "in function: see 3" : "NO: see 3",
        steps ? "in function and in computation" : "NO");
  const auto fails = [](bool holds, const char* why) {
    if (!holds) fmt::print("     FAILS: {}\n", why);
  };
  fails(t.same_weights(), "the two ways do not read the same weights");
  fails(t.same_mask(), "the rows of training do not see the keys that those of inference see");
  fails(t.mask_needed(), "without the mask nothing changes");
  fails(t.teacher_forced(), "training did not read the given tokens");
  fails(t.reads_what_it_wrote(), "inference did not read what it wrote");
  fails(t.calls_as_stated(), "forward() was not called once, and not once a token");
}

std::string name_of(const AgreementLine& line) {
  return fmt::format("{}{}, {}", word_for(line.writing), line.without_end ? ", no END" : "",
                     word_for(line.company));
}

void print_agreement(const ProofReport& report) {
  fmt::print("\n2  Parallel against stepwise, bit for bit: {}\n",
             mark(report.holds(Section::agreement)));
  fmt::print("     {:<27} {:>9} {:>9} {:>9} {:>11} {:>9}\n", "(parallel, stepwise: calls)",
             "sequences", "parallel", "stepwise", "logits", "differing");
  int64_t forked = 0, moved = 0, values = 0, differing = 0;
  for (const AgreementLine& line : report.agreement) {
    const Agreement& a = line.figures;
    forked += a.forked;
    moved += a.moved;
    values += a.source_values;
    differing += a.source_differing;
    fmt::print("     {:<27} {:>9} {:>9} {:>9} {:>11} {:>9}\n", name_of(line), a.sequences,
               a.parallel_calls, a.stepwise_calls, grouped(a.logits), grouped(a.differing));
  }
  if (values > 0) {
    fmt::print("     What the encoder leaves for the decoder: {}, {} differing.\n",
               counted(values, "number"), grouped(differing));
  }
  fmt::print(
      "     {} times a hypothesis went on in a copy of another's cache, {} times while others\n"
      "     held other histories. The longest target has {}.\n",
      grouped(forked), grouped(moved), counted(report.longest, "position"));
  for (const AgreementLine& line : report.agreement) {
    const Agreement& a = line.figures;
    if (line.holds()) continue;
    if (a.first) {
      fmt::print("     FAILS first at position {} of sequence {} (from 0): {}.\n",
                 a.first->position, a.first->sequence, name_of(line));
    } else if (a.same()) {
      fmt::print("     FAILS: no hypothesis took over the cache of one of several: {}.\n",
                 name_of(line));
    } else {
      fmt::print(
          "     FAILS: {} of the encoder's numbers differ, {} read not what was chosen: {}.\n",
          grouped(a.source_differing), counted(a.misread, "row"), name_of(line));
    }
    break;
  }
}

// Where it leaks, and where it does not see.
void print_places(const LeakProbe& p) {
  constexpr size_t kShown = 4;
  if (p.first_wrong_mask) {
    const WrongMask& wrong = *p.first_wrong_mask;
    fmt::print(
        "     FAILS: in layer {} position {} of sentence {} is given keys {} to {}, not {} to "
        "{}.\n",
        wrong.layer, wrong.row.position, wrong.row.sentence, wrong.begin, wrong.end - 1,
        wrong.rule_begin, wrong.rule_end - 1);
  }
  const bool everywhere =
      static_cast<int64_t>(p.heads_leaking.size()) == p.model_layers * p.model_heads;
  if (p.first_future) {
    fmt::print("     LEAK: position {} is the first to see the future, position {}{}.\n",
               p.first_future->row.position, p.first_future->key.position,
               everywhere ? ", in every head of every layer" : "");
  }
  for (size_t i = 0; !everywhere && i < std::min(p.heads_leaking.size(), kShown); ++i) {
    const HeadLeak& leak = p.heads_leaking[i];
    fmt::print("     LEAK in layer {}, head {}: position {} of sentence {} sees {}\n", leak.layer,
               leak.head, leak.row.position, leak.row.sentence,
               leak.key.sentence == leak.row.sentence
                   ? fmt::format("position {}", leak.key.position)
                   : fmt::format("sentence {}", leak.key.sentence));
  }
  if (!everywhere && p.heads_leaking.size() > kShown) {
    fmt::print("     and in {} more\n",
               counted(static_cast<int64_t>(p.heads_leaking.size() - kShown), "head"));
  }
  for (size_t i = 0; i < std::min(p.heads_blind.size(), kShown); ++i) {
    const BlindHead& blind = p.heads_blind[i];
    fmt::print("     BLIND in layer {}, head {}: position {} of sentence {} does not see {}\n",
               blind.layer, blind.head, blind.row.position, blind.row.sentence, blind.key.position);
  }
  if (p.heads_leaking.empty() && p.end_to_end) {
    fmt::print("     LEAK outside the attention: position {} sees position {}\n",
               p.end_to_end->row.position, p.end_to_end->key.position);
  }
}

void print_leaks(const ProofReport& report) {
  const LeakProbe& p = report.leaks;
  fmt::print("\n3  What a row may not see does not reach it: {}\n", mark(p.holds()));
  fmt::print(
      "     The mask in use, row by row in every layer: {} of {} rows are as the rule has it.\n",
      grouped(p.mask_rows - p.mask_wrong), grouped(p.mask_rows));
  fmt::print(
      "     {} of {} × {} × {} ({:.0f}%) poisoned: a number, NaN, +inf, -inf.\n"
      "     {} outputs and query gradients of rows that may not see them: {}.\n"
      "     The control: of {} heads of rows that may see a key, NaN reached {}.\n",
      grouped(p.poisoned), counted(p.positions, "position"), counted(p.layers, "layer"),
      counted(p.heads, "head"), 100.0 * p.coverage(), grouped(p.values),
      p.heads_leaking.empty()
          ? "no head leaks"
          : fmt::format("{} LEAK{}", counted(static_cast<int64_t>(p.heads_leaking.size()), "head"),
                        p.heads_leaking.size() == 1 ? "S" : ""),
      grouped(p.controls), grouped(p.controls - p.controls_missed));
  fmt::print(
      "     {} poisoned before the first layer: {} hidden values they may not\n"
      "     reach, {}. Of {} that may see them, NaN reached {}.\n",
      counted(p.tokens_poisoned, "token"), grouped(p.hidden_values),
      p.end_to_end ? "some CHANGED" : "none changed", counted(p.hidden_controls, "row"),
      grouped(p.hidden_controls - p.hidden_unreached));
  if (p.unfaithful > 0) {
    fmt::print("     FAILS: {} not what the model's own pass gave\n",
               counted(p.unfaithful, "output"));
  }
  if (!p.every_head_probed()) {
    fmt::print("     FAILS: {} heads × positions were probed, not {}\n", grouped(p.probes),
               grouped(p.poisoned * p.model_layers * p.model_heads));
  }
  print_places(p);
  if (!p.holds()) fmt::print("     (All are counted from 0.)\n");
}

std::string case_name(const SequentialLine& line) {
  // fmt counts × as one column, as terminals do.
  return fmt::format("{} × {}{}", line.rows, line.length, line.on_tiny_model ? "*" : "");
}

void print_costs(const std::vector<SequentialLine>& lines) {
  const auto row = [](auto... cells) {
    fmt::print("     {:<11}{:>7}{:>5}{:>9}{:>9}{:>8}{:>11}{:>10}{:>10}\n", cells...);
  };
  row("", "calls", "", "time", "", "", "memory", "", "unkept");
  row("rows × n ", "prefix", "all", "prefix", "all", "ratio", "prefix", "all", "scores");
  for (const SequentialLine& line : lines) {
    const SequentialComparison& s = line.figures;
    row(case_name(line), grouped(s.sequential.calls), grouped(s.parallel.calls),
        time_text(s.sequential.seconds), time_text(s.parallel.seconds),
        fmt::format("{:.1f}×", s.time_ratio()), bytes_text(s.sequential.peak_bytes),
        bytes_text(s.parallel.peak_bytes), bytes_text(s.score_matrix_bytes));
  }
}

void print_gradients(const std::vector<SequentialLine>& lines) {
  const auto row = [](auto... cells) {
    fmt::print("     {:<11}{:>12}{:>11}{:>12}{:>13}{:>17}\n", cells...);
  };
  row("gradients", "positions", "with other", "sums, of", "a position", "losses apart,");
  row("rows × n ", "compared", "bits", "the bound", "lost, of it", "of the bound");
  for (const SequentialLine& line : lines) {
    const SequentialComparison& s = line.figures;
    row(case_name(line), fmt::format("{} of {}", s.positions_compared, grouped(s.positions)),
        grouped(s.positions_differing), fmt::format("{:.3g}", s.sum_share),
        fmt::format("{:.1e}", s.weakest_position),
        s.holds()
            ? fmt::format("{:.2g}", s.loss_bound > 0.0 ? s.loss_difference() / s.loss_bound : 0.0)
            : "FAILS");
  }
}

void print_sequential(const ProofReport& report) {
  fmt::print("\n4  Training prefix by prefix against all at once: {}\n",
             mark(report.holds(Section::sequential)));
  const SequentialLine* shown = nullptr;  // the longest on the model itself
  bool tiny = false;
  for (const SequentialLine& line : report.sequential) {
    tiny = tiny || line.on_tiny_model;
    if (shown == nullptr || !line.on_tiny_model) shown = &line;
  }
  if (shown == nullptr) return;
  print_costs(report.sequential);
  fmt::print("     Unkept: every head's n × n scores. Times: medians of three up to a second.\n");
  print_gradients(report.sequential);
  const SequentialComparison& s = shown->figures;
  fmt::print(
      "     {} × {}: {} a position, compared bit for bit with those it brings\n"
      "     to the parallel pass. Where rows do not meet, {} sums over positions are off\n"
      "     by at most {:.3g} of what fp32 may round; a lost position would be {:.1e} times that.\n"
      "     All gradients are at most {:.1e} apart, the losses are {:.5f} and {:.5f}.\n",
      shown->rows, shown->length, counted(s.gradients, "gradient"), grouped(s.summed), s.sum_share,
      s.weakest_position, s.gradient_difference, s.sequential_loss, s.parallel_loss);
  if (shown->in_fp32) {
    fmt::print(
        "     All of this section is computed in fp32, what has a * on the CPU: sums of bf16 "
        "numbers\n"
        "     have no bound to hold them to. The sections above are computed as this model is: in "
        "bf16.\n");
  }
  if (tiny) {
    fmt::print(
        "     * on a tiny model of the same kind: too long for this one, or slow without --full\n");
  }
}

std::string verdict(const ProofReport& report) {
  int64_t logits = 0;
  for (const AgreementLine& line : report.agreement) logits += line.figures.logits;
  if (report.holds()) {
    return fmt::format(
        "Proved on this model: one call in training and token by token in inference are\n"
        "the same function. {} have the same bits, {} nothing, and training\n"
        "prefix by prefix gives every position compared the same gradient, bit for bit",
        counted(logits, "logit"),
        report.leaks.layers * report.leaks.heads == 1
            ? "the one head leaks"
            : counted(report.leaks.layers * report.leaks.heads, "head") + " leak");
  }
  std::string text = "NOT proved on this model. What fails:";
  const auto failed = report.failed();
  for (size_t i = 0; i < failed.size(); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", static_cast<int>(failed[i]) + 1,
                        word_for(failed[i]));
  }
  return text;
}

}  // namespace

void print_report(const ProvedModel& proved, const ProofReport& report) {
  print_head(proved, report);
  print_table(proved, report);
  print_agreement(report);
  print_leaks(report);
  print_sequential(report);
  fmt::print("\n{}. ({:.0f} s)\n", verdict(report), proved.seconds);
}

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const TokenPlace& place) {
  return {{"sentence", place.sentence}, {"position", place.position}};
}

Json json_of(const ProvedModel& proved, const TableEvidence& t) {
  const auto mask = [](const std::vector<TableEvidence::Seen>& rows) {
    Json list = Json::array();
    for (const auto& row : rows) list.push_back({row.begin, row.end});
    return list;
  };
  return {
      {"holds", t.holds()},
      {"weights",
       {{"seal", proved.model.seal().identity},
        {"memory_fnv1a_before", fmt::format("{:016x}", t.weights_before)},
        {"memory_fnv1a_after", fmt::format("{:016x}", t.weights_after)},
        {"tensors", t.tensors},
        {"nudged", t.nudged},
        {"logits", t.logits},
        {"moved_in_training", t.moved_in_training},
        {"moved_in_inference", t.moved_in_inference}}},
      {"mask", {{"training", mask(t.mask_in_training)}, {"inference", mask(t.mask_in_inference)}}},
      {"rows_changed_without_mask",
       {{"training", t.unmasked_training_rows},
        {"inference_in_one_call", t.unmasked_call_rows},
        {"inference_token_by_token", t.unmasked_step_rows}}},
      {"given", t.given},
      {"fed", {{"training", t.fed_in_training}, {"inference", t.fed_in_inference}}},
      {"predicted",
       {{"training", t.predicted_in_training}, {"inference", t.predicted_in_inference}}},
      {"mistaken", t.mistaken},
      {"mistakes_fed", t.followed},
      {"own_words", t.own_words},
      {"calls", {{"training", t.training_calls}, {"inference", t.inference_calls}}},
      {"rows", {{"training", t.training_rows}, {"inference", t.inference_rows}}}};
}

Json json_of(const LeakProbe& p) {
  Json leaks = Json::array();
  for (const HeadLeak& leak : p.heads_leaking) {
    leaks.push_back({{"layer", leak.layer},
                     {"head", leak.head},
                     {"row", json_of(leak.row)},
                     {"sees", json_of(leak.key)},
                     {"by", word_for(leak.poison)},
                     {"in", leak.where == HeadLeak::Where::output ? "output" : "query gradient"}});
  }
  Json object = {{"holds", p.holds()},
                 {"positions", p.positions},
                 {"poisoned", p.poisoned},
                 {"layers", p.layers},
                 {"heads", p.heads},
                 {"probes", p.probes},
                 {"coverage", p.coverage()},
                 {"mask", {{"rows", p.mask_rows}, {"wrong", p.mask_wrong}}},
                 {"controls", {{"heads", p.controls}, {"missed", p.controls_missed}}},
                 {"forbidden_pairs", p.forbidden_pairs},
                 {"values", p.values},
                 {"unfaithful", p.unfaithful},
                 {"leaks", leaks},
                 {"end_to_end",
                  {{"tokens", p.tokens_poisoned},
                   {"passes", p.passes},
                   {"values", p.hidden_values},
                   {"controls", p.hidden_controls},
                   {"missed", p.hidden_unreached}}}};
  if (!p.heads_blind.empty()) {
    Json blind = Json::array();
    for (const BlindHead& head : p.heads_blind) {
      blind.push_back({{"layer", head.layer},
                       {"head", head.head},
                       {"row", json_of(head.row)},
                       {"does_not_see", json_of(head.key)}});
    }
    object["blind"] = blind;
  }
  if (const auto first = p.first_future) {
    object["first_to_see_the_future"] = {{"row", json_of(first->row)},
                                         {"sees", json_of(first->key)},
                                         {"layer", first->layer},
                                         {"head", first->head}};
  }
  if (p.end_to_end) {
    object["end_to_end"]["leak"] = {{"row", json_of(p.end_to_end->row)},
                                    {"sees", json_of(p.end_to_end->key)}};
  }
  return object;
}

Json json_of(const SequentialLine& line) {
  const SequentialComparison& s = line.figures;
  const auto cost = [](const SequentialComparison::Cost& c) {
    return Json{
        {"calls", c.calls}, {"rows", c.rows}, {"seconds", c.seconds}, {"peak_bytes", c.peak_bytes}};
  };
  return {{"holds", s.holds()},
          {"rows", line.rows},
          {"length", line.length},
          {"tiny_model", line.on_tiny_model},
          {"in_fp32", line.in_fp32},
          {"sequential", cost(s.sequential)},
          {"parallel", cost(s.parallel)},
          {"time_ratio", s.time_ratio()},
          {"score_matrix_bytes", s.score_matrix_bytes},
          {"loss",
           {{"sequential", s.sequential_loss},
            {"parallel", s.parallel_loss},
            {"difference", s.loss_difference()},
            {"bound", s.loss_bound}}},
          {"positions",
           {{"compared", s.positions_compared},
            {"differing", s.positions_differing},
            {"elements", s.gradients_compared}}},
          {"sums",
           {{"elements", s.summed},
            {"share_of_bound", s.sum_share},
            {"in", s.sum_parameter},
            {"weakest_position", s.weakest_position},
            {"silent_positions", s.silent_positions}}},
          {"gradient",
           {{"elements", s.gradients},
            {"difference", s.gradient_difference},
            {"in", s.worst_parameter},
            {"bound", s.gradient_bound},
            {"path_terms", s.path_terms}}}};
}

}  // namespace

void print_json(const ProvedModel& proved, const ProofReport& report) {
  Json agreement = Json::array();
  for (const AgreementLine& line : report.agreement) {
    const Agreement& a = line.figures;
    agreement.push_back({{"writing", word_for(line.writing)},
                         {"company", word_for(line.company)},
                         {"without_end", line.without_end},
                         {"sequences", a.sequences},
                         {"positions", a.positions},
                         {"parallel_calls", a.parallel_calls},
                         {"stepwise_calls", a.stepwise_calls},
                         {"logits", a.logits},
                         {"differing", a.differing},
                         {"source_values", a.source_values},
                         {"source_differing", a.source_differing},
                         {"forked", a.forked},
                         {"moved", a.moved},
                         {"misread", a.misread}});
    if (a.first) {
      agreement.back()["first"] = {{"sequence", a.first->sequence},
                                   {"position", a.first->position}};
    }
  }
  Json sequential = Json::array();
  for (const SequentialLine& line : report.sequential) sequential.push_back(json_of(line));
  Json failed = Json::array();
  for (const Section section : report.failed()) failed.push_back(word_for(section));
  const Json document = {
      {"model", proved.flags.model},
      {"masked", !proved.flags.unmasked},
      {"text", proved.text.origin},
      {"sentences", report.sentences},
      {"positions", report.positions},
      {"holds", report.holds()},
      {"failed", failed},
      {"table", json_of(proved, report.table)},
      {"agreement",
       {{"holds", report.holds(Section::agreement)},
        {"longest", report.longest},
        {"ways", agreement}}},
      {"leaks", json_of(report.leaks)},
      {"sequential", {{"holds", report.holds(Section::sequential)}, {"cases", sequential}}},
      {"machine", cpu_name()},
      {"target", to_string(current_target())},
      {"threads", proved.threads},
      {"seconds", proved.seconds}};
  fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace tril::app
