#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "lesson.h"
#include "progress.h"

namespace tril::app {

using Table = std::vector<std::vector<std::string>>;

void print_heading(std::string_view text) { fmt::print("\n{}\n", text); }

bool print_verdict(bool holds, std::string_view says, std::string_view otherwise) {
  fmt::print("\nVERDICT  {}\n", holds ? says : otherwise);
  return holds;
}

void print_table(const Table& rows, Align align, std::string_view indent) {
  std::vector<int64_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  for (const auto& row : rows) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      const bool right = align == Align::right && i > 0;
      line += right ? pad_left(row[i], widths[i]) : pad_right(row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

Table table_of(const Matrix& matrix, const std::vector<std::string>& rows,
               const std::vector<std::string>& columns, int decimals) {
  Table table;
  if (!columns.empty()) {
    table.push_back(columns);
    table.back().insert(table.back().begin(), "");
  }
  for (int64_t row = 0; row < matrix.rows; ++row) {
    table.push_back({rows[static_cast<size_t>(row)]});
    for (const double value : matrix.row(row)) table.back().push_back(number(value, decimals));
  }
  return table;
}

Table beside(const Table& left, const Table& right) {
  Table table;
  const size_t width = left.empty() ? 0 : left.front().size();
  int64_t label = 0;  // the right table's first column stands to the left as the left one's does
  for (const auto& row : right) label = std::max(label, display_width(row.front()));
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    table.push_back(i < left.size() ? left[i] : std::vector<std::string>(width));
    table.back().push_back("    ");
    if (i >= right.size()) continue;
    table.back().push_back(pad_right(right[i].front(), label));
    table.back().insert(table.back().end(), right[i].begin() + 1, right[i].end());
  }
  return table;
}

std::string number(double value, int decimals) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-∞" : "∞";
  if (value == 0.0) return decimals == 0 ? "0" : fmt::format("{:.{}f}", 0.0, decimals);
  return fmt::format("{:.{}f}", value, decimals);
}

std::string vector_text(std::span<const double> values, int decimals) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "(" : ", ") + number(value, decimals);
  return text + ")";
}

std::string percent(int64_t part, int64_t all) {
  return fmt::format("{:.1f}%", 100.0 * static_cast<double>(part) /
                                    static_cast<double>(std::max<int64_t>(all, 1)));
}

void write_picture(const LessonFlags& flags, const std::string& svg) {
  if (!flags.svg.empty()) write_file_atomically(flags.svg, svg);
}

std::function<void(int64_t, double)> learning_progress(int64_t updates, const std::string& what) {
  struct State {
    ProgressLine line;
    const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  };
  auto state = std::make_shared<State>();
  return [=](int64_t update, double loss) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - state->begun;
    const double left =
        taken.count() / static_cast<double>(update) * static_cast<double>(updates - update);
    if (update == updates) {
      state->line.clear();
    } else {
      state->line.show(update, updates, fmt::format("{}: loss {:.3f}", what, loss), left);
    }
  };
}

}  // namespace tril::app
