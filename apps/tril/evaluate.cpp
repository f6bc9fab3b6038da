#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "decoding.h"
#include "flags.h"
#include "lines.h"
#include "loading.h"
#include "output.h"
#include "output_files.h"
#include "progress.h"
#include "terminal.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

struct EvaluateFlags {
  std::string model;  // empty: --hypothesis says what to evaluate
  std::string source, hypothesis, output;
  std::vector<std::string> references;
  BleuTokenizer tokenizer = BleuTokenizer::v13a;
  TranslateOptions options;
  int threads = 0;
  std::optional<Device> device;
  std::optional<Compute> compute;
  bool json = false, shortlist = false, strict = false, trust = false;
};

// A line of references: it must be complete, or the scores would be of something else.
bool next_reference(LineReader& file, std::string& line) {
  if (!file.next(line)) return false;
  require(!file.too_long(), ErrorCode::invalid_argument, file.path(), ": line ", file.number(),
          ": ", fault_of(file, "it"));
  return true;
}

// One line from each file of references; all must end together.
class References {
 public:
  explicit References(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) files_.push_back(open_lines(path));
  }

  // The references for the next line. `other` is the file they must match in length.
  std::vector<std::string> next(const std::string& other) {
    std::vector<std::string> result(files_.size());
    for (size_t i = 0; i < files_.size(); ++i) {
      require(next_reference(files_[i], result[i]), ErrorCode::invalid_argument, files_[i].path(),
              " ends after ", files_[i].number(), " lines, ", other, " has more");
    }
    return result;
  }
  void check_end(const std::string& other, int64_t lines) {
    std::string more;
    for (LineReader& file : files_) {
      require(!file.next(more), ErrorCode::invalid_argument, other, " ends after ", lines,
              " lines, ", file.path(), " has more");
    }
  }

 private:
  std::vector<LineReader> files_;
};

struct Scores {
  BleuStatistics bleu;
  ChrfStatistics chrf;
  ChrfStatistics chrf_words{.word_orders = 2};
  int64_t exact = 0;

  void add(const std::string& hypothesis, const std::vector<std::string>& references) {
    const std::vector<std::string_view> views(references.begin(), references.end());
    bleu.add(hypothesis, views);
    chrf.add(hypothesis, views);
    chrf_words.add(hypothesis, views);
    if (std::find(references.begin(), references.end(), hypothesis) != references.end()) ++exact;
  }
};

// A score as sacreBLEU prints it; on a terminal that is too narrow the figures go below the
// signature.
void print_score(const std::string& line) {
  const size_t figures = line.find(" = ");
  if (!is_terminal(Stream::out) || display_width(line) <= columns() ||
      figures == std::string::npos) {
    fmt::print("{}\n", line);
    return;
  }
  fmt::print("{}\n  {}\n", line.substr(0, figures), line.substr(figures + 1));
}

void print(const Scores& scores, const EvaluateFlags& flags) {
  const BleuScore bleu_score = bleu(scores.bleu);
  const ChrfScore chrf_score = chrf(scores.chrf);
  const ChrfScore words_score = chrf(scores.chrf_words);
  if (!flags.json) {
    print_score(to_string(bleu_score));
    print_score(to_string(chrf_score));
    print_score(to_string(words_score));
    fmt::print("exact match: {} of {}\n", scores.exact, scores.bleu.segments);
    return;
  }
  const nlohmann::ordered_json document = {
      {"segments", scores.bleu.segments},
      {"exact", scores.exact},
      {"bleu",
       {{"score", bleu_score.score},
        {"precisions", bleu_score.precisions},
        {"brevity_penalty", bleu_score.brevity_penalty},
        {"hypothesis_length", scores.bleu.hypothesis_length},
        {"reference_length", scores.bleu.reference_length},
        {"signature", signature(bleu_score)}}},
      {"chrf", {{"score", chrf_score.score}, {"signature", signature(chrf_score)}}},
      {"chrf++", {{"score", words_score.score}, {"signature", signature(words_score)}}}};
  fmt::print("{}\n", document.dump(2));
}

// Here only a reference can be at fault.
void add(Scores& scores, const std::string& hypothesis, const std::vector<std::string>& references,
         const EvaluateFlags& flags, int64_t line) {
  try {
    scores.add(hypothesis, references);
  } catch (const Error& error) {
    fail(error.code(), flags.references.front(), ": line ", line, ": ", error.what());
  }
}

