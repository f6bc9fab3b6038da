#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "output.h"
#include "output_files.h"
#include "progress.h"
#include "terminal.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

struct DemoFlags {
  std::string folder = "demo-model";
  std::string dump;
  int threads = 0;
};

// Writes the phrasebook as two files of lines per part, and the demo's run as a file of options:
// something to try `tril train` with.
void dump(const Phrasebook& phrasebook, const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> files;  // name, contents
  const auto add = [&](const std::string& name, const std::vector<PhrasePair>& phrases) {
    std::string english;
    std::string hindi;
    for (const PhrasePair& phrase : phrases) {
      english += phrase.english + "\n";
      hindi += phrase.hindi + "\n";
    }
    files.emplace_back(folder + "/" + name + ".en", english);
    files.emplace_back(folder + "/" + name + ".hi", hindi);
  };
  add("train", phrasebook.train);
  add("test", phrasebook.held_out);
  TrainOptions options = demo_options();
  options.train.source = {folder + "/train.en"};
  options.train.target = {folder + "/train.hi"};
  files.emplace_back(folder + "/demo.toml", to_toml(options));
  for (const auto& [path, contents] : files) check_replaces_nothing(path, contents);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, ErrorCode::io, folder, ": cannot create: ", error.message());
  for (const auto& [path, contents] : files) write_file_atomically(path, contents);
  fmt::print(
      "{0}/train.en, train.hi: {1} pairs\n{0}/test.en, test.hi: {2} pairs\n"
      "{0}/demo.toml: what the demo does with them\n",
      folder, phrasebook.train.size(), phrasebook.held_out.size());
}

// A demo may replace a demo, but nothing else.
void check_folder(const std::string& folder) {
  std::error_code ignored;
  require(!std::filesystem::exists(folder + "/config.json", ignored) || is_demo_model(folder),
          ErrorCode::invalid_argument, folder,
          ": holds another model: choose a folder with -o, or remove it");
}

TrainSummary learn(const Phrasebook& phrasebook, const DemoFlags& flags) {
  const StopOnSignal stop;
  ProgressLine progress;
  TrainEvents events;
  events.cancelled = [&] { return stop.asked(); };
  events.progress = [&](const TrainStatus& s) {
    progress.show(s.update, s.updates,
                  fmt::format("loss {:.3f}  {:.0f} tokens/s", s.loss, s.tokens_per_s),
                  s.seconds_left);
  };
  TrainingText text{corpus_of(phrasebook.train), std::nullopt};
  const TrainSummary summary =
      train(text, demo_options(), flags.folder, RunStart::overwrite, {flags.threads}, events);
  if (!summary.finished) throw Stopped{stop.signal()};
  return summary;
}

void show_translations(const Translator& translator, const std::vector<PhrasePair>& phrases) {
  std::vector<std::string> lines;
  size_t widest = 0;
  for (const PhrasePair& phrase : phrases) {
    lines.push_back(phrase.english);
    widest = std::max(widest, phrase.english.size());
  }
  const auto translations = translator.translate(lines);
  for (size_t i = 0; i < phrases.size(); ++i) {
    const bool right = translations[i].text() == phrases[i].hindi;
    fmt::print("  {:<{}}  {}{}\n", phrases[i].english, widest, translations[i].text(),
               right ? "" : fmt::format("   (expected: {})", phrases[i].hindi));
  }
}

// Parallel against stepwise, on sentences the model was not trained on.
void prove(const Translator& translator, const Phrasebook& phrasebook, const DemoFlags& flags) {
  Session session(translator.model(), flags.threads);
  std::vector<TokenPair> pairs;
  for (const PhrasePair& phrase : phrasebook.held_out) {
    const Tokenizer& tokenizer = translator.tokenizer();
    TokenPair pair{tokenizer.encode(phrase.english), {tokenizer.start()}};
    pair.source.push_back(tokenizer.end());
    const auto target = tokenizer.encode(phrase.hindi);
    pair.target.insert(pair.target.end(), target.begin(), target.end());
    pairs.push_back(std::move(pair));
    if (pairs.size() == 100) break;
  }
  const Agreement agreement = compare_parallel_with_stepwise(translator.model(), pairs, session);
  fmt::print("\n{}",
             set_text(fmt::format("Training reads a whole sentence in one forward(); "
                                  "inference calls forward() once per token. {} sentences "
                                  "both ways, {} calls and {}: of {} logits {} differ in "
                                  "any bit.",
                                  agreement.sentences, agreement.parallel_calls,
                                  agreement.stepwise_calls, agreement.logits, agreement.differing),
                      "", ""));
  require(agreement.differing == 0, ErrorCode::internal,
          "demo: training and inference are not the same function here: please report it");
}

