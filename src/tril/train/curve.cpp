#include <algorithm>
#include <cmath>

#include "tril/base/plot.h"
#include "tril/train/log.h"

namespace tril {
namespace {

using plot::axes;
using plot::line;
using plot::names;
using plot::Panel;
using plot::panel_for;
using plot::picture;
using plot::Point;

// A log may contain any number; beyond this one there is nothing to show, and arithmetic on it
// would overflow a double.
constexpr double kLargest = 1e100;

std::vector<Point> series(const std::vector<LogRecord>& records, const std::string& name) {
  std::vector<Point> points;
  for (const LogRecord& record : records) {
    if (const double* value = record.find(name);
        value != nullptr && std::fabs(*value) <= kLargest) {
      points.push_back({static_cast<double>(record.update), *value});
    }
  }
  return points;
}

}  // namespace

std::string draw_curve(const std::vector<LogRecord>& records) {
  const auto train = series(records, "loss");
  const auto valid = series(records, "valid_loss");
  const auto bleu = series(records, "valid_bleu");
  double x_max = 1.0;
  for (const LogRecord& record : records) {
    x_max = std::max(x_max, static_cast<double>(record.update));
  }
  std::string body;
  double top = 40.0;
  if (!train.empty() || !valid.empty()) {
    const Panel panel = panel_for(top, x_max, {train, valid});
    body += axes(panel, "loss a token (labels smoothed in training)", "updates");
    body += line(panel, train, "train") + line(panel, valid, "valid");
    body += names(panel, {{&train, "train", "training"}, {&valid, "valid", "validation"}});
    top += 290.0;
  }
  if (!bleu.empty()) {
    const Panel panel = panel_for(top, x_max, {bleu});
    body += axes(panel, "BLEU on the validation text", "updates") + line(panel, bleu, "valid");
    top += 290.0;
  }
  return picture(720, std::max(top - 30.0, 20.0), body);
}

}  // namespace tril
