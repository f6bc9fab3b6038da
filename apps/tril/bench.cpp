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

// Whether a group's figures are set beside the machine's own peaks.
enum class Beside { nothing, peaks };

struct Group {
  const char* name;
  std::vector<Measurement> (*measure)(const MeasureOptions&);
  Beside beside = Beside::nothing;
};
constexpr Group kGroups[] = {
    {"peaks", measure_machine, Beside::peaks},
    {"gemm", measure_gemm, Beside::peaks},
    {"int8", measure_gemm_int8, Beside::peaks},
    {"attention", measure_attention, Beside::peaks},
    {"bandwidth", measure_bandwidth, Beside::peaks},
    {"train", measure_training, Beside::peaks},
    {"translate", measure_translation},
    {"shortlist", measure_shortlist},
    {"growth", measure_growth},
    {"memory", measure_memory},
    {"learn", measure_learning},
    {"demo", measure_demo},
};
constexpr double kPeakSeconds = 0.1;  // for each of the peaks

struct Options {
  std::vector<std::string> only;
  std::string match;
  int threads = 0;
  double seconds = 0.5;
  bool json = false;
};

// A figure with so many decimals, or nothing where there is none.
std::string figure(double value, int decimals) {
  return value > 0.0 ? fmt::format("{:.{}f}", value, decimals) : "";
}

double gigabytes(const Measurement& m) { return m.traffic.read + m.traffic.written; }

constexpr const char* kColumns = "{:<10} {:<34} {:>9} {:>8} {:>7} {:>11} {:>9} {:>8}  {}";

void print_row(const Measurement& m) {
  const std::string share = m.roof.empty() || m.group == "peaks"
                                ? ""
                                : fmt::format("{:.0f}% {}", 100.0 * m.share, m.roof);
  std::string row = fmt::format(
      fmt::runtime(kColumns), m.group, m.name, m.group == "peaks" ? "" : time_text(m.seconds),
      figure(m.gflop / m.seconds, 1), figure(gigabytes(m) / m.seconds, 1), share,
      figure(m.tokens / m.seconds, 0), figure(std::max(m.mebibytes, m.resident), 1), m.note);
  row.erase(row.find_last_not_of(' ') + 1);
  fmt::print("{}\n", row);
  std::fflush(stdout);
}

nlohmann::ordered_json json_of(const Measurement& m) {
  nlohmann::ordered_json entry = {{"group", m.group}, {"name", m.name}, {"seconds", m.seconds}};
  if (m.gflop > 0.0) entry["gflops"] = m.gflop / m.seconds;
  if (gigabytes(m) > 0.0) entry["gigabytes_per_s"] = gigabytes(m) / m.seconds;
  if (!m.roof.empty() && m.group != "peaks") {
    entry["roof"] = m.roof;
    entry["share_of_roof"] = m.share;
  }
  if (m.tokens > 0.0) entry["tokens_per_s"] = m.tokens / m.seconds;
  if (m.mebibytes > 0.0) entry["mebibytes"] = m.mebibytes;
  if (m.resident > 0.0) entry["resident_mebibytes"] = m.resident;
  if (!m.series.empty()) {
    entry["series"] = m.series;
    entry["at"] = m.at;
  }
  if (!m.note.empty()) entry["note"] = m.note;
  return entry;
}

void print_json(const std::vector<Measurement>& results, int threads) {
  nlohmann::ordered_json document = {{"machine", cpu_name()},
                                     {"target", to_string(current_target())},
                                     {"threads", threads},
                                     {"results", nlohmann::ordered_json::array()}};
  for (const Measurement& m : results) document["results"].push_back(json_of(m));
  if (const std::string doubt = above_roof(results); !doubt.empty()) document["note"] = doubt;
  fmt::print("{}\n", document.dump(2));
}

void print_head(int threads) {
  fmt::print("{}, {}, {} threads\n\n", cpu_name(), to_string(current_target()), threads);
  fmt::print(fmt::runtime(kColumns), "", "", "time", "GFLOP/s", "GB/s", "of its roof", "tokens/s",
             "MiB", "\n");
}

void run(const Options& options) {
  MeasureOptions measure{
      .threads = options.threads, .seconds_each = options.seconds, .match = options.match};
  ProgressLine progress;
  measure.progress = [&](const std::string& what) { progress.tell("measuring " + what); };
  const int threads = Parallel(options.threads).threads();
  if (!options.json) {
    // Each row is printed when it is known, so that stopping loses nothing.
    measure.done = [&](const Measurement& m) {
      progress.clear();
      print_row(m);
    };
    print_head(threads);
  }
  std::vector<Measurement> results;
  for (const Group& group : kGroups) {
    const bool wanted = options.only.empty() || std::find(options.only.begin(), options.only.end(),
                                                          group.name) != options.only.end();
    if (!wanted) continue;
    if (group.beside == Beside::peaks && !measure.peaks) {
      progress.tell("measuring the machine's own peaks");
      measure.peaks = measure_peaks(options.threads, kPeakSeconds);
    }
    const auto measured = group.measure(measure);
    results.insert(results.end(), measured.begin(), measured.end());
  }
  progress.clear();
  require(!results.empty(), ErrorCode::invalid_argument, "--match ", options.match,
          ": nothing that is measured has this in its name");
  if (options.json) {
    print_json(results, threads);
  } else if (const std::string doubt = above_roof(results); !doubt.empty()) {
    fmt::print("\n{}\n", doubt);
  }
}

std::vector<std::string> group_names() {
  std::vector<std::string> names;
  for (const Group& group : kGroups) names.emplace_back(group.name);
  return names;
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine: kernels, memory, learning");
  bench->add_option("--only", options->only, "Groups to measure (default: all)")
      ->check(CLI::IsMember(group_names()))
      ->delimiter(',');
  bench->add_option("--match", options->match, "Only what has this in its name");
  bench->add_option("--threads", options->threads, "Threads to use; 0 takes every core")
      ->check(CLI::Range(0, 1024));
  bench->add_option("--seconds", options->seconds, "About how long each kernel is repeated")
      ->check(CLI::Range(0.01, 600.0));
  bench->add_flag("--json", options->json, "Print JSON instead of a table");
  bench->footer(
      "Example:\n  tril bench --only gemm,attention --threads 2\n\n"
      "Times are medians. GFLOP/s and GB/s count what the formula needs: its operations, and its\n"
      "inputs read and results written once. 'of its roof' is the least time for that on this "
      "machine,\n"
      "by arithmetic (fp32, int8) or by the nearest memory that holds it (L2, L3, memory), over "
      "the "
      "time\n"
      "taken. bench/peers/compare runs other systems on the same shapes.");
  bench->callback([options] { run(*options); });
}

}  // namespace tril::app
