#include "tril/lesson/lesson_work.h"

#include <fmt/core.h>

#include "lesson.h"
#include "progress.h"
#include "tril/measure/peaks.h"
#include "units.h"

namespace tril::app {
namespace {

void print_steps(const WorkLesson& l) {
  print_heading("1", "Steps that wait for each other, and work. One training step on one target:");
  Table table = {
      {"", "steps,", "steps,", "positions,", "positions,", "GFLOP,", "GFLOP,"},
      {"target", "sequential", "parallel", "sequential", "parallel", "sequential", "parallel"}};
  for (const WorkRow& row : l.rows) {
    table.push_back({counted(row.words, "word"), grouped(row.sequential.steps),
                     grouped(row.parallel.steps), grouped(row.sequential.positions),
                     grouped(row.parallel.positions), number(row.sequential.gflop),
                     number(row.parallel.gflop)});
  }
  print_table(table, Align::right);
  print_text(
      "Parallel training takes one step, whatever the length: O(1). Its work is not O(1): it grows "
      "with the length in the linear layers, O(n), and with its square in attention, O(n²), which "
      "is the smaller part here. Sequential training takes n + 1 steps, and since each reads its "
      "prefix again, its work is O(n²) and O(n³).");
}

void print_speed(const WorkLesson& l) {
  print_heading("2", l.peak_gflops > 0.0
                         ? fmt::format("How well the machine is used. Its measured peak is {:.0f} "
                                       "GFLOP per second.",
                                       l.peak_gflops)
                         : "How well the machine is used:");
  const auto share = [&](double gflops) {
    if (l.peak_gflops <= 0.0) return fmt::format("{:.1f} GFLOP/s", gflops);
    const double percent = 100.0 * gflops / l.peak_gflops;
    // A small model comes nowhere near the peak of a GPU.
    return percent < 1.0 ? fmt::format("{:.2g}%", percent) : fmt::format("{:.1f}%", percent);
  };
  Table table = {{"", "time,", "time,", "of peak,", "useful,", "of peak,"},
                 {"target", "sequential", "parallel", "sequential", "sequential", "parallel"}};
  for (const WorkRow& row : l.rows) {
    table.push_back({counted(row.words, "word"), time_text(row.sequential.seconds),
                     time_text(row.parallel.seconds), share(row.sequential.gflops()),
                     share(row.useful_gflops()), share(row.parallel.gflops())});
  }
  print_table(table, Align::right);
  print_text(
      "Prefix by prefix most positions are computed again and again. \"Useful\" counts each of "
      "them "
      "once: that is the share of the machine that moves training forward.");
}

}  // namespace

bool show_work(const LessonFlags& flags) {
  ProgressLine progress;
  WorkOptions options{.threads = flags.threads};
  const Placement placement = best_device();
  if (placement.device.type == DeviceType::cuda) {
    options.placement = placement;
    options.peak_gflops = measure_cuda_peaks(placement.device).bf16_gflops;
  } else {
    options.peak_gflops = measure_peaks(flags.threads).gflops;
  }
  options.progress = [&](int64_t words, int64_t done, int64_t all) {
    progress.part(fmt::format("{} words, prefix by prefix", words), done, all);
  };
  const WorkLesson l = teach_work(options);
  progress.clear();
  fmt::print("{}",
             set_text(fmt::format("Steps and work: a decoder of {} layers, {} wide, on the {}.",
                                  l.config.decoder_layers, l.config.model,
                                  l.device.type == DeviceType::cuda ? "GPU" : "CPU"),
                      "", ""));
  print_steps(l);
  print_speed(l);
  const WorkRow& last = l.rows.back();
  return print_verdict(
      l.holds,
      fmt::format("Parallel training is O(1) in steps that wait for each other. Its work is not: "
                  "O(n) in the linear layers, O(n²) in attention. For {} words it did {:.0f} times "
                  "as much useful work per second.",
                  last.words, last.parallel.gflops() / last.useful_gflops()),
      "steps or positions are not as counted above, or the parallel way used the machine no "
      "better.");
}

}  // namespace tril::app
