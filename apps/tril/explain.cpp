#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "decoding.h"
#include "flags.h"
#include "lines.h"
#include "loading.h"
#include "output_files.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

struct ExplainFlags {
  std::string model;
  std::vector<std::string> sentence;  // one, or none
  std::string output = "explain.html";
  ExplainOptions options;
};

// The sentence as given, or a line of stdin for "-"; by default the lesson's own, or, without an
// encoder, nothing: the model begins by itself.
std::string sentence_of(const ExplainFlags& flags, const TransformerConfig& config) {
  if (flags.sentence.empty()) return config.decoder_only() ? "" : lesson_sentences().back().english;
  if (flags.sentence.front() != "-") return flags.sentence.front();
  LineReader lines = open_lines("-");
  std::string line;
  require(lines.next(line), ErrorCode::invalid_argument, "explain: stdin holds no line");
  const std::string fault = fault_of(lines, "the line");
  require(fault.empty(), ErrorCode::invalid_argument, "explain: ", fault);
  return line;
}

// For a message: characters that would end the line or command the terminal are removed.
std::string on_one_line(std::string text) {
  std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  return text;
}

// Common mistakes are reported before anything is loaded.
void check(const ExplainFlags& flags) {
  std::string all;
  for (const std::string& word : flags.sentence) all += (all.empty() ? "" : " ") + word;
  require(flags.sentence.size() <= 1, ErrorCode::invalid_argument,
          "explain: a sentence of several words needs quotes: tril explain ",
          on_one_line(flags.model), " '", on_one_line(all), "'");
  require(!file_exists(path_in(flags.model, kConfigFile)) ||
              file_exists(path_in(flags.model, kTokenizerFile)) ||
              hub::is_foreign_folder(flags.model),  // which loading it reports
          ErrorCode::io, "explain: ", on_one_line(flags.model),
          " holds a model but no tokenizer.model: the one it was trained with is needed to read "
          "a sentence");
}

void check_sound(const Explanation& e) {
  require(e.numbers_differing == 0, ErrorCode::internal,
          "explain: training and inference are not the same function here: please report it");
  require(e.context_check.largest_share <= 1.0, ErrorCode::internal,
          "explain: the page's formula does not give the engine's numbers: please report it");
}

void run(const ExplainFlags& flags) {
  check(flags);
  check_output("-o", flags.output, {}, flags.model);
  const Translator translator =
      Translator::load(flags.model, to_study(flags.model), flags.options.threads);
  const Explanation e =
      explain(translator, sentence_of(flags, translator.model().config()), flags.options);
  const std::string page = explain_page(e);
  write_file_atomically(flags.output, page);
  if (e.config.decoder_only()) {
    fmt::print("{}\n", escaped(e.written_text));
  } else {
    fmt::print("{} → {}\n", escaped(e.sentence), escaped(e.written_text));
    if (e.target_given)
      fmt::print("The page follows the given target: {}\n", escaped(e.target_text));
  }
  fmt::print("Calls of forward(): {} in training, {} at inference. Of {} numbers {} differ.\n",
             e.parallel_calls, e.stepwise_calls, e.numbers_compared, e.numbers_differing);
  fmt::print("{}: {} KB, to be opened in a browser\n", flags.output, (page.size() + 999) / 1000);
  check_sound(e);
  if (e.own) check_sound(*e.own);
}

}  // namespace

void add_explain(CLI::App& app) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* explain = app.add_subcommand(
      "explain", "Write a page that shows training and inference side by side on one sentence");
  explain->add_option("model", flags->model, "A model folder")->type_name(kFolder)->required();
  explain
      ->add_option("sentence", flags->sentence,
                   "What to translate, or to continue, in quotes; - for a line of stdin; without "
                   "one the lesson's \"I am fine\"")
      ->option_text("TEXT");
  explain->add_option("-o,--output", flags->output, "The page to write")
      ->type_name(kFile)
      ->capture_default_str();
  explain->add_option("--target", flags->options.target,
                      "What training reads; without it, what the model itself writes");
  add_search_flags(*explain, flags->options.search, {.most_beam = 16});
  add_ratio_flag(*explain, flags->options.search);
  add_language_flags(*explain, flags->options.languages);
  explain->add_option("--threads", flags->options.threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  explain->footer(
      "Examples:\n  tril explain demo-model 'How are you?' -o page.html\n  tril explain "
      "demo-model 'I am fine' --target 'मैं बढ़िया हूँ' -o page.html\n\nThe page holds all "
      "it needs and makes no request to any network. With --target it shows what teacher "
      "forcing does with predictions that are wrong. " +
      std::string(kDefaultsNote));
  explain->callback([flags] { run(*flags); });
}

}  // namespace tril::app
