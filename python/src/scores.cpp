// BLEU, chrF and chrF++ of translations, as `tril evaluate` computes them.
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bind.h"
#include "tril/text/bleu.h"
#include "tril/text/chrf.h"
#include "words.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

BleuTokenizer tokenizer_named(const std::string& name) {
  constexpr std::string_view kNames[] = {"13a", "intl", "char", "none"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  require(found != std::end(kNames), ErrorCode::invalid_argument,
          "tokenize: expected one of 13a, intl, char, none, got '", name, "'");
  return static_cast<BleuTokenizer>(found - std::begin(kNames));
}

struct Evaluation {
  explicit Evaluation(const std::string& tokenize) { bleu.tokenizer = tokenizer_named(tokenize); }

  void add(const std::string& hypothesis, const std::vector<std::string>& references) {
    const std::vector<std::string_view> views(references.begin(), references.end());
    bleu.add(hypothesis, views);
    chrf.add(hypothesis, views);
    chrf_words.add(hypothesis, views);
    exact +=
        std::find(references.begin(), references.end(), hypothesis) != references.end() ? 1 : 0;
  }
  std::string text() const {
    return concat(to_string(tril::bleu(bleu)), "\n", to_string(tril::chrf(chrf)), "\n",
                  to_string(tril::chrf(chrf_words)), "\nexact match: ", exact, " of ",
                  bleu.segments);
  }

  BleuStatistics bleu;
  ChrfStatistics chrf;
  ChrfStatistics chrf_words{.word_orders = 2};
  int64_t exact = 0;
};

}  // namespace

void bind_scores(nb::module_& module) {
  nb::class_<Evaluation>(module, "Evaluation",
                         "BLEU, chrF and chrF++ of a corpus, equal to sacreBLEU's.")
      .def(nb::init<const std::string&>(), "tokenize"_a = "13a")
      .def("add", &Evaluation::add, "hypothesis"_a, "references"_a, "Adds one segment.")
      .def_prop_ro(
          "bleu", [](const Evaluation& e) { return bleu(e.bleu).score; }, "0 to 100.")
      .def_prop_ro("precisions", [](const Evaluation& e) { return bleu(e.bleu).precisions; })
      .def_prop_ro("brevity_penalty",
                   [](const Evaluation& e) { return bleu(e.bleu).brevity_penalty; })
      .def_prop_ro(
          "chrf", [](const Evaluation& e) { return chrf(e.chrf).score; }, "0 to 100.")
      .def_prop_ro("chrf_plus_plus", [](const Evaluation& e) { return chrf(e.chrf_words).score; })
      .def_prop_ro("bleu_signature", [](const Evaluation& e) { return signature(bleu(e.bleu)); })
      .def_prop_ro("chrf_signature", [](const Evaluation& e) { return signature(chrf(e.chrf)); })
      .def_ro("exact", &Evaluation::exact, "Translations equal to a reference.")
      .def_prop_ro("segments", [](const Evaluation& e) { return e.bleu.segments; })
      .def("__str__", &Evaluation::text)
      .def("__repr__", [](const Evaluation& e) {
        return concat("Evaluation(segments=", e.bleu.segments,
                      e.bleu.segments > 0 ? ", bleu=" + fixed(bleu(e.bleu).score, 2) : "", ")");
      });
}

}  // namespace tril::python
