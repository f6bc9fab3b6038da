// Building blocks of pictures: SVG with the same bytes on every machine, readable on light and dark
// backgrounds. Pure functions from numbers to text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril::plot {

struct Point {
  double x = 0.0, y = 0.0;
};

// One panel of a picture: a box with a vertical axis on the left and a horizontal one below, both
// from 0.
struct Panel {
  double left = 0.0, top = 0.0, width = 0.0, height = 0.0;
  double x_max = 1.0, y_max = 1.0;

  double x(double value) const { return left + value / x_max * width; }
  double y(double value) const { return top + height - value / y_max * height; }
};
// A panel up to the highest point of these lines.
Panel panel_for(double top, double x_max, const std::vector<std::vector<Point>>& lines);

std::string number(double value);  // two decimals: finer than any screen
// A number for people, with 0 to 3 decimals: 0.4 as "0.40".
std::string decimals(double value, int count = 2);
// `style` is a list of attributes, `words` plain text without markup.
std::string text(double x, double y, std::string_view style, std::string_view words);
std::string axes(const Panel& panel, std::string_view title, std::string_view x_name);
// `kind` is "train" or "valid"; each has its colour.
std::string line(const Panel& panel, const std::vector<Point>& points, std::string_view kind);

// The name of a line, where it ends.
struct Name {
  const std::vector<Point>* points;
  std::string_view kind, words;
};
std::string names(const Panel& panel, std::vector<Name> lines);

// Without style or namespace, for an HTML page that has its own.
std::string drawing(double width, double height, std::string_view body);
// The whole picture; `style` adds rules to those for text and lines.
std::string picture(double width, double height, std::string_view body,
                    std::string_view style = {});

}  // namespace tril::plot
