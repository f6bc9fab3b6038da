// How to translate or to generate: tril.Options, with the names of tril's own settings.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "tril/translate/translator.h"
#include "words.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

void bind_options(nb::module_& module) {
  using Options = TranslateOptions;
  nb::class_<Options> options(module, "Options");
  options.def(nb::init<>());
  const auto setting = [&](const char* name, auto SearchSettings::*field) {
    options.def_prop_rw(
        name, [field](const Options& o) { return o.search.*field; },
        [field](Options& o, decltype(SearchSettings{}.*field) value) { o.search.*field = value; },
        nb::for_setter(nb::arg("value").none()));
  };
  setting("beam", &SearchSettings::beam);
  setting("n_best", &SearchSettings::n_best);
  setting("length_penalty", &SearchSettings::length_penalty);
  setting("rank_prefix", &SearchSettings::rank_prefix);
  setting("max_tokens", &SearchSettings::max_tokens);
  setting("min_tokens", &SearchSettings::min_tokens);
  setting("max_ratio", &SearchSettings::max_ratio);
  setting("no_repeat_ngram", &SearchSettings::no_repeat_ngram);
  setting("repetition_penalty", &SearchSettings::repetition_penalty);
  setting("renormalize", &SearchSettings::renormalize);
  setting("sample", &SearchSettings::sample);
  setting("temperature", &SearchSettings::temperature);
  setting("top_k", &SearchSettings::top_k);
  setting("top_p", &SearchSettings::top_p);
  setting("seed", &SearchSettings::seed);
  const auto word = [&](const char* name, auto field) {
    options.def_prop_rw(
        name,
        [field](const Options& o) -> std::optional<std::string> {
          const auto& value = o.search.*field;
          if (!value) return std::nullopt;
          return std::string(word_for(*value));
        },
        [name, field](Options& o, const std::optional<std::string>& text) {
          auto& value = o.search.*field;
          using Enum = typename std::remove_reference_t<decltype(value)>::value_type;
          value = text ? std::optional(from_word<Enum>(name, *text)) : std::nullopt;
        },
        nb::for_setter(nb::arg("value").none()));
  };
  word("early_stopping", &SearchSettings::early_stopping);
  word("cut", &SearchSettings::cut);
  options.def_rw("forbidden", &Options::forbidden)
      .def_rw("force_end", &Options::force_end, nb::for_setter(nb::arg("value").none()))
      .def_rw("slots", &Options::slots)
      .def_rw("alignments", &Options::alignments)
      .def_rw("window", &Options::window)
      .def_prop_rw(
          "skip_bad_lines", [](const Options& o) { return o.bad_lines == BadLine::skip; },
          [](Options& o, bool skip) { o.bad_lines = skip ? BadLine::skip : BadLine::error; })
      .def_prop_rw(
          "from_language", [](const Options& o) { return o.languages.from; },
          [](Options& o, const std::string& code) { o.languages.from = code; })
      .def_prop_rw(
          "to_language", [](const Options& o) { return o.languages.to; },
          [](Options& o, const std::string& code) { o.languages.to = code; })
      .def(
          "use_shortlist",
          [](Options& o, const std::string& folder) { o.shortlist = Shortlist::load(folder); },
          "folder"_a, "Chooses among the pieces of the folder's shortlist alone.");
}

}  // namespace tril::python
