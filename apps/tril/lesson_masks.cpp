#include "tril/lesson/lesson_masks.h"

#include <fmt/core.h>

#include <cmath>

#include "lesson.h"
#include "lines.h"
#include "tril/base/interval.h"
#include "tril/data/lines.h"
#include "tril/lesson/mask_check.h"
#include "tril/lesson/pictures.h"
#include "tril/tensor/mask.h"

namespace tril::app {
namespace {

std::string interval_text(const Interval& interval) {
  if (interval.empty()) return "nothing";
  if (interval.hi - interval.lo == 1) return fmt::format("{}", interval.hi);
  return fmt::format("{}–{}", interval.lo + 1, interval.hi);
}

// One line per row: its part of the matrix, and the interval.
Table mask_table(const Mask& mask, int64_t keys) {
  Table table;
  for (int64_t row = 0; row < static_cast<int64_t>(mask.rows().size()); ++row) {
    std::string cells;
    for (int64_t key = 0; key < keys; ++key) cells += mask.sees(row, key) ? "  0" : " -∞";
    table.push_back({cells, "sees " + interval_text(mask.rows()[static_cast<size_t>(row)])});
  }
  return table;
}

void print_kinds(const MaskLesson& l) {
  print_heading("1",
                "A mask is a matrix of 0 and -∞. tril stores it as one interval of keys per row.");
  for (const NamedMask& named : l.kinds) {
    fmt::print("  {}: {}\n", named.name, named.says);
    print_table(mask_table(named.mask, named.keys), Align::left, "   ");
  }
  print_text(
      "The padding mask hides padding, the causal mask hides the future. To combine them, add "
      "the matrices, or intersect the intervals.");
}

std::string entry(float value) { return value == 0.0f ? "  0" : " -∞"; }

void print_broadcast(const Broadcast& b) {
  print_heading("2", "How the shapes broadcast: an axis of size 1 is repeated along that axis.");
  std::string paddings;
  Table table(static_cast<size_t>(b.length));
  for (int64_t q = 0; q < b.length; ++q) {
    auto& line = table[static_cast<size_t>(q)];
    std::string causal;
    for (int64_t k = 0; k < b.length; ++k)
      causal += entry(b.causal[static_cast<size_t>(q * b.length + k)]);
    line = {causal};
    for (int64_t s = 0; s < b.batch; ++s) {
      std::string padding, combined;
      for (int64_t k = 0; k < b.length; ++k) {
        padding += entry(b.padding[static_cast<size_t>(s * b.length + k)]);
        combined +=
            entry(b.combined[static_cast<size_t>((s * b.heads * b.length + q) * b.length + k)]);
      }
      line.insert(line.end(), {q == 0 ? padding : "", q == 0 ? "→" : "", combined});
    }
  }
  table.insert(table.begin(), {"causal", "आप कैसे हैं", "", "both", "धन्यवाद", "", "both"});
  table.insert(table.begin() + 1,
               {"[1,1,q,k]", "[1,1,1,k]", "", "every head", "[1,1,1,k]", "", "every head"});
  print_table(table, Align::left);
  print_text(fmt::format(
      "धन्यवाद is one word and {} positions of padding. Together the masks have the shape [batch, "
      "heads, q, k] = [{}, {}, {}, {}]: {} entries, or {} intervals that say the same. For 16 "
      "sentences of 300 words and 8 heads: {:.1f} MB of matrix, {:.1f} kB of intervals.",
      b.length - b.lengths.back(), b.batch, b.heads, b.length, b.length, b.combined.size(),
      b.batch * b.length, static_cast<double>(b.matrix_bytes) / 1e6,
      static_cast<double>(b.interval_bytes) / 1e3));
}

void print_ways(const std::vector<Forbidding>& ways) {
  Table table = {{"", "key 1", "key 2", "key 3", "sum", "forbidden", "output"}};
  for (const Forbidding& way : ways) {
    table.push_back({way.way});
    for (const double weight : way.weights) table.back().push_back(number(weight));
    table.back().push_back(number(way.sum));
    table.back().push_back(number(way.forbidden));
    table.back().push_back(number(way.output));
  }
  print_table(table, Align::right);
}

void print_forbidding(const MaskLesson& l) {
  print_heading("3", fmt::format("Why -∞ before the softmax? The row of आप has the scores {} and "
                                 "may look at key 1 only. The values of the keys are 1, 2, 3; the "
                                 "output is weights times values.",
                                 vector_text(l.scores, 1)));
  print_ways(l.one_key);
  print_text(fmt::format(
      "A score of 0 still gets weight, since e⁰ = 1: {:.0f}% of the total goes to the future. A "
      "weight set to 0 after the softmax leaves a row that sums to {} instead of 1.",
      100.0 * l.one_key[3].forbidden, number(l.one_key[4].sum)));
  print_heading("4", "When is -1e9 wrong? In a row that may look at nothing (padding, say):");
  print_ways(l.no_key);
  print_text("-1e9 turns it into an average of the forbidden keys, -∞ into NaN. In tril it is 0.");
  print_heading("5", fmt::format("In half precision (largest number {:.0f}) -1e9 is {}. The row of "
                                 "आप there:",
                                 l.largest_half, number(l.half_of_minus_1e9)));
  print_ways(l.one_key_in_half);
  print_text("And the row that may look at nothing:");
  print_ways(l.no_key_in_half);
  print_heading("6", "A forbidden key with a huge score (2e9, left over in memory):");
  print_ways(l.large_forbidden);
  print_heading("7",
                "A forbidden key whose value is NaN: 0 × NaN is NaN, so a weight of 0 is not "
                "enough.");
  print_ways(l.nan_forbidden);
  print_text("tril never multiplies a forbidden key into a row.");
}

void print_in_use(const MaskLesson& l) {
  print_heading("8",
                "Does the encoder use the causal mask? Observed in a model that runs, with 3 "
                "source words and 4 target words:");
  Table table;
  for (const MaskInUse& each : l.in_use) {
    std::string rows;
    for (const Interval& interval : each.mask.rows()) {
      rows += (rows.empty() ? "" : ", ") + interval_text(interval);
    }
    table.push_back({each.where, concat("its rows see ", rows)});
  }
  print_table(table, Align::left);
}

// The mask in a user's file, with marks where it is not the causal mask.
bool show_check(const std::string& path) {
  LineReader reader = open_lines(path);
  std::string text, line;
  while (reader.next(line)) text += line + '\n';
  const MaskCheck check = check_mask(text);
  const auto notation = [&] {
    switch (check.notation) {
      case MaskCheck::Notation::added: return "0 may look, -∞ is blocked";
      case MaskCheck::Notation::ones_may_look: return "1 may look, 0 is blocked";
      case MaskCheck::Notation::ones_are_blocked: return "0 may look, 1 is blocked";
      case MaskCheck::Notation::dots: return ". may look, X is blocked";
    }
    return "";
  };
  fmt::print("A mask of {} × {}, read as: {}.\n\n", check.rows, check.columns, notation());
  Table table;
  for (int64_t row = 0; row < check.rows; ++row) {
    std::string cells;
    for (int64_t column = 0; column < check.columns; ++column) {
      const bool sees = check.sees(row, column);
      cells += sees ? " ." : " X";
      const int64_t own = row + check.offset();
      cells += sees && column > own ? "!" : !sees && column <= own ? "?" : " ";
    }
    table.push_back({fmt::format("row {}", row + 1), cells});
  }
  print_table(table, Align::left);
  const auto cell = [](const MaskCheck::Cell& at) {
    return fmt::format("row {}, column {}", at.row + 1, at.column + 1);
  };
  if (!check.leaks.empty()) {
    print_text(fmt::format(
        "! {} the future, first in {}.",
        check.leaks.size() == 1 ? "One cell sees" : fmt::format("{} cells see", check.leaks.size()),
        cell(check.leaks.front())));
  }
  if (!check.hidden.empty()) {
    print_text(fmt::format("? {} what the row could see, itself or the past, first in {}.",
                           check.hidden.size() == 1
                               ? "One cell hides"
                               : fmt::format("{} cells hide", check.hidden.size()),
                           cell(check.hidden.front())));
  }
  if (check.offset() > 0) {
    print_text(fmt::format("More columns than rows: the first {} are taken for keys in a cache.",
                           check.offset()));
  }
  if (check.blind_row() >= 0) {
    print_text(fmt::format("Row {} sees no key at all: a softmax makes it NaN (tril gives 0).",
                           check.blind_row() + 1));
  }
  std::string says = "This mask is not causal";
  if (check.causal()) {
    says = "This mask is causal: each row sees itself and everything before it";
  } else if (check.rows > check.columns) {
    says += ": it has more rows than columns, so the last rows have no key of their own";
  } else if (check.transposed) {
    says +=
        ". It is the causal mask turned over: it keeps the upper triangle, so each row sees the "
        "future and not the past";
  } else if (check.upside_down) {
    says += ". Its rows are those of the causal mask from the last to the first";
  } else if (check.leaks_nothing()) {
    says =
        "No row sees the future, but this is not the full causal mask: rows see less than they "
        "could, as with a window or padding";
  }
  return print_outcome(check.causal(), says + ".");
}

}  // namespace

bool show_masks(const LessonFlags& flags) {
  if (!flags.check.empty()) return show_check(flags.check);
  const MaskLesson l = teach_masks();
  write_picture(flags, draw_masks(l));
  fmt::print("Masks: what a word may see.\n");
  print_kinds(l);
  print_broadcast(l.broadcast);
  print_forbidding(l);
  print_in_use(l);
  return print_verdict(
      l.holds,
      "-∞ before the softmax gives forbidden keys exactly nothing. -1e9 does so only while a row "
      "sees something and its scores are small; in half precision it is -∞ itself. Only the "
      "decoder's self-attention is causal; the encoder sees everything.",
      "one of the figures above is not what it should be.");
}

}  // namespace tril::app
