// prove() and explain(): what tril shows about a model.
#include "tril/prove/proof.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <tuple>

#include "bind.h"
#include "model.h"
#include "tril/explain/explain.h"
#include "tril/prove/pairs.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using ProgressCallback = nb::typed<nb::callable, nb::object(std::string, int64_t, int64_t)>;

constexpr int64_t kMostTokens = 48;  // per side, so that a proof does not take for ever

// A model that was loaded to look at it: with its weights as they were learnt.
struct Study {
  Loading loading;
  Held<Translator> translator;
};

Study* load_to_study(const std::string& folder, const std::string& device, int threads) {
  begin_use();
  const Loading loading{folder, device, "default", threads};
  const WithoutGil unlocked;
  return new Study{loading, Held(load(loading, Purpose::study, nullptr))};
}

// The pairs of a proof, as the model reads them.
std::vector<TokenPair> pairs_of(const Translator& translator, const std::vector<std::string>& texts,
                                const std::optional<std::vector<std::string>>& targets,
                                const LanguagePair& languages) {
  const TransformerConfig& config = translator.model().config();
  const Tokenizer& tokenizer = translator.tokenizer();
  const int64_t most = std::min<int64_t>(kMostTokens, config.max_length);
  if (texts.empty()) return random_pairs(config, 8, std::min<int64_t>(10, most), 1);
  const int32_t start = tokenizer.has_start() ? tokenizer.start(languages) : tokenizer.end();
  std::vector<Translation> written;
  if (!config.decoder_only() && !targets) {
    TranslateOptions options;
    options.search.beam = 1;
    options.search.max_tokens = most - 1;
    options.languages = languages;
    written = translator.translate(texts, options);
  }
  std::vector<TokenPair> pairs;
  for (size_t i = 0; i < texts.size(); ++i) {
    TokenPair pair{.source = {}, .target = {start}, .next = tokenizer.end()};
    std::vector<int32_t> target;
    if (config.decoder_only()) {
      target = tokenizer.encode(texts[i], TextSide::target);
    } else {
      pair.source = tokenizer.encode_source(texts[i], languages);
      require(std::ssize(pair.source) <= most, ErrorCode::invalid_argument, "prove: text ", i + 1,
              " has ", pair.source.size(), " tokens, at most ", most, " are used");
      if (targets) {
        target = translator.forced_first(languages);
        const auto rest = tokenizer.encode((*targets)[i], TextSide::target);
        target.insert(target.end(), rest.begin(), rest.end());
      } else {
        const TextHypothesis& best = written[i].hypotheses.front();
        target = best.tokens;
        if (best.ended && !target.empty()) target.pop_back();
      }
    }
    if (std::ssize(target) + 1 > most) {
      pair.next = target[static_cast<size_t>(most - 1)];
      target.resize(static_cast<size_t>(most - 1));
    }
    pair.target.insert(pair.target.end(), target.begin(), target.end());
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

struct ProofResult {
  ProofReport report;
  double seconds = 0.0;
};

ProofResult prove_model(const Study& study, const std::vector<std::string>& texts,
                        const std::optional<std::vector<std::string>>& targets, bool masked,
                        bool full, const std::string& from, const std::string& to,
                        const std::optional<ProgressCallback>& progress) {
  begin_use();
  require(!targets || targets->size() == texts.size(), ErrorCode::invalid_argument,
          "prove: ", texts.size(), " texts, but ", targets ? targets->size() : 0, " targets");
  const auto started = std::chrono::steady_clock::now();
  WithoutGil unlocked;
  const Translator& translator = *study.translator;
  const LanguagePair languages = translator.languages_for({from, to});
  const std::vector<TokenPair> pairs = pairs_of(translator, texts, targets, languages);
  ProofOptions options;
  options.threads = study.loading.threads;
  options.masking = masked ? Masking::causal : Masking::none;
  options.full = full;
  options.end = translator.tokenizer().end();
  options.forbidden = translator.tokenizer().unwritable();
  options.forced = translator.forced_first(languages);
  options.progress = [&](std::string_view what, int64_t done, int64_t all) {
    unlocked.with([&] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (progress) (*progress)(std::string(what), done, all);
    });
  };
  ProofResult proof{prove_in_full(translator.model(), pairs, options)};
  proof.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return proof;
}

std::vector<std::string> failed_of(const ProofResult& proof) {
  std::vector<std::string> words;
  for (const Section section : proof.report.failed()) words.emplace_back(word_for(section));
  return words;
}

// How the model wrote, in what company, whether it holds, numbers compared, numbers that differ.
using AgreementRow = std::tuple<std::string, std::string, bool, int64_t, int64_t>;
std::vector<AgreementRow> agreement_of(const ProofResult& proof) {
  std::vector<AgreementRow> rows;
  for (const AgreementLine& line : proof.report.agreement) {
    rows.emplace_back(word_for(line.writing), word_for(line.company), line.holds(),
                      line.figures.logits, line.figures.differing);
  }
  return rows;
}

struct Page {
  Explanation explanation;
  std::string html;
};

Page explain_sentence(const Study& study, const std::string& sentence,
                      const std::optional<std::string>& target, std::optional<int64_t> beam,
                      const std::string& from, const std::string& to) {
  begin_use();
  const WithoutGil unlocked;
  ExplainOptions options;
  options.search.beam = beam;
  options.languages = {from, to};
  options.target = target;
  options.threads = study.loading.threads;
  Page page{explain(*study.translator, sentence, options), ""};
  page.html = explain_page(page.explanation);
  return page;
}

}  // namespace

