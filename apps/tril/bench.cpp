#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "progress.h"
#include "tril/tril.h"
#include "units.h"

namespace tril::app {
namespace {

struct Group {
  const char* name;
  std::vector<Measurement> (*measure)(const MeasureOptions&);
};
constexpr Group kGroups[] = {
    {"gemm", measure_gemm},      {"attention", measure_attention},   {"memory", measure_memory},
    {"train", measure_training}, {"translate", measure_translation}, {"learn", measure_learning},
    {"demo", measure_demo},      {"shortlist", measure_shortlist},
};

struct Options {
  std::vector<std::string> only;
  std::string match;
  int threads = 0;
  double seconds = 0.5;
  bool json = false;
};

void print_row(const Measurement& m) {
  fmt::print("{:<10} {:<34} {:>10} {:>10} {:>10} {:>10}  {}\n", m.group, m.name,
             time_text(m.seconds), m.gflop > 0.0 ? fmt::format("{:.1f}", m.gflop / m.seconds) : "",
             m.tokens > 0.0 ? fmt::format("{:.0f}", m.tokens / m.seconds) : "",
             m.mebibytes > 0.0 ? fmt::format("{:.1f}", m.mebibytes) : "", m.note);
  std::fflush(stdout);
}

void print_json(const std::vector<Measurement>& results, int threads) {
  nlohmann::ordered_json document = {{"machine", cpu_name()},
                                     {"target", to_string(current_target())},
                                     {"threads", threads},
                                     {"results", nlohmann::ordered_json::array()}};
  for (const Measurement& m : results) {
    nlohmann::ordered_json entry = {{"group", m.group}, {"name", m.name}, {"seconds", m.seconds}};
    if (m.gflop > 0.0) entry["gflops"] = m.gflop / m.seconds;
    if (m.tokens > 0.0) entry["tokens_per_s"] = m.tokens / m.seconds;
    if (m.mebibytes > 0.0) entry["mebibytes"] = m.mebibytes;
    if (!m.note.empty()) entry["note"] = m.note;
    document["results"].push_back(entry);
  }
  fmt::print("{}\n", document.dump(2));
}

void run(const Options& options) {
  MeasureOptions measure{
      .threads = options.threads, .seconds_each = options.seconds, .match = options.match};
  ProgressLine progress;
  measure.progress = [&](const std::string& what) { progress.tell("measuring " + what); };
  const int threads = Parallel(options.threads).threads();
  const Target target = current_target();
  if (!options.json) {
    // Each row is printed when it is known, so that stopping loses nothing.
    measure.done = [&](const Measurement& m) {
      progress.clear();
      print_row(m);
    };
    fmt::print("{}, {}, {} threads\n\n", cpu_name(), to_string(target), threads);
    fmt::print("{:<10} {:<34} {:>10} {:>10} {:>10} {:>10}\n", "", "", "time", "GFLOP/s", "tokens/s",
               "MiB");
  }
  std::vector<Measurement> results;
  for (const Group& group : kGroups) {
    const bool wanted = options.only.empty() || std::find(options.only.begin(), options.only.end(),
                                                          group.name) != options.only.end();
    if (!wanted) continue;
    const auto measured = group.measure(measure);
    results.insert(results.end(), measured.begin(), measured.end());
  }
  progress.clear();
  if (options.json) print_json(results, threads);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine: kernels, memory, learning");
  bench->add_option("--only", options->only, "Groups to measure (default: all)")
      ->check(CLI::IsMember(
          {"gemm", "attention", "memory", "train", "translate", "learn", "demo", "shortlist"}))
      ->delimiter(',');
  bench->add_option("--match", options->match, "Only what has this in its name");
  bench->add_option("--threads", options->threads, "Threads to use; 0 takes every core")
      ->check(CLI::Range(0, 1024));
  bench->add_option("--seconds", options->seconds, "About how long each kernel is repeated")
      ->check(CLI::Range(0.01, 600.0));
  bench->add_flag("--json", options->json, "Print JSON instead of a table");
  bench->footer(
      "Example:\n  tril bench --only gemm,attention --threads 2\n\n"
      "Times are medians. bench/peers/compare runs other systems on the same shapes.");
  bench->callback([options] { run(*options); });
}

}  // namespace tril::app
