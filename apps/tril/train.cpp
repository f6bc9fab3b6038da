#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>

#include "commands.h"
#include "progress.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

struct Arguments {
  TrainOptions options;
  Preset preset = Preset::tiny;
  std::string folder;
  bool resume = false;
  bool overwrite = false;
  int threads = 0;
};

// A flag for an option of the one list in train/options.h.
struct AddFlag {
  CLI::App* command;

  template <class Value>
  void operator()(const char* name, Value& value, const char* help) const {
    const std::string flag = std::string("--") + name;
    CLI::Option* option = nullptr;
    if constexpr (std::is_enum_v<Value>) {
      std::vector<std::pair<std::string, Value>> words;
      size_t number = 0;
      for (const auto word : Words<Value>::list) {
        words.emplace_back(word, static_cast<Value>(number++));
      }
      option = command->add_option(flag, value, help)
                   ->transform(CLI::CheckedTransformer(words).description(""))
                   ->default_str(words[static_cast<size_t>(value)].first);
    } else {
      option = command->add_option(flag, value, help)->capture_default_str();
    }
    option->group(group_of(name));
  }

  static std::string group_of(std::string_view name) {
    const auto among = [&](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (among(
            {"tokenizer", "tokenizer-type", "vocab", "normalization", "coverage", "max-tokens"})) {
      return "Text";
    }
    if (among({"log-every", "evaluate-every", "patience", "best-by", "valid-beam"})) {
      return "Evaluation";
    }
    if (among({"preset",
               "model",
               "heads",
               "kv-heads",
               "head-dim",
               "feed-forward",
               "encoder-layers",
               "decoder-layers",
               "norm",
               "norm-position",
               "activation",
               "gated",
               "position",
               "window",
               "tied",
               "bias",
               "output-bias",
               "embedding-norm",
               "embedding-scale",
               "dropout"})) {
      return "Model";
    }
    return "Learning";
  }
};

void add_corpus(CLI::App* command, const std::string& prefix, CorpusFiles& files,
                const std::string& what) {
  const auto add = [&](const char* name, std::vector<std::string>& list, const std::string& help) {
    command->add_option("--" + prefix + name, list, help)->group("Files");
  };
  add("source", files.source, what + ": source sentences, one a line (plain or gzip)");
  add("target", files.target, what + ": their translations, line for line");
  add("tsv", files.tsv, what + ": source, tab, target in one file");
  add("text", files.text, what + ": one text, for a decoder-only model");
}

void run(const Arguments& arguments) {
  const StopOnSignal stop;
  ProgressLine progress;
  TrainEvents events;
  events.message = [&](const std::string& text) { progress.say(text); };
  events.cancelled = [&] { return stop.asked(); };
  events.progress = [&](const TrainStatus& s) {
    progress.show(
        s.update, s.updates,
        fmt::format("loss {:.3f}  {:.0f} tokens/s  epoch {:.1f}{}", s.loss, s.tokens_per_s, s.epoch,
                    s.evaluated ? fmt::format("  best {:.2f}", s.best) : ""),
        s.seconds_left);
  };
  events.evaluated = [&](const TrainStatus& s, const Evaluation& e, bool best) {
    progress.say(fmt::format("update {}: valid loss {:.4f}{}{}", s.update, e.loss,
                             e.outputs.empty() ? "" : fmt::format(", BLEU {:.2f}", e.bleu),
                             best ? " (best so far, kept)" : ""));
  };
  TrainingText text = read_text(arguments.options, events);
  const RunStart start = arguments.resume      ? RunStart::resume
                         : arguments.overwrite ? RunStart::overwrite
                                               : RunStart::fresh;
  const TrainSummary summary =
      train(text, arguments.options, arguments.folder, start, arguments.threads, events);
  progress.clear();
  if (!summary.finished) {
    fmt::print(stderr, "stopped after update {} of {}; to go on: tril train --resume -o {}\n",
               summary.last.update, summary.last.updates, arguments.folder);
    throw Stopped{stop.signal()};
  }
  fmt::print(stderr, "{} after {} updates, {}: {}\n",
             summary.stopped_early ? "stopped early" : "done", summary.last.update,
             duration(summary.last.seconds), arguments.folder);
}

}  // namespace

void add_train(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* train = app.add_subcommand("train", "Make a translator from parallel text");
  TrainOptions& options = arguments->options;
  apply_preset(arguments->preset, options.model);
  add_corpus(train, "", options.train, "To learn from");
  add_corpus(train, "valid-", options.valid, "To evaluate with");
  train->add_option("-o,--output", arguments->folder, "The model folder to write")->required();
  train->add_flag("--resume", arguments->resume, "Go on with the run in the folder");
  train->add_flag("--overwrite", arguments->overwrite, "Replace a model that is there");
  train->add_option("--threads", arguments->threads, "Threads; 0 takes every core")
      ->check(CLI::Range(0, 1024));
  const AddFlag add_flag{train};
  add_flag("preset", arguments->preset,
           "Sizes: tiny 128/4 heads/256/4+4 layers, small 256/4/1024/3+3, base 512/8/2048/6+6, big "
           "1024/16/4096/6+6");
  for_each_option(options, add_flag);
  train->footer(
      "Example:\n"
      "  tril train --source train.en --target train.hi --valid-source dev.en\n"
      "    --valid-target dev.hi -o my-model\n"
      "  echo 'How are you?' | tril translate my-model");
  train->callback([arguments, train] {
    // Sizes that were given go before those of the preset.
    TransformerConfig preset = arguments->options.model;
    apply_preset(arguments->preset, preset);
    TransformerConfig& model = arguments->options.model;
    const auto settle = [&](const char* flag, int64_t TransformerConfig::*size) {
      if (train->count(flag) == 0) model.*size = preset.*size;
    };
    settle("--model", &TransformerConfig::model);
    settle("--heads", &TransformerConfig::heads);
    settle("--feed-forward", &TransformerConfig::feed_forward);
    settle("--encoder-layers", &TransformerConfig::encoder_layers);
    settle("--decoder-layers", &TransformerConfig::decoder_layers);
    run(*arguments);
  });
}

}  // namespace tril::app
