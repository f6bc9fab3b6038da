// Metrics: what the server counts, as Prometheus reads it (text format 0.0.4).
//
// Nothing in them tells who asked or for what: labels are the API and the status.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace tril::serve {

// Counts durations in buckets that double, from a millisecond to about a minute.
class Histogram {
 public:
  void add(double seconds);
  // The lines of one metric, without its HELP and TYPE.
  void write(std::string& text, std::string_view name, std::string_view labels) const;

 private:
  static constexpr int kBuckets = 17;
  std::array<std::atomic<int64_t>, kBuckets + 1> counts_{};
  std::atomic<int64_t> microseconds_ = 0;
};

// Numbers that are known elsewhere when the metrics are read.
struct Gauges {
  int64_t connections = 0;
  int64_t connections_accepted = 0;
  int64_t connections_refused = 0;
  int64_t cache_bytes = 0;
  int64_t cache_answers = 0;
  std::map<int, int64_t> refusals{};  // by the transport, by status
  bool draining = false;
};

struct Metrics {
  std::atomic<int64_t> requests_in_flight = 0;
  std::atomic<int64_t> units_in_flight = 0;  // sentences submitted to an engine and not done
  std::atomic<int64_t> queued_tokens = 0;    // their source tokens
  std::atomic<int64_t> source_tokens = 0;    // in all
  std::atomic<int64_t> target_tokens = 0;
  std::atomic<int64_t> cancelled = 0;  // requests whose client went away
  std::atomic<int64_t> cache_hits = 0;
  std::atomic<int64_t> cache_misses = 0;
  Histogram first_token_seconds;  // of streams

  // An answer, and the seconds from its request's arrival to it: of a stream, to its end.
  void count(std::string_view api, int status, double seconds);
  std::string text(const Gauges& gauges) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> answers_;  // guarded by the mutex, as the next
  std::map<std::string, Histogram> seconds_;                // by API
};

}  // namespace tril::serve
