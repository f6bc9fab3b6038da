#include <algorithm>
#include <cmath>

#include "tril/base/error.h"
#include "tril/train/log.h"

namespace tril {
namespace {

struct Point {
  double x, y;
};

// One panel of the picture: a box with an axis on the left.
struct Panel {
  double left, top, width, height;
  double x_max;
  double y_min, y_max;

  double x(double value) const { return left + value / x_max * width; }
  double y(double value) const { return top + height - (value - y_min) / (y_max - y_min) * height; }
};

std::string number(double value) {
  // Two decimals are finer than any screen.
  return concat(std::round(value * 100.0) / 100.0);
}

std::vector<Point> series(const std::vector<LogRecord>& records, const std::string& name) {
  std::vector<Point> points;
  for (const LogRecord& record : records) {
    if (const double* value = record.find(name)) {
      points.push_back({static_cast<double>(record.update), *value});
    }
  }
  return points;
}

// 1, 2 or 5 times a power of ten, about `count` of them in `range`.
double tick_step(double range, double count) {
  const double rough = range / count;
  double power = 1.0;
  while (power * 10.0 <= rough) power *= 10.0;
  while (power > rough) power /= 10.0;
  const double lead = rough / power;
  return power * (lead < 2.0 ? 1.0 : lead < 5.0 ? 2.0 : 5.0);
}

std::string text(double x, double y, std::string_view style, std::string_view words) {
  return concat("<text x=\"", number(x), "\" y=\"", number(y), "\" ", style, ">", words,
                "</text>\n");
}

std::string axes(const Panel& panel, std::string_view title) {
  std::string svg = text(panel.left, panel.top - 10, "class=\"title\"", title);
  const double step = tick_step(panel.y_max - panel.y_min, 5.0);
  for (double value = std::ceil(panel.y_min / step) * step; value <= panel.y_max + step * 1e-9;
       value += step) {
    const std::string y = number(panel.y(value));
    svg += concat("<path class=\"grid\" d=\"M", number(panel.left), " ", y, "h",
                  number(panel.width), "\"/>\n");
    svg += text(panel.left - 8, panel.y(value) + 4, "text-anchor=\"end\"",
                concat(std::round(value / step) * step));
  }
  const double x_step = tick_step(panel.x_max, 6.0);
  for (double value = 0.0; value <= panel.x_max + x_step * 1e-9; value += x_step) {
    svg += text(panel.x(value), panel.top + panel.height + 18, "text-anchor=\"middle\"",
                concat(value));
  }
  return svg;
}

std::string line(const Panel& panel, const std::vector<Point>& points, std::string_view kind,
                 std::string_view label) {
  if (points.empty()) return "";
  std::string path;
  for (const Point& point : points) {
    path +=
        concat(path.empty() ? "M" : "L", number(panel.x(point.x)), " ", number(panel.y(point.y)));
  }
  std::string svg = concat("<path class=\"", kind, "\" d=\"", path, "\"/>\n");
  if (points.size() <= 60) {  // each evaluation can be told apart
    for (const Point& point : points) {
      svg += concat("<circle class=\"", kind, "\" cx=\"", number(panel.x(point.x)), "\" cy=\"",
                    number(panel.y(point.y)), "\" r=\"2.5\"/>\n");
    }
  }
  const Point& last = points.back();
  return svg +
         text(panel.x(last.x) + 6, panel.y(last.y) + 4, concat("class=\"", kind, "\""), label);
}

Panel panel_for(double top, double x_max, const std::vector<std::vector<Point>>& lines) {
  Panel panel{.left = 60,
              .top = top,
              .width = 560,
              .height = 220,
              .x_max = x_max,
              .y_min = INFINITY,
              .y_max = -INFINITY};
  for (const auto& points : lines) {
    for (const Point& point : points) {
      panel.y_min = std::min(panel.y_min, point.y);
      panel.y_max = std::max(panel.y_max, point.y);
    }
  }
  const double margin = std::max((panel.y_max - panel.y_min) * 0.05, 1e-3);
  panel.y_min -= margin;
  panel.y_max += margin;
  return panel;
}

constexpr std::string_view kStyle =
    "<style>\n"
    "svg{background:#fff;color-scheme:light dark}\n"
    "text{font:12px system-ui,sans-serif;fill:#444}.title{font-weight:600;fill:#111}\n"
    ".grid{stroke:#ddd;fill:none}\n"
    "path.train{stroke:#0072b2;stroke-width:1.5;fill:none}circle.train,text.train{fill:#0072b2}\n"
    "path.valid{stroke:#d55e00;stroke-width:2;fill:none}circle.valid,text.valid{fill:#d55e00}\n"
    "@media(prefers-color-scheme:dark){svg{background:#181818}text{fill:#bbb}.title{fill:#eee}"
    ".grid{stroke:#333}path.train{stroke:#56b4e9}circle.train,text.train{fill:#56b4e9}"
    "path.valid{stroke:#e69f00}circle.valid,text.valid{fill:#e69f00}}\n"
    "</style>\n";

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
    body += axes(panel, "loss a token (labels smoothed in training)");
    body += line(panel, train, "train", "training");
    body += line(panel, valid, "valid", "validation");
    top += 300.0;
  }
  if (!bleu.empty()) {
    const Panel panel = panel_for(top, x_max, {bleu});
    body += axes(panel, "BLEU on the validation text");
    body += line(panel, bleu, "valid", "BLEU");
    top += 300.0;
  }
  body += text(340, top - 28, "text-anchor=\"middle\"", "updates");
  const std::string size = concat("0 0 720 ", number(top - 10));
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"", size, "\" width=\"720\">\n",
                kStyle, body, "</svg>\n");
}

}  // namespace tril
