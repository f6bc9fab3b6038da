#include "tril/base/plot.h"

#include <algorithm>
#include <cmath>

#include "tril/base/error.h"

namespace tril::plot {
namespace {

// Marks on an axis: multiples of 1, 2 or 5 times a power of ten, at most `count` of them in
// `range`. Kept as a fraction of integers, so that three times 0.1 is 0.3 and not
// 0.30000000000000004.
class Ticks {
 public:
  Ticks(double range, double count) {
    const double rough = range / count;
    while (times_ * 10.0 <= rough) times_ *= 10.0;
    while (1.0 / over_ > rough) over_ *= 10.0;
    const double lead = rough * over_ / times_;
    times_ *= lead <= 1.0 ? 1.0 : lead <= 2.0 ? 2.0 : lead <= 5.0 ? 5.0 : 10.0;
  }

  double value(int64_t index) const { return static_cast<double>(index) * times_ / over_; }
  int64_t last(double to) const {
    return static_cast<int64_t>(std::floor(to * over_ / times_ + 1e-9));
  }
  // 100000 rather than 1e+05, as far as integers hold it.
  std::string label(int64_t index) const {
    constexpr double kWhole = 1e15;
    return over_ == 1.0 && times_ <= kWhole ? concat(index * static_cast<int64_t>(times_))
                                            : concat(value(index));
  }

 private:
  double times_ = 1.0;
  double over_ = 1.0;
};

constexpr std::string_view kStyle =
    "svg{background:#fff;color-scheme:light dark}\n"
    "text{font:12px system-ui,sans-serif;fill:#444}.title{font-weight:600;fill:#111}\n"
    ".grid{stroke:#ddd;fill:none}\n"
    "path.train{stroke:#0072b2;stroke-width:1.5;fill:none}circle.train,text.train{fill:#0072b2}\n"
    "path.valid{stroke:#d55e00;stroke-width:2;fill:none}circle.valid,text.valid{fill:#d55e00}\n"
    "@media(prefers-color-scheme:dark){svg{background:#181818}text{fill:#bbb}.title{fill:#eee}"
    ".grid{stroke:#333}path.train{stroke:#56b4e9}circle.train,text.train{fill:#56b4e9}"
    "path.valid{stroke:#e69f00}circle.valid,text.valid{fill:#e69f00}}\n";

}  // namespace

std::string number(double value) {
  // Two decimals are finer than any screen.
  return concat(std::round(value * 100.0) / 100.0);
}

std::string decimals(double value, int count) {
  if (std::isnan(value)) return "NaN";
  if (std::fabs(value) > 1e15) return value < 0.0 ? "-∞" : "∞";
  int64_t scale = 1;
  for (int i = 0; i < count; ++i) scale *= 10;
  const auto units =
      static_cast<int64_t>(std::llround(std::fabs(value) * static_cast<double>(scale)));
  std::string result = concat(value < 0.0 && units > 0 ? "-" : "", units / scale);
  if (count == 0) return result;
  std::string part = concat(units % scale);
  part.insert(0, static_cast<size_t>(count) - part.size(), '0');
  return concat(result, ".", part);
}

std::string text(double x, double y, std::string_view style, std::string_view words) {
  return concat("<text x=\"", number(x), "\" y=\"", number(y), "\" ", style, ">", words,
                "</text>\n");
}

std::string axes(const Panel& panel, std::string_view title, std::string_view x_name) {
  std::string svg = text(panel.left, panel.top - 10, "class=\"title\"", title);
  const Ticks rows(panel.y_max, 6.0);
  for (int64_t i = 0; i <= rows.last(panel.y_max); ++i) {
    const double y = panel.y(rows.value(i));
    svg += concat("<path class=\"grid\" d=\"M", number(panel.left), " ", number(y), "h",
                  number(panel.width), "\"/>\n");
    svg += text(panel.left - 8, y + 4, "text-anchor=\"end\"", rows.label(i));
  }
  const Ticks updates(std::max(panel.x_max, 6.0), 6.0);  // whole numbers
  for (int64_t i = 0; i <= updates.last(panel.x_max); ++i) {
    svg += text(panel.x(updates.value(i)), panel.top + panel.height + 18, "text-anchor=\"middle\"",
                updates.label(i));
  }
  return svg + text(panel.left + panel.width + 44, panel.top + panel.height + 18, "", x_name);
}

std::string line(const Panel& panel, const std::vector<Point>& points, std::string_view kind) {
  if (points.empty()) return "";
  std::string path;
  for (const Point& point : points) {
    path +=
        concat(path.empty() ? "M" : "L", number(panel.x(point.x)), " ", number(panel.y(point.y)));
  }
  std::string svg = concat("<path class=\"", kind, "\" d=\"", path, "\"/>\n");
  if (points.size() <= 60) {  // few enough to tell evaluations apart
    for (const Point& point : points) {
      svg += concat("<circle class=\"", kind, "\" cx=\"", number(panel.x(point.x)), "\" cy=\"",
                    number(panel.y(point.y)), "\" r=\"2.5\"/>\n");
    }
  }
  return svg;
}

std::string names(const Panel& panel, std::vector<Name> lines) {
  std::erase_if(lines, [](const Name& name) { return name.points->empty(); });
  const auto end = [&](const Name& name) { return panel.y(name.points->back().y); };
  std::sort(lines.begin(), lines.end(),
            [&](const Name& a, const Name& b) { return end(a) < end(b); });
  std::string svg;
  double above = -INFINITY;
  for (const Name& name : lines) {
    const double y = std::max(end(name), above + 14.0);  // lines may end together, names may not
    svg += text(panel.x(name.points->back().x) + 6, y + 4, concat("class=\"", name.kind, "\""),
                name.words);
    above = y;
  }
  return svg;
}

// A panel up to the highest point.
Panel panel_for(double top, double x_max, const std::vector<std::vector<Point>>& lines) {
  double highest = 0.0;
  for (const auto& points : lines) {
    for (const Point& point : points) highest = std::max(highest, point.y);
  }
  return {.left = 48,
          .top = top,
          .width = 560,
          .height = 220,
          .x_max = x_max,
          .y_max = std::max(highest * 1.05, 1e-3)};
}

namespace {
std::string svg(double width, double height, std::string_view attributes, std::string_view body) {
  return concat("<svg", attributes, " viewBox=\"0 0 ", number(width), " ", number(height),
                "\" width=\"", number(width), "\">\n", body, "</svg>\n");
}
}  // namespace

std::string drawing(double width, double height, std::string_view body) {
  return svg(width, height, "", body);
}

std::string picture(double width, double height, std::string_view body, std::string_view style) {
  return svg(width, height, " xmlns=\"http://www.w3.org/2000/svg\"",
             concat("<style>\n", kStyle, style, "</style>\n", body));
}

}  // namespace tril::plot
