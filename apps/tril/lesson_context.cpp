#include <fmt/core.h>

#include "lesson.h"

namespace tril::app {
namespace {

void print_layers(const ContextLesson& l) {
  print_heading("1  How far the vectors of \"bank\" are apart (cosine, distance):");
  const auto text = [](const Apart& a) {
    return fmt::format("{:.2f} {:>6.2f}", a.cosine, a.distance);
  };
  std::vector<std::vector<std::string>> table = {
      {"", "river", "river", "money", "mean of pairs", "mean of pairs", "nearest bank"},
      {"", "and money", "and lake", "and savings", "that differ", "that agree", "means the same"}};
  for (const ContextLayer& layer : l.layers) {
    table.push_back({layer.layer == 0 ? "goes in" : fmt::format("layer {}", layer.layer),
                     text(layer.river_money), text(layer.river_lake), text(layer.money_savings),
                     text(layer.other_sense), text(layer.same_sense),
                     layer.layer == 0
                         ? "all equal"
                         : fmt::format("{} of {}", layer.nearest_is_same, l.sentences.size())});
  }
  print_table(table, Align::right);
  fmt::print(
      "  \"bank\" stands at the same place in all, so what goes in is the same, bit for bit: {}.\n"
      "  How far apart they end depends on the model's first weights: try another --seed.\n",
      l.equal_at_first ? "yes" : "NO");
}

// Translations, with what was expected beside those that are something else.
void print_pairs(const std::vector<BankSentence>& sentences,
                 const std::vector<std::string>& translations) {
  std::vector<std::vector<std::string>> table;
  for (size_t i = 0; i < sentences.size(); ++i) {
    const bool right = translations[i] == sentences[i].hindi;
    table.push_back({sentences[i].english, translations[i],
                     right ? "" : fmt::format("← expected: {}", sentences[i].hindi)});
  }
  print_table(table, Align::left);
}

void print_translations(const ContextLesson& l) {
  print_heading(
      fmt::format("2  The translations differ, too ({} of these and the {} below was learnt):",
                  l.learnt == 0 ? "none" : std::to_string(l.learnt), l.told_later.size()));
  print_pairs(l.sentences, l.translations);
  print_heading("3  Here the word that tells comes after \"bank\":");
  print_pairs(l.told_later, l.told_later_translations);
  const int64_t others = static_cast<int64_t>(l.told_later.size()) - 1;
  fmt::print(
      "  The encoder has no causal mask: \"bank\" sees that word. Of the last {} vectors {} "
      "differ\n"
      "  from the first: {} apart on average where the meanings differ, {} where they agree.\n"
      "  The same weights run as a decoder, its mask off, give the same bits as here: {}.\n"
      "  Under the causal mask \"bank\" sees \"at the bank\" alone: {} differ from the first in "
      "any "
      "bit.\n",
      others, l.later_differ, number(l.later_other.distance), number(l.later_same.distance),
      l.twin_is_encoder ? "yes" : "NO", l.differ_under_mask);
  fmt::print(
      "\nOf {} sentences that were not learnt {} have the right word for bank, {} are exactly "
      "right.\n",
      l.held_out, l.right_word, l.exact);
}

}  // namespace

bool show_context(const LessonFlags& flags) {
  ContextOptions options{.seed = flags.seed, .threads = flags.threads};
  options.progress = learning_progress(options.updates, "learning");
  const ContextLesson l = teach_context(options);
  fmt::print(
      "A contextual embedding: \"bank\" beside \"river\" (किनारा) and beside \"money\" (बैंक).\n"
      "Learnt from {} sentences in {} updates.\n",
      l.pairs, l.updates);
  print_layers(l);
  print_translations(l);
  const ContextLayer& last = l.layers.back();
  return print_verdict(
      l.holds,
      fmt::format(
          "One word, one embedding; behind layer {} two meanings are {:.1f} times as far apart\n"
          "         as two of one meaning. Words before it and after it change its vector; under a "
          "causal\n"
          "         mask later ones cannot.",
          last.layer, last.other_sense.distance / last.same_sense.distance),
      "NOT as the lesson says: the two meanings are not apart, a translation is wrong, or a later\n"
      "         word makes no difference where there is no mask.");
}

}  // namespace tril::app
