#include <fmt/core.h>

#include <chrono>

#include "lesson.h"
#include "progress.h"
#include "units.h"

namespace tril::app {
namespace {

std::string name_of(const SequentialRow& row) {
  return row.rows == 1 ? fmt::format("{} words", row.words)
                       : fmt::format("{} rows × {} words", row.rows, row.words);
}

using Table = std::vector<std::vector<std::string>>;

void print_calls(const SequentialLesson& l) {
  print_heading("1  Calls of forward(), counted, and time for one step of training:");
  Table table = {{"target", "sequential", "parallel", "sequential", "parallel", "ratio"}};
  for (const SequentialRow& row : l.rows) {
    const SequentialComparison& f = row.figures;
    table.push_back({name_of(row), fmt::format("{} calls", f.sequential.calls),
                     fmt::format("{} call", f.parallel.calls), time_text(f.sequential.seconds),
                     time_text(f.parallel.seconds), fmt::format("{:.0f} : 1", f.time_ratio())});
  }
  print_table(table, Align::right);
  fmt::print(
      "  A call for each word and one for END: START goes in before the words, END comes out\n"
      "  behind them and never goes in. So 300 words take 301 calls and have 301 positions.\n"
      "  Each call reads its prefix again from the beginning: {} rows for\n"
      "  {}, where parallel training reads {}.\n",
      l.rows.back().figures.sequential.rows, name_of(l.rows.back()),
      l.rows.back().figures.parallel.rows);
}

void print_pie(const SequentialLesson& l) {
  print_heading("2  Instead of the pie of 25% and 75%: shares of the time of both, measured:");
  Table table = {{"target", "parallel", "sequential"}};
  for (const SequentialRow& row : l.rows) {
    table.push_back({name_of(row), fmt::format("{:.1f}%", 100.0 * row.parallel_share()),
                     fmt::format("{:.1f}%", 100.0 * (1.0 - row.parallel_share()))});
  }
  print_table(table, Align::right);
  fmt::print("  There is no one figure: it depends on the length.\n");
}

void print_memory(const SequentialLesson& l) {
  print_heading(
      "3  Memory of a step at its peak, measured. Beside it what the matrices of scores would\n"
      "   take, had they been kept: heads × layers × n² × 4 bytes, a formula.");
  Table table = {{"target", "sequential", "parallel", "score matrices"}};
  for (const SequentialRow& row : l.rows) {
    const SequentialComparison& f = row.figures;
    table.push_back({name_of(row), bytes_text(f.sequential.peak_bytes),
                     bytes_text(f.parallel.peak_bytes), bytes_text(f.score_matrix_bytes)});
  }
  for (const LongTarget& each : l.long_targets) {
    table.push_back({fmt::format("{} words", each.words), "", bytes_text(each.peak_bytes),
                     bytes_text(each.score_matrix_bytes)});
  }
  print_table(table, Align::right);
  fmt::print(
      "  From {} to {} words, {:.2f} times as long: {:.2f} times the memory, where score matrices\n"
      "  grow {:.2f} times, with the square. This model has {} layers of {} heads. In a base\n"
      "  model, 6 layers of 8, those of {} would take {}.\n",
      l.long_targets.front().words, l.long_targets.back().words, l.length_growth, l.memory_growth,
      l.matrix_growth, l.config.decoder_layers, l.config.heads, name_of(l.rows.back()),
      bytes_text(l.base_matrix_bytes));
}

void print_agreement(const SequentialLesson& l) {
  print_heading("4  Both learn the same (dropout off); what is added up differs by rounding:");
  Table table = {{"", "", "", "positions alone", "sums of all", "one lost"},
                 {"target", "loss", "differs by", "that differ", "/ allowed", "/ allowed"}};
  for (const SequentialRow& row : l.rows) {
    const SequentialComparison& f = row.figures;
    table.push_back({name_of(row), fmt::format("{:.3f}", f.parallel_loss),
                     fmt::format("{:.1e}", f.loss_difference()),
                     fmt::format("{} of {}", f.positions_differing, f.positions_compared),
                     fmt::format("{:.2f}", f.sum_share),
                     fmt::format("{:.1f}", f.weakest_position)});
  }
  print_table(table, Align::right);
  fmt::print(
      "  The gradient of one position, learnt alone, is compared bit by bit in every parameter; "
      "the\n"
      "  sums over all positions in the last layer, against what rounding allows. Were one "
      "position\n"
      "  lost on the way, that would be so many times what is allowed.\n");
}

}  // namespace

bool show_sequential(const LessonFlags& flags) {
  ProgressLine progress;
  SequentialLessonOptions options{.threads = flags.threads};
  std::chrono::steady_clock::time_point begun;
  options.progress = [&](const SequentialRow& row, int64_t done, int64_t all) {
    if (done == 0) begun = std::chrono::steady_clock::now();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    const double left =
        taken.count() / static_cast<double>(done + 1) * static_cast<double>(all - done);
    progress.show(done, all, name_of(row) + ", prefix by prefix", left);
  };
  const SequentialLesson l = teach_sequential(options);
  progress.clear();
  write_picture(flags, draw_sequential(l));
  fmt::print("Training prefix by prefix, as one decodes, against the whole target in one call.\n");
  print_calls(l);
  print_pie(l);
  print_memory(l);
  print_agreement(l);
  const SequentialRow& batch = l.rows.back();
  return print_verdict(
      l.holds,
      fmt::format("The same loss and gradients from {} call instead of {} for {}.\n"
                  "         Sequential training took {:.0f} times as long. Memory grew with the "
                  "length,\n"
                  "         not with its square.",
                  batch.figures.parallel.calls, batch.figures.sequential.calls, name_of(batch),
                  batch.figures.time_ratio()),
      "NOT as the lesson says: the two ways disagree, or the parallel one was no faster or took "
      "too\n"
      "         much memory.");
}

}  // namespace tril::app