// Commands and what they do, beside them or, where there is little room, below. Commands are never
// broken over lines, so that they can be copied.
void print_commands(const Table& rows) {
  constexpr int64_t kRoom = 24;
  int64_t widest = 0;
  for (const auto& row : rows) widest = std::max(widest, display_width(row[0]));
  const bool beside = widest + 4 + kRoom <= text_columns();
  const std::string indent(beside ? static_cast<size_t>(widest) + 4 : 6, ' ');
  for (const auto& row : rows) {
    const std::string command = "  " + row[0];
    if (!beside) fmt::print("{}\n", command);
    fmt::print("{}", set_text(row[1], beside ? pad_right(command, widest + 4) : indent, indent));
  }
}

void run(const DemoFlags& flags) {
  const Phrasebook phrasebook = make_phrasebook();
  if (!flags.dump.empty()) {
    dump(phrasebook, flags.dump);
    return;
  }
  check_folder(flags.folder);
  fmt::print("{}", set_text(fmt::format("Learning English to Hindi from {} sentences; {} "
                                        "combinations are held out.",
                                        phrasebook.train.size(), phrasebook.held_out.size()),
                            "", ""));
  flush_output();
  const TrainSummary summary = learn(phrasebook, flags);
  fmt::print("{}\n",
             set_text(fmt::format("Learnt in {:.0f} s: {} updates of {} parameters, {:.0f} tokens "
                                  "per second.",
                                  summary.last.seconds, summary.last.update, summary.parameters,
                                  summary.last.tokens_per_s),
                      "", ""));

  const Translator translator =
      Translator::load(flags.folder, {.purpose = Purpose::study}, flags.threads);
  fmt::print("The lesson's sentences:\n");
  show_translations(translator, lesson_sentences());
  fmt::print("\nSentences it has never seen:\n");
  std::vector<PhrasePair> unseen;
  for (size_t i = 0; i < 8; ++i) {
    unseen.push_back(phrasebook.held_out[i * phrasebook.held_out.size() / 8]);
  }
  show_translations(translator, unseen);

  const HeldOutScore score = score_held_out(translator, phrasebook);
  fmt::print("\nHeld out: {} of {} exactly right ({:.1f}%), BLEU {:.1f}\n", score.exact, score.all,
             100.0 * static_cast<double>(score.exact) / static_cast<double>(score.all), score.bleu);

  prove(translator, phrasebook, flags);
  const std::string tril = program_name();
  fmt::print("\nNow you:\n");
  print_commands(
      {{tril + " translate " + flags.folder, "type English, read Hindi"},
       {tril + " explain " + flags.folder + " 'I am fine'", "a page that shows both phases"},
       {tril + " prove " + flags.folder, "proves that they are the same"},
       {tril + " lesson", "experiments on common questions"},
       {tril + " demo --dump phrases", "the sentences as files"},
       {tril + " train --config phrases/demo.toml -o m", "this model again, from the files"}});
}

}  // namespace

bool is_demo_model(const std::string& folder) {
  std::error_code ignored;
  const std::string options = folder + "/training/options.toml";
  constexpr int64_t kMaxBytes = 1 << 20;
  return std::filesystem::exists(options, ignored) &&
         read_file(options, kMaxBytes) == to_toml(demo_options());
}

void add_demo(CLI::App& app) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App* demo = app.add_subcommand(
      "demo", "Learn English to Hindi from a built-in phrasebook, in a minute, and show it");
  demo->add_option("-o,--output", flags->folder, "The model folder to write")
      ->type_name(kFolder)
      ->capture_default_str();
  demo->add_option("--dump", flags->dump, "Only write the phrasebook to this folder")
      ->type_name(kFolder);
  demo->add_option("--threads", flags->threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  demo->footer("Example:\n  tril demo\n  tril translate demo-model");
  demo->callback([flags] { run(*flags); });
}

}  // namespace tril::app
