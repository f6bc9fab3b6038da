#include "tril/lesson/lesson_heads.h"

#include <fmt/core.h>

#include <algorithm>

#include "lesson.h"
#include "output.h"
#include "progress.h"
#include "tril/lesson/phrasebook.h"
#include "tril/lesson/pictures.h"

namespace tril::app {
namespace {

// "encoder 1.2": layer and head, from 1.
std::string name_of(const HeadFigures& head) {
  return fmt::format("{} {}.{}", word_for(head.kind), head.layer + 1, head.head + 1);
}

// The relations that apply to a kind of attention.
std::vector<size_t> relations_of(const HeadsLesson& l, AttentionKind kind) {
  std::vector<size_t> result;
  for (size_t i = 0; i < kHeadRelations; ++i) {
    if (l.even[static_cast<size_t>(kind)][i]) result.push_back(i);
  }
  return result;
}

void print_kind(const HeadsLesson& l, AttentionKind kind) {
  const std::vector<size_t> relations = relations_of(l, kind);
  Table table = {{"layer.head"}};
  for (const size_t i : relations) {
    table[0].emplace_back(word_for(static_cast<HeadRelation>(i)));
  }
  table[0].insert(table[0].end(), {"entropy", "apart", "in a word"});
  table.push_back({"all alike"});
  for (const size_t i : relations) {
    table[1].push_back(number(l.even[static_cast<size_t>(kind)][i].value_or(0.0)));
  }
  table[1].insert(table[1].end(), {"", "", ""});
  for (const HeadFigures& head : l.heads) {
    if (head.kind != kind) continue;
    table.push_back({fmt::format("{}.{}", head.layer + 1, head.head + 1)});
    for (const size_t i : relations) {
      table.back().push_back(head.shares[i] ? number(*head.shares[i]) : "");
    }
    table.back().insert(table.back().end(), {number(head.entropy), number(head.apart),
                                             std::string(head.description())});
  }
  print_table(table, Align::right);
}

void print_looks(const HeadsLesson& l, Seen seen) {
  print_heading(
      "1", fmt::format("Where each head puts its weight: the mean over {} sentences{}, with the "
                       "right words fed. A head that weighs all keys alike would have the shares "
                       "of the first line.",
                       l.sentences,
                       seen == Seen::never ? " it has not seen"
                                           : " (whether it has seen them is not known)"));
  fmt::print("\n  Self-attention of the encoder\n");
  print_kind(l, AttentionKind::encoder);
  fmt::print("\n  Masked self-attention of the decoder (\"first\" is START)\n");
  print_kind(l, AttentionKind::decoder);
  fmt::print("\n  Cross-attention (\"itself\" is the source position of the same number)\n");
  print_kind(l, AttentionKind::cross);
  print_text(fmt::format(
      "\"entropy\" is in bits. \"apart\" is how much of two heads' weight lies on different keys, "
      "averaged over the layer. \"translation\" is the source word that the word to be "
      "written translates, by a lexicon learnt from the training sentences; it is sure of {} of {} "
      "rows, and the others are left out. The last column is a rule: the largest share where it is "
      "at least a half; else \"spread\" where the entropy is at least half of what is possible; "
      "else "
      "\"varied\".",
      l.translated_rows, l.rows));
  print_text(
      fmt::format("The engine never holds these weights. Computed from its queries and keys in "
                  "double, they give "
                  "its outputs within {:.0f}% of what rounding allows, in all {} numbers.",
                  100.0 * l.largest_share, l.compared));
}

void print_switched_off(const HeadsLesson& l) {
  print_heading(
      "2",
      "Each head switched off: its columns of the output projection set to zero. Loss per "
      "token, translations exactly right, BLEU.");
  Table table = {{"", "loss", "", "right", "BLEU"},
                 {"all heads on", number(l.all_on.loss, 3), "", std::to_string(l.all_on.exact),
                  number(l.all_on.bleu, 1)}};
  for (const HeadFigures& head : l.heads) {
    table.push_back({"without " + name_of(head), number(head.without.loss, 3),
                     fmt::format("{:+.3f}", l.cost(head)), std::to_string(head.without.exact),
                     number(head.without.bleu, 1)});
  }
  print_table(table, Align::right);
}

void print_counts(const HeadsLesson& l) {
  if (l.counts.empty()) {
    print_text(
        "Whether more heads translate better is learnt on the phrasebook: run the lesson without "
        "--model.");
    return;
  }
  print_heading("3", fmt::format("The phrasebook learnt with 1, 2, 4 and 8 heads of the same total "
                                 "width: {} updates each, the means of {} seeds.",
                                 l.updates, l.counts.front().runs.size()));
  Table table = {{"heads", "width of each", "loss", "right", "BLEU", "BLEU by seed"}};
  for (const HeadCount& count : l.counts) {
    std::string seeds;
    for (const HeadQuality& run : count.runs) seeds += fmt::format("{:>6.1f}", run.bleu);
    const HeadQuality mean = count.mean();
    table.push_back({std::to_string(count.heads), std::to_string(count.head_dim),
                     number(mean.loss, 3), fmt::format("{} of {}", mean.exact, l.held_out),
                     number(mean.bleu, 1), seeds});
  }
  print_table(table, Align::right);
}

std::string verdict(const HeadsLesson& l) {
  const HeadFigures& most = l.heads[l.most];
  const HeadFigures& least = l.heads[l.least];
  const std::string text = fmt::format(
      "Heads do different things: two heads of a layer have {:.0f}% of their weight on different "
      "words, and {} different descriptions fit them. Without {} the loss goes from {} to {}, "
      "without {} to {}.",
      100.0 * l.apart, l.descriptions, name_of(most), number(l.all_on.loss, 3),
      number(most.without.loss, 3), name_of(least), number(least.without.loss, 3));
  if (l.counts.empty()) return text;
  const HeadCount& one = l.counts.front();
  const HeadCount& many = l.counts.back();
  return text + fmt::format(
                    " More heads help here: after {} updates BLEU is {} with {} heads of width {} "
                    "and {} with one of width {}; the loss is lower for {} of {} seeds.",
                    l.updates, number(many.mean().bleu, 1), many.heads, many.head_dim,
                    number(one.mean().bleu, 1), one.head_dim, l.lower_loss, many.runs.size());
}

std::string what_is_wrong(const HeadsLesson& l) {
  std::string text;
  const auto add = [&](bool good, const char* reason) {
    if (!good) text += (text.empty() ? "" : "; ") + std::string(reason);
  };
  add(l.checked(), "the weights do not give the engine's outputs");
  add(l.differ(), "the heads look at much the same");
  add(l.matter(), "no head is missed much");
  add(l.counts.empty() || l.improve(), "more heads do not translate better");
  return text + ".";
}

}  // namespace

bool show_heads(const LessonFlags& flags) {
  const Phrasebook phrasebook = make_phrasebook();
  const Subject subject = find_translator(flags, phrasebook);
  HeadsOptions options{.seed = flags.seed, .threads = flags.threads};
  if (!flags.model.empty()) options.counts.clear();
  const int64_t updates = std::ssize(options.counts) * options.seeds * options.updates;
  const auto learning = learning_progress(std::max<int64_t>(updates, 1), "1 to 8 heads");
  options.learning = [&](int64_t update, int64_t /*updates*/, double loss) {
    learning(update, loss);
  };
  ProgressLine line;
  options.switching = [&](int64_t head, int64_t heads) {
    if (head == heads) {
      line.clear();
    } else {
      line.part("switching heads off", head, heads);
    }
  };
  const HeadsLesson l = teach_heads(subject.translator, phrasebook, options);
  write_picture(flags, draw_heads(l));
  if (l.left_out > 0) {
    message(fmt::format("{} sentences are longer than the model can read and are left out\n",
                        l.left_out));
  }
  fmt::print("{}", set_text("Several heads: what each of them looks at, what is lost without it, "
                            "and whether more of them translate better.",
                            "", ""));
  print_looks(l, subject.seen);
  print_switched_off(l);
  print_counts(l);
  return print_verdict(l.holds, verdict(l), what_is_wrong(l));
}

}  // namespace tril::app