void bind_proof(nb::module_& module) {
  nb::class_<Study>(module, "Study", "A model folder, loaded to look at it.")
      .def(nb::new_(&load_to_study), "folder"_a, "device"_a = "cpu", "threads"_a = 0)
      .def("prove", &prove_model, "texts"_a, "targets"_a = nb::none(), "masked"_a = true,
           "full"_a = false, "from_language"_a = "", "to_language"_a = "",
           "progress"_a = nb::none())
      .def("explain", &explain_sentence, "sentence"_a, "target"_a = nb::none(),
           "beam"_a = nb::none(), "from_language"_a = "", "to_language"_a = "");
  nb::class_<ProofResult>(module, "Proof")
      .def_prop_ro("holds", [](const ProofResult& p) { return p.report.holds(); })
      .def_prop_ro("failed", &failed_of)
      .def_prop_ro("agreement", &agreement_of)
      .def_prop_ro("sentences", [](const ProofResult& p) { return p.report.sentences; })
      .def_prop_ro("positions", [](const ProofResult& p) { return p.report.positions; })
      .def_prop_ro("logits_compared",
                   [](const ProofResult& p) {
                     int64_t sum = 0;
                     for (const AgreementLine& line : p.report.agreement)
                       sum += line.figures.logits;
                     return sum;
                   })
      .def_prop_ro("logits_differing",
                   [](const ProofResult& p) {
                     int64_t sum = 0;
                     for (const AgreementLine& line : p.report.agreement)
                       sum += line.figures.differing;
                     return sum;
                   })
      .def_prop_ro("positions_poisoned",
                   [](const ProofResult& p) { return p.report.leaks.poisoned; })
      .def_prop_ro("heads_leaking",
                   [](const ProofResult& p) { return p.report.leaks.heads_leaking.size(); })
      .def_prop_ro("without_gradients",
                   [](const ProofResult& p) { return p.report.without_gradients; })
      .def_ro("seconds", &ProofResult::seconds);
  nb::class_<Page>(module, "Page")
      .def_ro("html", &Page::html)
      .def_prop_ro("sentence", [](const Page& p) { return p.explanation.sentence; })
      .def_prop_ro("target_text", [](const Page& p) { return p.explanation.target_text; })
      .def_prop_ro("written_text", [](const Page& p) { return p.explanation.written_text; })
      .def_prop_ro("numbers_compared", [](const Page& p) { return p.explanation.numbers_compared; })
      .def_prop_ro("numbers_differing",
                   [](const Page& p) { return p.explanation.numbers_differing; })
      .def_prop_ro("training_calls", [](const Page& p) { return p.explanation.parallel_calls; })
      .def_prop_ro("decoding_calls", [](const Page& p) { return p.explanation.stepwise_calls; });
}

}  // namespace tril::python
