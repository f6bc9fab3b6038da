#include "tril/lesson/lesson_decoding.h"

#include <fmt/core.h>

#include "lesson.h"
#include "output.h"
#include "tril/lesson/phrasebook.h"
#include "tril/lesson/pictures.h"
#include "tril/text/display.h"

namespace tril::app {
namespace {

std::string of(int64_t part, int64_t all) { return fmt::format("{} of {}", part, all); }

void print_three_ways(const DecodingLesson& l) {
  print_heading("1", fmt::format("{} sentences decoded in three ways, {} tokens. Each way is given "
                                 "the tokens written with the cache, and chooses the next.",
                                 l.sentences, l.cached.tokens));
  const auto compared = [](const DecodingWay& way, int64_t count, int64_t all) {
    return way.logits == 0 ? std::string("–") : of(count, all);
  };
  Table table = {{"", "with a cache", "recomputed, masked", "recomputed, no mask"},
                 {"calls of forward()"},
                 {"positions computed"},
                 {"logits that differ in any bit"},
                 {"tokens that differ"},
                 {"translations that differ"}};
  for (const DecodingWay* way : {&l.cached, &l.masked, &l.unmasked}) {
    table[1].push_back(std::to_string(way->calls));
    table[2].push_back(std::to_string(way->positions));
    table[3].push_back(compared(*way, way->logits_differing, way->logits));
    table[4].push_back(compared(*way, way->tokens_differing, way->tokens));
    table[5].push_back(compared(*way, way->translations_differing, l.sentences));
  }
  print_table(table, Align::right);
  if (l.examples.empty()) return;
  fmt::print("\n");
  Table examples = {{"", "cache, or masked", "recomputed, no mask"}};
  for (const DecodingExample& e : l.examples) {
    const auto shown = [](const std::string& text) {
      return text.empty() ? std::string("(nothing)") : escaped(text);
    };
    examples.push_back({escaped(e.english), shown(e.cached), shown(e.unmasked)});
  }
  print_table(examples, Align::left);
}

void print_why(const DecodingLesson& l) {
  print_heading("2", "Why? Keys and values of earlier tokens that are not those in the cache:");
  Table table = {{"decoder layer", "recomputed, masked", "recomputed, no mask"}};
  for (size_t layer = 0; layer < l.layers.size(); ++layer) {
    const DecodingLayer& at = l.layers[layer];
    table.push_back({std::to_string(layer + 1), of(at.differing_masked, at.values),
                     of(at.differing_unmasked, at.values)});
  }
  print_table(table, Align::right);
  print_text(
      "With a cache the mask hides nothing: no token after the newest exists. Recomputed, it is "
      "needed. Without it an earlier token sees later ones, its output changes, and with it its "
      "keys and values in the next layer. In the first layer they come from the embeddings alone, "
      "and the newest token may see everything in any case.");
  print_text(fmt::format(
      "So one layer does not need it: a copy of this model with its first decoder layer alone, "
      "recomputed without the mask, differs from its own cache in {} of {} logits.",
      l.one_layer.logits_differing, l.one_layer.logits));
}

void print_guessing(const DecodingLesson& l) {
  print_heading("3", "Guess and check: fewer calls, the same bits.");
  print_text(
      "A table of which token most often follows the last two, counted in the phrasebook and in "
      "what was written so far, guesses several tokens. One masked "
      "call reads them all. Guesses are accepted as long as they are what the model chooses; its "
      "own token follows, the rest is taken back.");
  Table table = {{"guesses per call", "calls", "per sentence", "positions", "guesses accepted",
                  "logits that differ"}};
  const auto add = [&](const std::string& name, const DecodingWay& way,
                       const std::string& accepted) {
    table.push_back({name, std::to_string(way.calls),
                     number(static_cast<double>(way.calls) / static_cast<double>(l.sentences), 2),
                     std::to_string(way.positions), accepted,
                     way.logits == 0 ? std::string("–") : of(way.logits_differing, way.logits)});
  };
  add("none", l.cached, "–");
  for (const GuessRun& run : l.guessing) {
    add(std::to_string(run.guesses), run.way, of(run.accepted, run.guessed));
  }
  add(fmt::format("{}, no mask", l.guessing_unmasked.guesses), l.guessing_unmasked.way,
      of(l.guessing_unmasked.accepted, l.guessing_unmasked.guessed));
  print_table(table, Align::right);
  print_text(fmt::format(
      "Under the mask every accepted token and the logits that chose it are those of one call per "
      "token. Without it, a token would be chosen with the guesses after it in sight: {} of {} "
      "translations come out differently.",
      l.guessing_unmasked.way.translations_differing, l.sentences));
}

}  // namespace

bool show_decoding(const LessonFlags& flags) {
  const Phrasebook phrasebook = make_phrasebook();
  const Subject subject = find_translator(flags, phrasebook);
  std::vector<std::string> lines;
  for (const PhrasePair& phrase : phrasebook.train) lines.push_back(phrase.hindi);
  const DecodingLesson l =
      teach_decoding(subject.translator, phrasebook.held_out, lines, {.threads = flags.threads});
  write_picture(flags, draw_decoding(l));
  if (l.left_out > 0) {
    message(fmt::format("{} sentences are longer than the model can read and are left out\n",
                        l.left_out));
  }
  if (l.cut > 0) {
    message(fmt::format("{} of {} translations do not end within {} tokens and are cut\n", l.cut,
                        l.sentences, DecodingOptions{}.max_tokens));
  }
  fmt::print("Decoding: is the mask used in inference, and must it be one call per token?\n");
  print_three_ways(l);
  print_why(l);
  print_guessing(l);
  return print_verdict(
      l.holds,
      fmt::format(
          "With a cache, and recomputed under the mask, the logits are the same bits. {} Each "
          "token "
          "depends on all before it, yet the calls can be fewer: {} instead of {}, with the same "
          "bits.",
          l.decoder_layers > 1
              ? "Recomputed without the mask the logits change, unless the decoder has only one "
                "layer."
              : "This decoder has one layer, so they are the same without the mask too.",
          l.calls_with_guessing, l.calls_one_by_one),
      "two ways that should be one function differ, or the mask made no difference where it "
      "should, or guessing saved no call.");
}

}  // namespace tril::app
