#include "tril/serve/metrics.h"

#include "tril/base/error.h"

namespace tril::serve {
namespace {

constexpr double kSmallest = 0.001;  // seconds; each bucket is twice the one before

void head(std::string& text, std::string_view name, std::string_view type, std::string_view help) {
  text += concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

void single(std::string& text, std::string_view name, std::string_view type, std::string_view help,
            int64_t value) {
  head(text, name, type, help);
  text += concat(name, " ", value, "\n");
}

}  // namespace

void Histogram::add(double seconds) {
  size_t bucket = 0;
  for (double bound = kSmallest; seconds > bound && bucket < kBuckets; bound *= 2) ++bucket;
  ++counts_[bucket];
  microseconds_ += static_cast<int64_t>(seconds * 1e6);
}

void Histogram::write(std::string& text, std::string_view name, std::string_view labels) const {
  int64_t sum = 0;
  double bound = kSmallest;
  for (size_t i = 0; i <= kBuckets; ++i, bound *= 2) {
    sum += counts_[i];
    const std::string edge = i == kBuckets ? "+Inf" : concat(bound);
    text += concat(name, "_bucket{", labels, labels.empty() ? "" : ",", "le=\"", edge, "\"} ", sum,
                   "\n");
  }
  const std::string set = labels.empty() ? "" : concat("{", labels, "}");
  text += concat(name, "_sum", set, " ", static_cast<double>(microseconds_) * 1e-6, "\n");
  text += concat(name, "_count", set, " ", sum, "\n");
}

void Metrics::count(std::string_view api, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++answers_[{std::string(api), status}];
  seconds_[std::string(api)].add(seconds);
}

std::string Metrics::text(const Gauges& gauges) const {
  std::string text;
  const auto label = [](std::string_view api) { return concat("api=\"", api, "\""); };
  {
    const std::lock_guard lock(mutex_);
    head(text, "tril_requests_total", "counter",
         "Answers by API and status; 499: the client left before its end.");
    const auto answered = [&](std::string_view api, int status, int64_t count) {
      text += concat("tril_requests_total{", label(api), ",status=\"", status, "\"} ", count, "\n");
    };
    for (const auto& [key, count] : answers_) answered(key.first, key.second, count);
    for (const auto& [status, count] : gauges.refusals) answered("transport", status, count);
    head(text, "tril_request_seconds", "histogram",
         "From a request's arrival to its answer, of a stream to its end.");
    for (const auto& [api, seconds] : seconds_) {
      seconds.write(text, "tril_request_seconds", label(api));
    }
  }
  const auto counter = [&](std::string_view name, std::string_view help, int64_t value) {
    single(text, name, "counter", help, value);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, int64_t value) {
    single(text, name, "gauge", help, value);
  };
  gauge("tril_requests_in_flight", "Requests that are being answered.", requests_in_flight);
  gauge("tril_sentences_in_flight", "Sentences waiting for an engine or being decoded.",
        units_in_flight);
  gauge("tril_queued_tokens", "Source tokens of the sentences in flight.", queued_tokens);
  counter("tril_source_tokens_total", "Source tokens submitted to an engine.", source_tokens);
  counter("tril_target_tokens_total", "Tokens written by an engine.", target_tokens);
  counter("tril_cancelled_total", "Requests whose client went away before its answer.", cancelled);
  counter("tril_cache_hits_total", "Sentences answered from the cache.", cache_hits);
  counter("tril_cache_misses_total", "Sentences that had to be translated.", cache_misses);
  gauge("tril_cache_bytes", "Memory of the cached answers.", gauges.cache_bytes);
  gauge("tril_cache_answers", "Cached answers.", gauges.cache_answers);
  gauge("tril_connections", "Open connections.", gauges.connections);
  counter("tril_connections_accepted_total", "Connections accepted.", gauges.connections_accepted);
  counter("tril_connections_refused_total", "Connections refused because there were too many.",
          gauges.connections_refused);
  gauge("tril_draining", "1 while the server ends.", gauges.draining ? 1 : 0);
  head(text, "tril_first_token_seconds", "histogram", "From a stream's request to its first text.");
  first_token_seconds.write(text, "tril_first_token_seconds", "");
  return text;
}

}  // namespace tril::serve
