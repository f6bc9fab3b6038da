#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "prove.h"

namespace tril::app {
namespace {

// 1234567 -> "1,234,567".
std::string grouped(int64_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 1.0) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.1f} s", seconds);
}

std::string bytes_text(int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size < 1024.0 * 1024.0) return fmt::format("{:.1f} KiB", size / 1024.0);
  return fmt::format("{:.1f} MiB", size / (1024.0 * 1024.0));
}

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
    return piece;
  }
  std::string operator()(const std::vector<int32_t>& tokens) const {
    std::string text;
    for (size_t i = 0; i < tokens.size() && i < kShown; ++i) {
      if (i > 0) text += ' ';
      text += (*this)(tokens[i]);
    }
    return tokens.size() > kShown ? text + " …" : text;
  }

  static constexpr size_t kShown = 10;

 private:
  const ProvedModel& proved_;
};

void print_head(const ProvedModel& proved, const ProofReport& report) {
  const TransformerConfig& c = proved.model.config();
  fmt::print("{}: {}, {} wide, {} heads, {} layers, {} tokens, {} weights\n", proved.flags.model,
             c.decoder_only() ? "decoder-only" : "encoder–decoder", c.model, c.heads,
             c.decoder_only() ? fmt::format("{}", c.decoder_layers)
                              : fmt::format("{} + {}", c.encoder_layers, c.decoder_layers),
             grouped(c.target_vocab), grouped(proved.model.parameter_count()));
  fmt::print("{} sentences, {} positions: {}. {}, {}, {} threads.\n", report.sentences,
             report.positions, proved.text.origin, cpu_name(), to_string(current_target()),
             proved.threads);
  if (proved.flags.unmasked) fmt::print("THE CAUSAL MASK IS OFF.\n");
}

// The rows of the mask as the calls got them, side by side.
void print_mask(const TableEvidence& t, const Pieces& pieces) {
  constexpr size_t kRows = 5;
  const size_t rows = std::min(kRows, t.mask_in_training.size());
  const auto row = [&](const std::vector<TableEvidence::Seen>& mask, size_t r, size_t columns) {
    std::string text;
    for (size_t key = 0; key < columns; ++key) {
      const auto at = static_cast<int64_t>(key);
      text += mask[r].begin <= at && at < mask[r].end ? "■ " : "· ";
    }
    return text;
  };
  for (size_t r = 0; r < rows; ++r) {
    fmt::print("     {:<16} {:<8} {}         {:<8} {}{:{}}{}\n", r == 0 ? "mask, row by row" : "",
               r == 0 ? "call 1" : "", row(t.mask_in_training, r, rows),
               fmt::format("call {}", r + 1), row(t.mask_in_inference, r, r + 1), "",
               2 * (rows - r), pieces(t.fed_in_training[r]));
  }
}

void print_table(const ProvedModel& proved, const ProofReport& report) {
  const TableEvidence& t = report.table;
  const Pieces pieces(proved);
  const auto cells = [](std::string_view what, const std::string& training,
                        const std::string& inference) {
    fmt::print("     {:<16} {:<36} {}\n", what, training, inference);
  };
  const size_t n = t.fed_in_training.size();
  fmt::print("\n1  The same decoder, called in two ways: {}\n", mark(t.holds()));
  cells("", "training", "inference");
  cells("weights", fmt::format("FNV-1a {:016x}, the file", proved.weights),
        fmt::format("the same: {} tensors, untouched", t.tensors));
  cells("1 weight moved",
        fmt::format("{} of {} logits follow", grouped(t.moved_in_training), grouped(t.logits)),
        fmt::format("{} of {} logits follow", grouped(t.moved_in_inference), grouped(t.logits)));
  print_mask(t, pieces);
  cells("mask needed",
        fmt::format("yes: {} of {} rows change without", t.unmasked_training_rows, n),
        fmt::format("yes: {} of {} in one call (alone: {})", t.unmasked_call_rows, n,
                    t.unmasked_step_rows));
  cells("teacher forcing", fmt::format("yes: {} of {} predictions were wrong", t.mistaken, n),
        "no: what it wrote is what it reads");
  fmt::print("     {:<16} training:  {}\n", "input tokens", pieces(t.fed_in_training));
  fmt::print("     {:<16} inference: {}\n", "", pieces(t.fed_in_inference));
  cells("forward() calls", grouped(t.training_calls), grouped(t.inference_calls));
  cells("rows in a call", fmt::format("{}: all positions in parallel", t.training_rows),
        fmt::format("{}: one position after another",
                    t.inference_rows / std::max<int64_t>(1, t.inference_calls)));
  const bool causal = report.leaks.holds();
  cells("autoregressive", causal ? "in function: see 3" : "NO: see 3",
        "in function and in computation");
  const auto fails = [](bool holds, const char* why) {
    if (!holds) fmt::print("     FAILS: {}\n", why);
  };
  fails(t.same_weights(), "the two ways do not read the same weights");
  fails(t.same_mask(), "the rows of training do not see the keys that those of inference see");
  fails(t.mask_needed(), "without the mask nothing changes");
  fails(t.calls_as_stated(), "forward() was not called once, and not once a token");
}

