#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "json_text.h"

namespace load {
namespace {

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string distribution(std::vector<double>& seconds) {
  if (seconds.empty()) return "null";
  const auto at = [&](double share) { return shown(1000 * percentile(seconds, share)); };
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return "{\"count\": " + std::to_string(seconds.size()) +
         ", \"mean\": " + shown(1000 * sum / double(seconds.size())) + ", \"p50\": " + at(0.5) +
         ", \"p90\": " + at(0.9) + ", \"p95\": " + at(0.95) + ", \"p99\": " + at(0.99) +
         ", \"max\": " + at(1) + "}";
}

}  // namespace

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * double(values.size()) - 1e-9);
  return values[size_t(std::clamp(rank, 1.0, double(values.size()))) - 1];
}

std::string to_json(Report& report, const std::string& about) {
  std::string errors;
  int64_t refused = 0;
  for (const auto& [what, count] : report.errors) {
    errors += (errors.empty() ? "" : ", ") + json_quoted(what) + ": " + std::to_string(count);
    if (what == "429" || what == "503") refused += count;
  }
  std::string out = "{" + about;
  const auto add = [&](const char* name, const std::string& value) {
    out += (out.size() == 1 ? "\n  \"" : ",\n  \"") + std::string(name) + "\": " + value;
  };
  const auto rate = [&](int64_t count) {
    return shown(report.seconds > 0 ? double(count) / report.seconds : 0);
  };
  add("seconds", shown(report.seconds));
  add("sent", std::to_string(report.sent));
  add("answered", std::to_string(report.answered));
  add("cancelled", std::to_string(report.cancelled));
  add("refused", std::to_string(refused));
  add("errors", "{" + errors + "}");
  add("requests_per_second", rate(report.finished));
  add("target_tokens_per_second", rate(report.target_tokens));
  add("latency_ms", distribution(report.latencies));
  add("first_event_ms", distribution(report.first_events));
  add("lateness_ms", distribution(report.lateness));
  add("checked", std::to_string(report.checked));
  add("wrong", std::to_string(report.wrong));
  add("unequal", std::to_string(report.unequal));
  add("torn", std::to_string(report.torn));
  add("connections_opened", std::to_string(report.opened));
  add("connections_most", std::to_string(report.most_open));
  add("own_cpu_seconds", shown(report.own_cpu));
  const double machine = report.wall * double(report.cores);
  add("own_cpu_share", shown(machine > 0 ? report.own_cpu / machine : 0));
  return out + "\n}\n";
}

}  // namespace load