Scores empty_scores(const EvaluateFlags& flags) {
  Scores scores;
  scores.bleu.tokenizer = flags.tokenizer;
  return scores;
}

// Why the translation last read cannot be scored; empty: it can.
std::string fault_of_hypothesis(const LineReader& hypotheses, const std::string& line) {
  std::string fault = fault_of(hypotheses, "it");
  if (!fault.empty()) return fault;
  const auto place = first_invalid_utf8(line);
  return place ? concat("it is not UTF-8 at byte ", *place + 1) : "";
}

// A translation that cannot be used counts as an empty one.
class BadTranslations {
 public:
  explicit BadTranslations(const EvaluateFlags& flags) : strict_(flags.strict) {}

  void tell(const std::string& file, int64_t line, const std::string& why) {
    require(!strict_, ErrorCode::invalid_argument, file, ": line ", line, ": ", why);
    lines_.tell(line, why + "; it counts as an empty translation");
  }
  void raise() const { lines_.raise(); }

 private:
  const bool strict_;
  BadLineCount lines_;
};

// Scores a file of translations against the references.
void evaluate_file(const EvaluateFlags& flags) {
  Scores scores = empty_scores(flags);
  LineReader hypotheses = open_lines(flags.hypothesis);
  References references(flags.references);
  BadTranslations bad(flags);
  for (std::string line; hypotheses.next(line);) {
    const std::string fault = fault_of_hypothesis(hypotheses, line);
    if (!fault.empty()) {
      bad.tell(hypotheses.path(), hypotheses.number(), fault);
      line.clear();
    }
    const auto expected = references.next(hypotheses.path());
    add(scores, line, expected, flags, hypotheses.number());
  }
  references.check_end(hypotheses.path(), hypotheses.number());
  require(hypotheses.number() > 0, ErrorCode::invalid_argument, hypotheses.path(), " is empty");
  print(scores, flags);
  bad.raise();
}

// Scores a model's translations. Where --output is given they are also written there, whole or not
// at all.
void evaluate_model(const EvaluateFlags& flags) {
  std::vector<InputName> inputs = {{"--source", flags.source}};
  for (const std::string& path : flags.references) inputs.push_back({"--reference", path});
  check_output("--output", flags.output, inputs, flags.model);
  const Translator translator =
      load_translator(flags.model, flags.threads, device_with(flags.shortlist, flags.device),
                      flags.compute, flags.trust);
  require(!translator.model().config().decoder_only(), ErrorCode::invalid_argument, flags.model,
          " is a decoder-only model: it translates nothing");
  Scores scores = empty_scores(flags);
  LineReader sources = open_lines(flags.source);
  References references(flags.references);
  std::unique_ptr<AtomicFile> kept;
  if (!flags.output.empty()) kept = std::make_unique<AtomicFile>(flags.output);
  TranslateOptions options = flags.options;
  if (flags.shortlist) options.shortlist = Shortlist::load(flags.model);
  options.slots = std::max(options.slots, translator.search_options(options).width());
  options.bad_lines = flags.strict ? BadLine::error : BadLine::skip;
  ProgressLine progress;
  const StopOnSignal stop;
  BadTranslations bad(flags);
  int64_t cut = 0, first_cut = 0;
  translator.translate(
      [&]() -> std::optional<TextRequest> {
        TextRequest request;
        if (!sources.next(request.line)) return std::nullopt;
        request.fault = fault_of(sources, "the line");
        return request;
      },
      [&](Translation&& translation) {
        const auto expected = references.next(sources.path());
        if (!translation.skipped.empty()) {
          bad.tell(sources.path(), translation.number + 1, translation.skipped);
        }
        add(scores, translation.text(), expected, flags, translation.number + 1);
        if (!translation.hypotheses.front().ended && ++cut == 1) {
          first_cut = translation.number + 1;
        }
        if (kept != nullptr) kept->write(translation.text() + "\n");
        progress.count(translation.number + 1, "sentences");
        return !stop.asked();
      },
      options);
  progress.clear();
  if (stop.asked()) throw Stopped{stop.signal()};
  references.check_end(sources.path(), sources.number());
  require(sources.number() > 0, ErrorCode::invalid_argument, sources.path(), " is empty");
  if (kept != nullptr) kept->commit();
  if (cut > 0) {
    message(fmt::format("tril: {} of {} translations cut before their end, first line {}\n", cut,
                        scores.bleu.segments, first_cut));
  }
  print(scores, flags);
  bad.raise();
}