void print_agreement(const ProofReport& report) {
  const auto name = [](const AgreementLine& line) {
    return fmt::format("{}, {}", Words<Writing>::kList[static_cast<size_t>(line.writing)],
                       Words<Company>::kList[static_cast<size_t>(line.company)]);
  };
  fmt::print("\n2  Parallel against stepwise, bit for bit: {}\n",
             mark(report.holds(Section::agreement)));
  fmt::print("     {:<28} {:>9} {:>9} {:>9} {:>13} {:>10}\n", "", "sequences", "parallel",
             "stepwise", "logits", "differing");
  fmt::print("     {:<28} {:>9} {:>9} {:>9}\n", "", "", "calls", "calls");
  int64_t moved = 0;
  for (const AgreementLine& line : report.agreement) {
    const Agreement& a = line.figures;
    moved += a.moved;
    fmt::print("     {:<28} {:>9} {:>9} {:>9} {:>13} {:>10}\n", name(line), a.sequences,
               a.parallel_calls, a.stepwise_calls, grouped(a.logits), grouped(a.differing));
  }
  fmt::print(
      "     Hypotheses changed places in the cache {} times; the longest target has {} "
      "positions.\n",
      moved, report.longest);
  for (const AgreementLine& line : report.agreement) {
    if (!line.figures.first) continue;
    fmt::print("     FAILS first at position {} of sequence {} (from 0): {}.\n",
               line.figures.first->position, line.figures.first->sequence, name(line));
    break;
  }
}

void print_leaks(const ProofReport& report) {
  const LeakProbe& p = report.leaks;
  fmt::print("\n3  What a row may not see does not reach it: {}\n", mark(p.holds()));
  fmt::print(
      "     {} of {} positions × {} layers × {} heads ({:.0f}%) poisoned: a number, NaN, +inf, "
      "-inf.\n"
      "     {} outputs and query gradients of rows that may not see them: {} heads leak.\n"
      "     {} tokens poisoned before the first layer: {} hidden values they may not reach, {}.\n",
      p.poisoned, p.positions, p.layers, p.heads, 100.0 * p.coverage(), grouped(p.values),
      p.heads_leaking.size(), p.tokens_poisoned, grouped(p.hidden_values),
      p.end_to_end ? "CHANGED" : "0 changed");
  if (p.unfaithful > 0) {
    fmt::print("     FAILS: {} outputs are not what the model's own pass gave\n",
               grouped(p.unfaithful));
  }
  const bool everywhere = static_cast<int64_t>(p.heads_leaking.size()) == p.layers * p.heads;
  if (const auto first = p.first_future) {
    fmt::print("     LEAK: position {} is the first to see the future, position {}{}.\n",
               first->row.position, first->key.position,
               everywhere ? ", in every head of every layer" : "");
  }
  constexpr size_t kShown = 4;
  for (size_t i = 0; !everywhere && i < std::min(p.heads_leaking.size(), kShown); ++i) {
    const HeadLeak& leak = p.heads_leaking[i];
    fmt::print("     LEAK in layer {}, head {}: position {} of sentence {} sees {}\n", leak.layer,
               leak.head, leak.row.position, leak.row.sentence,
               leak.key.sentence == leak.row.sentence
                   ? fmt::format("position {}", leak.key.position)
                   : fmt::format("sentence {}", leak.key.sentence));
  }
  if (!everywhere && p.heads_leaking.size() > kShown) {
    fmt::print("     and in {} heads more\n", p.heads_leaking.size() - kShown);
  }
  if (p.heads_leaking.empty() && p.end_to_end) {
    fmt::print("     LEAK outside the attention: position {} sees position {}\n",
               p.end_to_end->row.position, p.end_to_end->key.position);
  }
  if (!p.holds()) fmt::print("     (All are counted from 0.)\n");
}

