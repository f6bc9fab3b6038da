#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "lesson.h"
#include "progress.h"
#include "tril/io/atomic_file.h"

namespace tril::app {

void print_heading(std::string_view number, std::string_view text) {
  const std::string mark = number.empty() ? "" : concat(number, "  ");
  fmt::print("\n{}", set_text(text, mark, std::string(mark.size(), ' ')));
}

bool print_outcome(bool holds, std::string_view text) {
  constexpr std::string_view kMark = "VERDICT  ";
  const std::string set = set_text(text, kMark, std::string(kMark.size(), ' '));
  const std::string mark(kMark.substr(0, kMark.size() - 2));
  fmt::print("\n{}{}", holds ? good(mark) : bad(mark), set.substr(mark.size()));
  return holds;
}

bool print_verdict(bool holds, std::string_view says, std::string_view otherwise) {
  return print_outcome(holds,
                       holds ? std::string(says) : concat("NOT as the lesson says: ", otherwise));
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
