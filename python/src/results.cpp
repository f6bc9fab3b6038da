// What translating and scoring give: tril.Translation, tril.Hypothesis, tril.Score, tril.Step.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "flow.h"
#include "tril/translate/translator.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Weights = nb::ndarray<nb::numpy, const double, nb::ndim<2>>;

// A view of the hypothesis's own numbers, which it keeps alive.
Weights attention_of(nb::handle_t<TextHypothesis> self) {
  const auto& alignment = nb::cast<const TextHypothesis&>(self).alignment;
  return Weights(alignment.weights.data(),
                 {static_cast<size_t>(alignment.target), static_cast<size_t>(alignment.source)},
                 self);
}

std::vector<std::pair<int32_t, int32_t>> links_of(const TextHypothesis& hypothesis) {
  std::vector<std::pair<int32_t, int32_t>> links;
  for (const WordLink& link : hypothesis.links) links.emplace_back(link.source, link.target);
  return links;
}

std::vector<std::string> texts_of(const Translation& translation) {
  std::vector<std::string> texts;
  for (const TextHypothesis& hypothesis : translation.hypotheses) texts.push_back(hypothesis.text);
  return texts;
}

std::vector<double> scores_of(const Translation& translation) {
  std::vector<double> scores;
  for (const TextHypothesis& hypothesis : translation.hypotheses)
    scores.push_back(hypothesis.score);
  return scores;
}

}  // namespace

void bind_results(nb::module_& module) {
  nb::class_<TextHypothesis>(module, "Hypothesis", "One candidate translation, with its tokens.")
      .def_ro("text", &TextHypothesis::text)
      .def_ro("tokens", &TextHypothesis::tokens,
              "Ids as they were chosen: a forced prefix and END included.")
      .def_ro("pieces", &TextHypothesis::pieces, "The subword of each token.")
      .def_ro("log_probs", &TextHypothesis::log_probs, "Of each token.")
      .def_ro("score", &TextHypothesis::score, "The sum of the log-probabilities.")
      .def_ro("rank", &TextHypothesis::rank,
              "What hypotheses are ordered by: the score over length ** length_penalty.")
      .def_ro("ended", &TextHypothesis::ended,
              "False if it was cut at a limit, so that the text is incomplete.")
      .def_prop_ro("links", &links_of,
                   "With return_alignments: pairs of a source word and a target word, from 0.")
      .def_prop_ro("attention", &attention_of,
                   nb::sig("def attention(self) -> numpy.typing.NDArray[numpy.float64]"),
                   "With return_alignments: the weights [target token, source token] of the "
                   "cross-attention, as a NumPy array that shares this object's memory.")
      .def("__repr__", [](const TextHypothesis& h) {
        return nb::str("Hypothesis(text={!r}, score={:.6g})").format(h.text, h.score);
      });
  nb::class_<Translation>(module, "Translation",
                          "One line's translations, best first (samples in the order drawn).")
      .def_prop_ro(
          "text", [](const Translation& t) { return t.text(); }, "The best.")
      .def_prop_ro("hypotheses", &texts_of, "The texts, best first.")
      .def_prop_ro("scores", &scores_of, "The log-probability of each.")
      .def_ro("details", &Translation::hypotheses, "The same with tokens, ranks and alignments.")
      .def_ro("number", &Translation::number, "Of the line, from 0 or first_number.")
      .def_ro("skipped", &Translation::skipped,
              "With bad_lines='skip': why the line was not translated; empty if it was.")
      .def("__str__", [](const Translation& t) { return t.text(); })
      .def("__repr__",
           [](const Translation& t) { return nb::str("Translation(text={!r})").format(t.text()); });
  nb::class_<TextScore>(module, "Score", "The log-probability of a given target.")
      .def_ro("number", &TextScore::number)
      .def_ro("tokens", &TextScore::tokens)
      .def_ro("pieces", &TextScore::pieces)
      .def_ro("log_probs", &TextScore::log_probs, "Of each token, END included.")
      .def_ro("score", &TextScore::score, "Their sum.")
      .def_ro("skipped", &TextScore::skipped)
      .def("__repr__", [](const TextScore& s) {
        return nb::str("Score(score={:.6g}, tokens={})").format(s.score, s.tokens.size());
      });
  nb::class_<Step>(module, "Step", "The part of a translation that has become certain.")
      .def_ro("number", &Step::number, "Of the line.")
      .def_ro("sample", &Step::sample, "Which sample, where several are drawn.")
      .def_ro("tokens", &Step::tokens, "The ids that are new since the last step.")
      .def_ro("log_probs", &Step::log_probs, "Of each.")
      .def_ro("text", &Step::text, "All of the text so far; it only grows.")
      .def("__repr__", [](const Step& s) {
        return nb::str("Step(number={}, text={!r})").format(s.number, s.text);
      });
}

}  // namespace tril::python