void print_sequential(const ProofReport& report) {
  fmt::print("\n4  Training prefix by prefix against all at once: {}\n",
             mark(report.holds(Section::sequential)));
  const auto row = [](auto... cells) {
    fmt::print("     {:<11}{:>8}{:>6} {:>9}{:>9} {:>7} {:>10}{:>10} {:>10} {:>9}\n", cells...);
  };
  row("", "forward()", "", "time", "", "", "memory", "", "unkept", "apart, of");
  row("rows × n ", "prefix", "all", "prefix", "all", "ratio", "prefix", "all", "scores",
      "the bound");
  const SequentialLine* shown = nullptr;  // the longest on the model itself
  bool tiny = false;
  for (const SequentialLine& line : report.sequential) {
    const SequentialComparison& s = line.figures;
    tiny = tiny || line.on_tiny_model;
    if (shown == nullptr || !line.on_tiny_model) shown = &line;
    // fmt counts × as one column, as terminals do.
    row(fmt::format("{} × {}{}", line.rows, line.length, line.on_tiny_model ? "*" : ""),
        grouped(s.sequential.calls), grouped(s.parallel.calls), time_text(s.sequential.seconds),
        time_text(s.parallel.seconds), fmt::format("{:.1f}×", s.time_ratio()),
        bytes_text(s.sequential.peak_bytes), bytes_text(s.parallel.peak_bytes),
        bytes_text(s.score_matrix_bytes),
        s.holds() ? fmt::format("{:.1g}%", 100.0 * s.share()) : "FAILS");
  }
  if (shown == nullptr) return;
  const SequentialComparison& s = shown->figures;
  fmt::print(
      "     {} × {}: losses {:.5f} and {:.5f}, {:.1e} apart (bound {:.1e}); {} gradients,\n"
      "     at most {:.1e} apart (bound {:.1e}: fp32 rounds a term at most {} times on its way "
      "back).\n"
      "     One position lost would be {:.1f} times the bound: {}.\n"
      "     Unkept: every head's n × n scores.\n",
      shown->rows, shown->length, s.sequential_loss, s.parallel_loss, s.loss_difference(),
      s.loss_bound, grouped(s.gradients), s.gradient_difference, s.gradient_bound,
      grouped(s.path_terms), s.weakest_position,
      s.weakest_position > 1.0 ? "it would be seen"
                               : "gradients alone would not show it, sections 2 and 3 would");
  if (tiny) {
    fmt::print(
        "     * on a tiny model of the same kind: too long for this one, or too slow without "
        "--full\n");
  }
}

std::string verdict(const ProofReport& report) {
  int64_t logits = 0;
  for (const AgreementLine& line : report.agreement) logits += line.figures.logits;
  if (report.holds()) {
    return fmt::format(
        "Proved on this model: one call in training and token by token in inference are the same\n"
        "function. {} logits have the same bits, {} heads leak nothing, and training prefix by "
        "prefix\n"
        "gives the same gradients within what fp32 rounds",
        grouped(logits), report.leaks.layers * report.leaks.heads);
  }
  std::string text = "NOT proved on this model. What fails:";
  const auto failed = report.failed();
  for (size_t i = 0; i < failed.size(); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", static_cast<int>(failed[i]) + 1,
                        Words<Section>::kList[static_cast<size_t>(failed[i])]);
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
       {{"file_fnv1a", fmt::format("{:016x}", proved.weights)},
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
      {"fed", {{"training", t.fed_in_training}, {"inference", t.fed_in_inference}}},
      {"predicted_in_training", t.predicted_in_training},
      {"predictions_corrected", t.mistaken},
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
                     {"by", Words<Poison>::kList[static_cast<size_t>(leak.poison)]},
                     {"in", leak.where == HeadLeak::Where::output ? "output" : "query gradient"}});
  }
  Json object = {
      {"holds", p.holds()},
      {"positions", p.positions},
      {"poisoned", p.poisoned},
      {"layers", p.layers},
      {"heads", p.heads},
      {"coverage", p.coverage()},
      {"forbidden_pairs", p.forbidden_pairs},
      {"values", p.values},
      {"unfaithful", p.unfaithful},
      {"leaks", leaks},
      {"end_to_end",
       {{"tokens", p.tokens_poisoned}, {"passes", p.passes}, {"values", p.hidden_values}}}};
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
          {"sequential", cost(s.sequential)},
          {"parallel", cost(s.parallel)},
          {"time_ratio", s.time_ratio()},
          {"score_matrix_bytes", s.score_matrix_bytes},
          {"loss",
           {{"sequential", s.sequential_loss},
            {"parallel", s.parallel_loss},
            {"difference", s.loss_difference()},
            {"bound", s.loss_bound}}},
          {"gradient",
           {{"elements", s.gradients},
            {"difference", s.gradient_difference},
            {"in", s.worst_parameter},
            {"bound", s.gradient_bound},
            {"path_terms", s.path_terms},
            {"weakest_position", s.weakest_position},
}}};
}

}  // namespace

void print_json(const ProvedModel& proved, const ProofReport& report) {
  Json agreement = Json::array();
  for (const AgreementLine& line : report.agreement) {
    const Agreement& a = line.figures;
    agreement.push_back({{"writing", Words<Writing>::kList[static_cast<size_t>(line.writing)]},
                         {"company", Words<Company>::kList[static_cast<size_t>(line.company)]},
                         {"sequences", a.sequences},
                         {"positions", a.positions},
                         {"parallel_calls", a.parallel_calls},
                         {"stepwise_calls", a.stepwise_calls},
                         {"logits", a.logits},
                         {"differing", a.differing},
                         {"moved", a.moved}});
    if (a.first) {
      agreement.back()["first"] = {{"sequence", a.first->sequence},
                                   {"position", a.first->position}};
    }
  }
  Json sequential = Json::array();
  for (const SequentialLine& line : report.sequential) sequential.push_back(json_of(line));
  Json failed = Json::array();
  for (const Section section : report.failed())
    failed.push_back(Words<Section>::kList[static_cast<size_t>(section)]);
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
