// Any bytes as the log of a training run: what is kept reads back the same, more can be appended,
// and the curve can be drawn from it.
#include <cstdint>
#include <string>

#include "scratch.h"
#include "tril/train/log.h"

namespace {

using tril::fuzz::check;

constexpr int64_t kLast = 1000;  // update, and evaluation

bool same(const std::vector<tril::LogRecord>& a, const std::vector<tril::LogRecord>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].update != b[i].update || a[i].values != b[i].values) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = tril::fuzz::put("log.jsonl", tril::fuzz::view(data, size));
  std::vector<tril::LogRecord> kept;
  {
    tril::TrainingLog log(path, kLast, kLast);
    log.append({.update = kLast, .values = {{"loss", 2.5}, {"valid_loss", 0.1}}});
    kept = log.records();
  }
  for (const tril::LogRecord& record : kept) check(record.update <= kLast);
  check(same(tril::TrainingLog(path, kLast, kLast).records(), kept));
  const std::string curve = tril::draw_curve(kept);
  check(curve.starts_with("<svg ") && curve.ends_with("</svg>\n"));
  check(curve.find("nan") == curve.npos && curve.find("inf\"") == curve.npos);
  return 0;
}
