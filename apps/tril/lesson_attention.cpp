#include "tril/lesson/lesson_attention.h"

#include <fmt/core.h>

#include <limits>

#include "lesson.h"
#include "tril/lesson/pictures.h"

namespace tril::app {
namespace {

// A word's weighted sum written out, v being the values of step 1: 0.24·v₁ + 0.29·v₂.
std::string sum_text(const Matrix& weights, int64_t row) {
  constexpr const char* kValues[] = {"v₁", "v₂", "v₃"};
  std::string text;
  for (int64_t key = 0; key < weights.columns; ++key) {
    if (weights.at(row, key) == 0.0) continue;
    text +=
        fmt::format("{}{:.2f}·{}", text.empty() ? "" : " + ", weights.at(row, key), kValues[key]);
  }
  return text;
}

void print_projections(const AttentionLesson& l) {
  print_heading("1", "Each embedding x times W_Q, W_K, W_V gives a query, a key and a value.");
  Table table = {{"", "x", "query", "key", "value"}};
  for (int64_t i = 0; i < 3; ++i) {
    table.push_back({l.words[static_cast<size_t>(i)], vector_text(l.embeddings.row(i), 0),
                     vector_text(l.queries.row(i), 1), vector_text(l.keys.row(i), 0),
                     vector_text(l.values.row(i), 0)});
  }
  print_table(table, Align::left);
}

void print_scores(const AttentionLesson& l) {
  print_heading("2",
                "Scores: each query times each key. Row आप, column कैसे: how well the query "
                "of आप matches the key of कैसे.");
  print_table(table_of(l.products, l.words, l.words, 1), Align::right);
  print_heading(
      "3", fmt::format("The scores divided by √d_k = √{} = {:.0f}.", l.queries.columns, l.root));
  print_table(table_of(l.scores, l.words, l.words, 1), Align::right);
  print_text(fmt::format(
      "This is the table of the lecture: its scores are already divided. Without the division आप "
      "would have the sharper weights {} instead of {} ('tril lesson scale' shows why that "
      "matters).",
      vector_text(l.undivided.row(0)), vector_text(l.unmasked.weights.row(0))));
}

void print_weights(const AttentionLesson& l) {
  print_heading("4", "Add the mask: 0 where a row may look, -∞ for what comes later.");
  Matrix sums = l.scores;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      if (!l.masked.mask.sees(i, j))
        sums.values[static_cast<size_t>(i * 3 + j)] = -std::numeric_limits<double>::infinity();
    }
  }
  print_table(table_of(sums, l.words, l.words, 1), Align::right);
  print_heading("5", "Softmax of each row: with the mask, and beside it without.");
  print_beside(table_of(l.masked.weights, l.words, l.words),
               table_of(l.unmasked.weights, l.words, l.words), Align::right);
}

void print_contextual(const AttentionLesson& l) {
  print_heading("6", "Weights times values v₁, v₂, v₃: the contextual embeddings.");
  for (const auto* each : {&l.masked, &l.unmasked}) {
    print_text(each == &l.masked ? "With the mask, as in the decoder:"
                                 : "Without it, as in the encoder:");
    Table table;
    for (int64_t i = 0; i < 3; ++i) {
      table.push_back({l.words[static_cast<size_t>(i)], "= " + sum_text(each->weights, i),
                       "= " + vector_text(each->contextual.row(i))});
    }
    print_table(table, Align::left, "    ");
  }
  print_text(fmt::format(
      "The engine, which never stores the table of weights, gives the same weights and "
      "contextual embeddings: all {} numbers agree within {:.1e}, {:.1f}% of the rounding bound.",
      l.masked.compared, l.masked.largest_difference, 100.0 * l.masked.largest_share));
}

void print_second(const AttentionLesson& l) {
  print_heading("", "A second, separate example: here the weights are given. Without the mask:");
  const auto row_text = [&](const Matrix& weights, int64_t row) {
    std::string text = fmt::format("contextual({}) = ", l.words[static_cast<size_t>(row)]);
    for (int64_t key = 0; key < 3; ++key) {
      text += fmt::format("{}{}·{}", key == 0 ? "" : " + ", number(weights.at(row, key)),
                          l.words[static_cast<size_t>(key)]);
    }
    return text;
  };
  const auto print = [&](const Attended& each) {
    for (int64_t row = 0; row < 2; ++row) fmt::print("    {}\n", row_text(each.weights, row));
  };
  print(l.second_unmasked);
  print_text("Both use words that do not exist yet at inference. With the mask:");
  print(l.second_masked);
  print_text(fmt::format(
      "w₁₂ = {}, w₁₃ = {}, w₂₃ = {}, exactly. The weights that remain keep their ratio ({} : {}) "
      "and again sum to 1. (These weights are not the softmax of the scores above: softmax{} = "
      "{}.)",
      number(l.second_masked.engine_weights.at(0, 1), 0),
      number(l.second_masked.engine_weights.at(0, 2), 0),
      number(l.second_masked.engine_weights.at(1, 2), 0), number(l.second_given.at(1, 0)),
      number(l.second_given.at(1, 1)), vector_text(l.scores.row(0), 1),
      vector_text(l.unmasked.weights.row(0))));
  print_text(fmt::format(
      "Some notes give हैं the row {}. It sums to {:.1f}, so no softmax makes it: with these ratios "
      "the row is {}. And a weight of 0.1 is 10%, not 1%.",
      vector_text(l.third_given, 1), l.third_sum, vector_text(l.third_softmax)));
}

void print_heads(const AttentionLesson& l) {
  print_heading("7",
                "Several heads. Each head computes one set of weights per word, so it looks "
                "for one thing. Here are two: the first as above, the second looks at the "
                "previous word.");
  print_beside(table_of(l.head_weights[0], l.words, l.words),
               table_of(l.head_weights[1], l.words, l.words), Align::right);
  print_text("Their outputs are concatenated:");
  Table joined, projected;
  for (int64_t i = 0; i < 3; ++i) {
    joined.push_back({l.words[static_cast<size_t>(i)], vector_text(l.heads_side_by_side.row(i))});
    projected.push_back({l.words[static_cast<size_t>(i)], vector_text(l.projected.row(i))});
  }
  print_table(joined, Align::left);
  print_text("and multiplied by W_O, which here takes half of each head:");
  print_table(projected, Align::left);
  print_heading("8",
                "Add x again (the residual) and bring each row to mean 0 and variance 1 "
                "(layer norm).");
  print_table(table_of(l.after_norm, l.words, {}), Align::right);
  print_text(
      "In a decoder block cross-attention and feed-forward follow, each again with a "
      "residual and a layer norm.");
}

}  // namespace

bool show_attention(const LessonFlags& flags) {
  const AttentionLesson l = teach_attention();
  write_picture(flags, draw_attention(l));
  fmt::print("Attention, step by step, for आप कैसे हैं (how are you).\n");
  print_projections(l);
  print_scores(l);
  print_weights(l);
  print_contextual(l);
  print_second(l);
  print_heads(l);
  return print_verdict(
      l.holds,
      "The mask makes forbidden weights exactly 0, and the others sum to 1. Textbook and engine "
      "agree; a head computed alone has the same bits as both heads computed together.",
      "textbook and engine disagree, or a forbidden weight is not 0.");
}

}  // namespace tril::app