// A file of translations needs no decoding: flags for it would be ignored, so they are refused.
void check_no_model_flags(const CLI::App& evaluate) {
  for (const char* name : {"--beam",
                           "--length-penalty",
                           "--early-stopping",
                           "--max-tokens",
                           "--min-tokens",
                           "--cut",
                           "--no-repeat-ngram",
                           "--repetition-penalty",
                           "--renormalize",
                           "--max-ratio",
                           "--forbid",
                           "--force-end",
                           "--from-language",
                           "--to-language",
                           "--batch",
                           "--shortlist",
                           "--compute",
                           "--trust",
                           "--device",
                           "--output"}) {
    require(evaluate.get_option(name)->count() == 0, ErrorCode::invalid_argument,
            "evaluate: ", name, " is for a model, not for --hypothesis");
  }
}

void run(const EvaluateFlags& flags, const CLI::App& evaluate) {
  const bool given = !flags.hypothesis.empty();
  require(given || !flags.model.empty(), ErrorCode::invalid_argument,
          "evaluate: nothing to evaluate: give a model folder and --source, or --hypothesis FILE");
  require(given || !flags.source.empty(), ErrorCode::invalid_argument,
          "evaluate: --source is missing: the sentences to translate");
  require(given == flags.model.empty() && given == flags.source.empty(),
          ErrorCode::invalid_argument,
          "evaluate: give a model and --source, or --hypothesis without them");
  const auto stdins = std::count(flags.references.begin(), flags.references.end(), "-");
  require(stdins + (flags.source == "-" ? 1 : 0) + (flags.hypothesis == "-" ? 1 : 0) <= 1,
          ErrorCode::invalid_argument, "evaluate: only one file can be stdin");
  if (!given) return evaluate_model(flags);
  check_no_model_flags(evaluate);
  evaluate_file(flags);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* evaluate =
      app.add_subcommand("evaluate", "BLEU and chrF of a model, or of a file of translations");
  evaluate->add_option("model", flags->model, "A model folder")->type_name(kFolder);
  evaluate->add_option("--source", flags->source, "Sentences for the model to translate")
      ->type_name(kFile);
  evaluate
      ->add_option("--reference", flags->references,
                   "Reference translations; repeat the option for further references")
      ->type_name(kFile)
      ->allow_extra_args(false)
      ->required();
  evaluate
      ->add_option("--hypothesis", flags->hypothesis, "Translations to evaluate instead of a model")
      ->type_name(kFile);
  evaluate->add_option("--output", flags->output, "Write the model's translations to this file")
      ->type_name(kFile);
  evaluate
      ->add_option("--tokenize", flags->tokenizer, "Tokenization for BLEU: 13a, intl, char, none")
      ->transform(one_of({"13a", "intl", "char", "none"}))
      ->default_str("13a");
  add_search_flags(*evaluate, flags->options.search);
  add_ratio_flag(*evaluate, flags->options.search);
  add_token_flags(*evaluate, flags->options);
  add_language_flags(*evaluate, flags->options.languages);
  evaluate->add_option("--batch", flags->options.slots, "Hypotheses decoded at a time")
      ->transform(whole_number(1, 65536))
      ->capture_default_str();
  add_shortlist_flag(*evaluate, flags->shortlist);
  add_compute_flag(*evaluate, flags->compute);
  add_trust_flag(*evaluate, flags->trust);
  add_device_flag(*evaluate, flags->device);
  evaluate->add_option("--threads", flags->threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  evaluate->add_flag("--json", flags->json, "Print JSON");
  add_strict_flag(*evaluate, flags->strict);
  evaluate->footer(
      "Examples:\n"
      "  tril evaluate my-model --source test.en --reference test.hi\n"
      "  tril evaluate --hypothesis mine.hi --reference test.hi --tokenize intl\n\n"
      "A line that is too long or not UTF-8 counts as an empty translation, stderr names it, and "
      "the "
      "exit code is 1; with --strict it is an error. References must all be valid.\n\n"
      "The scores equal sacreBLEU's in every digit it prints; the signature before each score says "
      "how it was computed. " +
      std::string(kDefaultsNote));
  evaluate->callback([flags, evaluate] { run(*flags, *evaluate); });
}

}  // namespace tril::app
