#include "tril/lesson/lesson_context.h"

#include <fmt/core.h>

#include "lesson.h"
#include "tril/lesson/bank_sentences.h"
#include "tril/lesson/pictures.h"

namespace tril::app {
namespace {

void print_layers(const ContextLesson& l) {
  print_heading("1", "How far apart the vectors of \"bank\" are (cosine, distance):");
  const auto text = [](const Apart& a) {
    return fmt::format("{:.2f} {:>6.2f}", a.cosine, a.distance);
  };
  std::vector<std::vector<std::string>> table = {
      {"", "river,", "river,", "money,", "two", "one", "nearest is"},
      {"", "money", "lake", "savings", "meanings", "meaning", "the same"}};
  for (const ContextLayer& layer : l.layers) {
    table.push_back({layer.layer == 0 ? "input" : fmt::format("layer {}", layer.layer),
                     text(layer.river_money), text(layer.river_lake), text(layer.money_savings),
                     text(layer.other_sense), text(layer.same_sense),
                     layer.layer == 0
                         ? "all equal"
                         : fmt::format("{} of {}", layer.nearest_is_same, l.sentences.size())});
  }
  print_table(table, Align::right);
  print_text(fmt::format(
      "The columns \"two meanings\" and \"one meaning\" are means over all pairs of the eight "
      "sentences below; the last column counts the sentences whose nearest neighbour has the same "
      "meaning. \"bank\" stands at the same position in all of them, so its input vector is the "
      "same, bit for bit: {}. How far apart the vectors end depends on the initial weights: try "
      "another --seed.",
      l.equal_at_first ? "yes" : "NO"));
}

// Translations; where one differs, the expected one beside it.
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
      "2", fmt::format("The translations differ, too. ({} of these sentences and the {} "
                       "below was in the training text.)",
                       l.learnt == 0 ? "None" : std::to_string(l.learnt), l.told_later.size()));
  print_pairs(l.sentences, l.translations);
  print_heading("3", "Here the word that disambiguates comes after \"bank\":");
  print_pairs(l.told_later, l.told_later_translations);
  const int64_t others = std::ssize(l.told_later) - 1;
  print_text(fmt::format(
      "The encoder has no causal mask, so \"bank\" sees that word. {} of the {} other vectors "
      "differ "
      "from the first; the mean distance is {} between two meanings and {} within one. The same "
      "weights run as a decoder with its mask off give the same bits as the encoder: {}. Under the "
      "causal mask \"bank\" sees only \"at the bank\", and {} of the vectors differ from the "
      "first.",
      l.later_differ, others, number(l.later_other.distance), number(l.later_same.distance),
      l.twin_is_encoder ? "yes" : "NO",
      l.differ_under_mask == 0 ? "none" : std::to_string(l.differ_under_mask)));
  print_heading("4", fmt::format("Of {} sentences that were not in the training text, {} have the "
                                 "right word for bank and {} are exactly right.",
                                 l.held_out, l.right_word, l.exact));
}

}  // namespace

bool show_context(const LessonFlags& flags) {
  ContextOptions options{.seed = flags.seed, .threads = flags.threads};
  options.progress = learning_progress(options.updates, "learning");
  const ContextLesson l = teach_context(options);
  write_picture(flags, draw_context(l));
  fmt::print("{}",
             set_text(fmt::format("A contextual embedding: \"bank\" beside \"river\" (किनारा) "
                                  "and beside \"money\" (बैंक). Learnt from {} sentences in "
                                  "{} updates.",
                                  l.pairs, l.updates),
                      "", ""));
  print_layers(l);
  print_translations(l);
  const ContextLayer& last = l.layers.back();
  return print_verdict(
      l.holds,
      fmt::format("One word, one embedding. After layer {} the vectors of two meanings are {:.1f} "
                  "times as far apart as those of one meaning. Words before it and after it change "
                  "its vector; under a causal mask later words cannot.",
                  last.layer, last.other_sense.distance / last.same_sense.distance),
      "the two meanings are not apart, a translation is wrong, or a later word makes no difference "
      "where there is no mask.");
}

}  // namespace tril::app
