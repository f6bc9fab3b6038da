#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "loading.h"
#include "progress.h"
#include "tril/tril.h"
#include "units.h"

namespace tril::app {
namespace {

struct ShortlistFlags {
  std::string model;
  CorpusFiles files;
  ShortlistOptions options;
};

void run(const ShortlistFlags& flags) {
  require(!flags.files.source.empty() || !flags.files.target.empty() || !flags.files.tsv.empty(),
          ErrorCode::invalid_argument,
          "shortlist: no text to learn from: give the model's training text, as in '",
          program_name(), " shortlist ", flags.model, " --source train.en --target train.hi'");
  // The model is loaded too, because a shortlist is useless for one that has no source.
  const Translator translator = load_translator(flags.model, 1, Device::cpu);
  require(!translator.model().config().decoder_only(), ErrorCode::invalid_argument, flags.model,
          " is a decoder-only model: it has no source to choose a shortlist by");
  ProgressLine progress;
  progress.tell("reading the text");
  const Corpus corpus(flags.files, {});
  for (const std::string& line : corpus.report().lines()) progress.say(line);
  ShortlistOptions options = flags.options;
  options.progress = [&](std::string_view what, int64_t done, int64_t all) {
    progress.part(what, done, all);
  };
  ShortlistReport report;
  const Shortlist shortlist = learn_shortlist(corpus, translator.tokenizer(), options, &report);
  progress.clear();
  shortlist.save(flags.model);
  const std::string file = path_in(flags.model, kShortlistFile);
  fmt::print("{}  {}, from {}\n", file, bytes_text(file_bytes(file)),
             counted(report.pairs, "pair"));
  if (report.measured > 0) {
    fmt::print(
        "measured on {} left out: a sentence has {:.0f} of {} pieces to choose from,\n"
        "and they hold {:.1f}% of its translation\n",
        counted(report.measured, "pair"), report.mean_size, grouped(shortlist.target_vocab()),
        100.0 * report.covered);
  }
  fmt::print("try: {} translate {} --shortlist\n", program_name(), flags.model);
}

}  // namespace

void add_shortlist(CLI::App& app) {
  auto flags = std::make_shared<ShortlistFlags>();
  CLI::App* command =
      app.add_subcommand("shortlist", "Learn which tokens translate which, to translate faster");
  command->add_option("model", flags->model, "A model folder")->type_name(kFolder)->required();
  command
      ->add_option("--source", flags->files.source,
                   "Source sentences, one per line (plain or gzip): the model's training text")
      ->type_name(kFile);
  command->add_option("--target", flags->files.target, "Their translations, line for line")
      ->type_name(kFile);
  command->add_option("--tsv", flags->files.tsv, "Source, tab, target in one file")
      ->type_name(kFile);
  ShortlistOptions& options = flags->options;
  command->add_option("--best", options.best, "Target pieces listed for each source piece")
      ->transform(whole_number(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--frequent", options.frequent,
                   "Most frequent target pieces, which every sentence may use")
      ->transform(whole_number(0, 1 << 30))
      ->capture_default_str();
  command->add_option("--rounds", options.rounds, "Rounds of learning")
      ->transform(whole_number(1, 100))
      ->capture_default_str();
  command->add_option("--threads", options.threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  command->footer(
      "Examples:\n  tril shortlist my-model --source train.en --target train.hi\n  tril "
      "translate my-model --shortlist < text.en\n\nWrites shortlist.safetensors into the "
      "folder. 'tril translate', 'tril score' and 'tril evaluate' use it with --shortlist: a "
      "sentence is then translated with the pieces listed for its own pieces, the frequent ones "
      "and its end. At most a million pairs are used.");
  command->callback([flags] { run(*flags); });
}

}  // namespace tril::app
