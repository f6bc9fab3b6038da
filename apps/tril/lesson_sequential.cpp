#include "tril/lesson/lesson_sequential.h"

#include <fmt/core.h>

#include <chrono>

#include "lesson.h"
#include "progress.h"
#include "tril/lesson/pictures.h"
#include "units.h"

namespace tril::app {
namespace {

std::string name_of(const SequentialRow& row) {
  return row.rows == 1 ? fmt::format("{} words", row.words)
                       : fmt::format("{} rows × {} words", row.rows, row.words);
}

void print_calls(const SequentialLesson& l) {
  print_heading("1", "Calls of forward(), counted, and the time of one training step:");
  Table table = {{"", "calls,", "calls,", "time,", "time,", ""},
                 {"target", "sequential", "parallel", "sequential", "parallel", "ratio"}};
  for (const SequentialRow& row : l.rows) {
    const SequentialComparison& f = row.figures;
    table.push_back({name_of(row), grouped(f.sequential.calls), grouped(f.parallel.calls),
                     time_text(f.sequential.seconds), time_text(f.parallel.seconds),
                     fmt::format("{:.0f} : 1", f.time_ratio())});
  }
  print_table(table, Align::right);
  print_text(fmt::format(
      "One call per word and one for END: START is fed before the first word, END is predicted "
      "after "
      "the last word and never fed. So 300 words take 301 calls. Each call reads its prefix again "
      "from the beginning: for {} that is {} positions computed, where parallel training computes "
      "{}.",
      name_of(l.rows.back()), grouped(l.rows.back().figures.sequential.rows),
      grouped(l.rows.back().figures.parallel.rows)));
}

void print_pie(const SequentialLesson& l) {
  print_heading(
      "2", "Instead of a pie of 25% and 75%: the share of each in the time of both, measured:");
  Table table = {{"target", "parallel", "sequential"}};
  for (const SequentialRow& row : l.rows) {
    table.push_back({name_of(row), fmt::format("{:.1f}%", 100.0 * row.parallel_share()),
                     fmt::format("{:.1f}%", 100.0 * (1.0 - row.parallel_share()))});
  }
  print_table(table, Align::right);
  print_text("There is no single figure: it depends on the length.");
}

void print_memory(const SequentialLesson& l) {
  print_heading("3",
                "Peak memory of one training step, measured. The last column is what storing "
                "the score matrices would take, by the formula heads × layers × n² × 4 bytes.");
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
  print_text(fmt::format(
      "From {} to {} words, {:.2f} times the length: {:.2f} times the memory, while score matrices "
      "grow {:.2f} times, with the square. This model has {} layers of {} heads. In a base model "
      "with 6 layers of 8 heads, the score matrices of {} would take {}.",
      l.long_targets.front().words, l.long_targets.back().words, l.length_growth, l.memory_growth,
      l.matrix_growth, l.config.decoder_layers, l.config.heads, name_of(l.rows.back()),
      bytes_text(l.base_matrix_bytes)));
}

void print_agreement(const SequentialLesson& l) {
  print_heading("4",
                "Both learn the same (dropout off). Gradients of single positions have the same "
                "bits; sums over positions differ by rounding:");
  Table table = {{"", "", "losses", "positions", "error of", "error if one"},
                 {"target", "loss", "differ by", "that differ", "sums", "is missing"}};
  for (const SequentialRow& row : l.rows) {
    const SequentialComparison& f = row.figures;
    table.push_back({name_of(row), fmt::format("{:.3f}", f.parallel_loss),
                     fmt::format("{:.1e}", f.loss_difference()),
                     fmt::format("{} of {}", f.positions_differing, f.positions_compared),
                     fmt::format("{:.2f}", f.sum_share),
                     fmt::format("{:.1f}", f.weakest_position)});
  }
  print_table(table, Align::right);
  print_text(
      "The gradient that one position contributes is compared bit by bit in every parameter. The "
      "sums over all positions are compared in the last layer; their errors are relative to what "
      "rounding allows. The last column is the error there would be if one position were missing: "
      "it would be noticed.");
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
  fmt::print("Training prefix by prefix, as in decoding, and the whole target in one call.\n");
  print_calls(l);
  print_pie(l);
  print_memory(l);
  print_agreement(l);
  const SequentialRow& batch = l.rows.back();
  return print_verdict(
      l.holds,
      fmt::format("The same loss and gradients from {} call instead of {} for {}. Sequential "
                  "training took {:.0f} times as long. Memory grew with the length, not with its "
                  "square.",
                  batch.figures.parallel.calls, grouped(batch.figures.sequential.calls),
                  name_of(batch), batch.figures.time_ratio()),
      "the two ways disagree, or the parallel one was no faster or took too much memory.");
}

}  // namespace tril::app
