#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "output.h"
#include "progress.h"
#include "tril/base/cpu.h"
#include "tril/base/parallel.h"
#include "tril/measure/measure.h"
#include "tril/tril.h"
#include "units.h"

namespace tril::app {
namespace {

// Whether a group's figures on the CPU are compared with its peaks; on a GPU all are.
enum class Beside { nothing, peaks };
// Where it is measured.
enum class On { cpu, any_device };

struct Group {
  const char* name;
  std::vector<Measurement> (*measure)(const MeasureOptions&);
  Beside beside = Beside::nothing;
  On on = On::cpu;
};
constexpr Group kGroups[] = {
    {"peaks", measure_machine, Beside::peaks, On::any_device},
    {"gemm", measure_gemm, Beside::peaks, On::any_device},
    {"int8", measure_gemm_int8, Beside::peaks},
    {"attention", measure_attention, Beside::peaks, On::any_device},
    {"bandwidth", measure_bandwidth, Beside::peaks},
    {"train", measure_training, Beside::peaks, On::any_device},
    {"translate", measure_translation, Beside::nothing, On::any_device},
    {"engine", measure_engine, Beside::nothing, On::any_device},
    {"shortlist", measure_shortlist},
    {"files", measure_files},
    {"growth", measure_growth},
    {"memory", measure_memory},
    {"learn", measure_learning},
    {"demo", measure_demo},
};
struct Options {
  std::vector<std::string> only;
  std::string match;
  std::optional<Device> device;
  int threads = 0;
  double seconds = 0.5;
  bool json = false;
};

// A figure with this many decimals, or nothing where there is none.
std::string figure(double value, int decimals) {
  return value > 0.0 ? fmt::format("{:.{}f}", value, decimals) : "";
}

double gigabytes(const Measurement& m) { return m.traffic.read + m.traffic.written; }

// A GPU does so much more that people count in TFLOP/s.
double gflop_unit(Device device) { return device.type == DeviceType::cuda ? 1000.0 : 1.0; }

constexpr const char* kTableLine = "{:<10} {:<34} {:>9} {:>8} {:>7} {:>11} {:>9} {:>8}  {}";

void print_row(const Measurement& m, Device device) {
  const std::string share = m.roof.empty() || m.group == "peaks"
                                ? ""
                                : fmt::format("{:.0f}% {}", 100.0 * m.share, m.roof);
  std::string row = fmt::format(
      fmt::runtime(kTableLine), m.group, m.name, m.group == "peaks" ? "" : time_text(m.seconds),
      figure(m.gflop / m.seconds / gflop_unit(device), 1), figure(gigabytes(m) / m.seconds, 1),
      share, figure(m.tokens / m.seconds, 0), figure(std::max(m.mebibytes, m.resident), 1), m.note);
  row.erase(row.find_last_not_of(' ') + 1);
  fmt::print("{}\n", row);
  flush_output();
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

void print_json(const std::vector<Measurement>& results, Device device, int threads) {
  nlohmann::ordered_json document = {
      {"machine", device.type == DeviceType::cuda ? gpu_at(device).name : cpu_name()},
      {"device", to_string(device)},
      {"target", to_string(current_target())},
      {"threads", threads},
      {"results", nlohmann::ordered_json::array()}};
  for (const Measurement& m : results) document["results"].push_back(json_of(m));
  if (const std::string doubt = above_roof(results); !doubt.empty()) document["note"] = doubt;
  fmt::print("{}\n", document.dump(2));
}

void print_head(Device device, int threads) {
  if (device.type == DeviceType::cuda) {
    const Gpu& gpu = gpu_at(device);
    fmt::print("{}, {} multiprocessors, {:.0f} GiB, {}; on {}\n\n", gpu.name, gpu.multiprocessors,
               static_cast<double>(gpu.memory_bytes) / (1 << 30),
               gpu.hopper ? "with the instructions of 9.0a" : "without those of 9.0a", cpu_name());
  } else {
    fmt::print("{}, {}, {} threads\n\n", cpu_name(), to_string(current_target()), threads);
  }
  fmt::print(fmt::runtime(kTableLine), "", "", "time",
             device.type == DeviceType::cuda ? "TFLOP/s" : "GFLOP/s", "GB/s", "of its roof",
             "tokens/s", "MiB", "\n");
}

bool is_named(const Group& group, const Options& options) {
  return std::find(options.only.begin(), options.only.end(), group.name) != options.only.end();
}

// The requested groups, or all that the device has.
std::vector<Group> wanted_groups(const Options& options, Device device) {
  std::vector<Group> wanted;
  for (const Group& group : kGroups) {
    const bool there = device == Device::cpu || group.on == On::any_device;
    require(there || !is_named(group, options), ErrorCode::unsupported, "bench: ", group.name,
            " is measured on the CPU only: give --device cpu");
    if (there && (options.only.empty() || is_named(group, options))) wanted.push_back(group);
  }
  return wanted;
}

// Requesting a group that only the CPU has selects the CPU where no device was given.
std::optional<Device> device_for(const Options& options) {
  const bool cpu_alone = std::any_of(
      std::begin(kGroups), std::end(kGroups),
      [&](const Group& group) { return group.on == On::cpu && is_named(group, options); });
  return cpu_alone && !options.device ? Device::cpu : options.device;
}

void run(const Options& options) {
  const Placement placement = placement_for(device_for(options));
  const Device device = placement.device;
  const std::vector<Group> groups = wanted_groups(options, device);
  MeasureOptions measure{.threads = options.threads,
                         .placement = placement,
                         .seconds_each = options.seconds,
                         .match = options.match};
  ProgressLine progress;
  measure.progress = [&](const std::string& what) { progress.tell("measuring " + what); };
  const int threads = Parallel(options.threads).threads();
  if (!options.json) {
    // Each row is printed as soon as it is measured, so that stopping loses nothing.
    measure.done = [&](const Measurement& m) {
      progress.clear();
      print_row(m, device);
    };
    print_head(device, threads);
  }
  std::vector<Measurement> results;
  for (const Group& group : groups) {
    const bool beside_peaks = group.beside == Beside::peaks || device.type == DeviceType::cuda;
    if (beside_peaks && !measure.peaks) {
      progress.tell("measuring the machine's own peaks");
      measure.peaks = device.type == DeviceType::cuda ? measure_cuda_peaks(device)
                                                      : measure_peaks(options.threads);
    }
    const auto measured = group.measure(measure);
    results.insert(results.end(), measured.begin(), measured.end());
  }
  progress.clear();
  require(!results.empty(), ErrorCode::invalid_argument, "--match ", options.match,
          ": nothing that is measured has this in its name");
  if (options.json) {
    print_json(results, device, threads);
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
  bench
      ->add_option("--only", options->only,
                   concat("Groups to measure, with commas between them: ",
                          with_commas(group_names()), " (default: all)"))
      ->check(among(group_names()))
      ->delimiter(',');
  bench->add_option("--match", options->match, "Only what has this in its name");
  add_device_flag(*bench, options->device);
  bench->add_option("--threads", options->threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  bench->add_option("--seconds", options->seconds, "About how long each kernel is repeated")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  bench->add_flag("--json", options->json, "Print JSON instead of a table");
  bench->footer(
      "Examples:\n  tril bench --only gemm,attention --threads 2\n  tril bench --device "
      "cuda --only train,translate\n\nTimes are medians. GFLOP/s and GB/s count what the "
      "formula needs: its operations, and its inputs read and results written once. 'of its "
      "roof' is the least time for that on this machine, by arithmetic (fp32, int8, bf16) "
      "or by the nearest memory that holds it (L2, L3, memory), over the time taken. On a "
      "GPU the groups are peaks, gemm, attention, train, translate and engine. bench/peers/compare "
      "runs other systems on the same shapes.");
  bench->callback([options] { run(*options); });
}

}  // namespace tril::app
