#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "advice.h"
#include "commands.h"
#include "flags.h"
#include "progress.h"
#include "suggest.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

struct Arguments {
  TrainOptions options;
  Preset preset = Preset::tiny;
  std::string folder;
  std::string config;  // already read; see with_files()
  bool resume = false;
  bool overwrite = false;
  int threads = 0;
  std::optional<Device> device;
};

template <class Enum>
std::vector<std::string> choices_of() {
  return {std::begin(Words<Enum>::kList), std::end(Words<Enum>::kList)};
}

// Adds a flag for each option of the list in train/options.h.
struct AddFlag {
  CLI::App* command;

  template <class Value>
  void operator()(const char* name, Value& value, const char* help, const char* group) const {
    const std::string flag = std::string("--") + name;
    CLI::Option* option = nullptr;
    if constexpr (std::is_enum_v<Value>) {
      const std::vector<std::string> words = choices_of<Value>();
      option = command->add_option(flag, value, fmt::format("{} ({})", help, with_commas(words)))
                   ->transform(one_of(words))
                   ->default_str(words[static_cast<size_t>(value)]);
    } else {
      option = command->add_option(flag, value, help)->capture_default_str();
      if constexpr (std::is_same_v<Value, int64_t>) option->transform(any_count());
      if constexpr (std::is_same_v<Value, uint64_t>) option->transform(any_seed());
      if constexpr (std::is_same_v<Value, bool>) {
        option->check(such_as({"true", "false"}))->default_str(value ? "true" : "false");
      }
      // The tokenizer; the others are words.
      if constexpr (std::is_same_v<Value, std::string>) option->type_name(kFile);
    }
    option->group(group);
  }
};

void add_corpus(CLI::App* command, const std::string& prefix, CorpusFiles& files,
                const std::string& what) {
  const auto add = [&](const char* name, std::vector<std::string>& list, const std::string& help) {
    command->add_option("--" + prefix + name, list, help)->type_name(kFile)->group("Files");
  };
  add("source", files.source, what + ": source sentences, one per line (plain or gzip)");
  add("target", files.target, what + ": their translations, line for line");
  add("tsv", files.tsv, what + ": source, tab, target in one file");
  add("text", files.text, what + ": one text, for a decoder-only model");
}

// A run may be resumed from another folder than it was started in.
void make_absolute(CorpusFiles& files) {
  for (auto* list : {&files.source, &files.target, &files.tsv, &files.text}) {
    for (std::string& path : *list) path = std::filesystem::absolute(path).lexically_normal();
  }
}

// Quoted so that it can be pasted into a shell.
std::string shell_quoted(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("/._-+", c) != nullptr || c >= 0x80;
  });
  if (plain && !text.empty()) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string how_to_go_on(const Arguments& arguments) {
  std::string command =
      fmt::format("{} train --resume -o {}", program_name(), shell_quoted(arguments.folder));
  // The device must be named: on another one the bits would differ.
  if (arguments.device) command += concat(" --device ", *arguments.device);
  return concat("to continue: ", command);
}

// Where it computes, when that is not what a machine without a GPU would do.
void tell_device(const Placement& placement, const TrainEvents& events) {
  if (placement.device.type == DeviceType::cuda) {
    const std::string which = gpus().list.size() > 1 ? concat(" (", placement.device, ")") : "";
    events.message(concat("computing on ", gpu_at(placement.device).name, which, ", in ",
                          placement.activations));
  } else if (!gpus().problem.empty() && gpus().driver != 0) {
    events.message(concat("computing on the CPU: ", gpus().problem));
  }
}

// A lost GPU, or a lack of memory, leaves everything up to the last checkpoint intact.
TrainSummary train_or_say_how_to_go_on(TrainingText& text, const Arguments& arguments,
                                       RunStart start, TrainEvents events) {
  // Until this run has a checkpoint, one in the folder belongs to the run it was to replace.
  bool resumable = false;
  events.resumable = [&] { resumable = true; };
  const Placement placement = placement_for(arguments.device);
  tell_device(placement, events);
  try {
    return train(text, arguments.options, arguments.folder, start, {arguments.threads, placement},
                 events);
  } catch (const Error& error) {
    const bool of_device =
        error.code() == ErrorCode::device || error.code() == ErrorCode::out_of_memory;
    if (!of_device || !resumable) throw;
    fail(error.code(), with_advice(error.what(), error.field()), "; ", how_to_go_on(arguments));
  }
}

void run(const Arguments& arguments) {
  // Before the run itself begins there is nothing to lose, so a signal ends the program at once.
  std::optional<StopOnSignal> stop;
  bool told = false;
  ProgressLine progress;
  TrainEvents events;
  events.message = [&](const Notice& notice) {
    progress.say(with_advice(notice.text, notice.field));
  };
  events.cancelled = [&] {
    if (!stop) stop.emplace();
    if (stop->asked() && !told) {
      progress.say("stopping: writing a checkpoint");
      told = true;
    }
    return stop->asked();
  };
  events.progress = [&](const TrainStatus& s) {
    progress.show(
        s.update, s.updates,
        fmt::format("loss {:.3f}  {:.0f} tokens/s  epoch {:.1f}{}", s.loss, s.tokens_per_s, s.epoch,
                    s.evaluated ? fmt::format("  best {:.2f}", s.best) : ""),
        s.seconds_left);
  };
  events.evaluated = [&](const TrainStatus& s, const Evaluation& e, bool best) {
    const std::string when = s.update == 0 ? "before training" : fmt::format("update {}", s.update);
    progress.say(fmt::format("{}: valid loss {:.4f}{}{}", when, e.loss,
                             e.outputs.empty() ? "" : fmt::format(", BLEU {:.2f}", e.bleu),
                             best ? " (best so far, kept)" : ""));
  };
  const RunStart start = arguments.resume      ? RunStart::resume
                         : arguments.overwrite ? RunStart::overwrite
                                               : RunStart::fresh;
  require(!arguments.resume || !arguments.overwrite, ErrorCode::invalid_argument,
          "train: --resume and --overwrite exclude each other");
  check_start(arguments.folder, start);
  TrainingText text = read_text(arguments.options, events);
  const TrainSummary summary = train_or_say_how_to_go_on(text, arguments, start, events);
  if (!summary.finished) {
    progress.say(fmt::format("stopped after update {} of {}; {}", summary.last.update,
                             summary.last.updates, how_to_go_on(arguments)));
    throw Stopped{stop->signal()};
  }
  progress.say(fmt::format("{} after {} update{}, {}: {}",
                           summary.stopped_early ? "stopped early" : "done", summary.last.update,
                           summary.last.update == 1 ? "" : "s", duration(summary.last.seconds),
                           arguments.folder));
  const bool tuned = !arguments.options.from.empty() && !arguments.options.valid.empty();
  if (tuned && summary.best_update == 0) {
    progress.say(fmt::format(
        "{0} is still the model before training: no update was better on the validation text; the "
        "last weights are in {0}/last",
        arguments.folder));
  }
}

// Whether a flag was given, as "--name value" or "--name=value".
bool is_given(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == flag || argument.starts_with(flag + "=");
  });
}

// The value of a flag; empty where it was not given.
std::string value_of(const std::vector<std::string>& arguments,
                     std::initializer_list<std::string> flags) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (const std::string& flag : flags) {
      if (arguments[i] == flag && i + 1 < arguments.size()) return arguments[i + 1];
      if (arguments[i].starts_with(flag + "=")) return arguments[i].substr(flag.size() + 1);
      const bool is_short = flag.size() == 2;
      if (is_short && arguments[i].starts_with(flag)) return arguments[i].substr(2);
    }
  }
  return "";
}

// Where in a file the flags stand that came from one.
std::map<std::string, std::string>& origins() {
  static std::map<std::string, std::string> all;
  return all;
}

// The options of a TOML text as flags, except those given on the command line.
std::vector<std::string> flags_of(const std::string& toml, const std::string& file,
                                  const std::vector<std::string>& given,
                                  const std::vector<std::string>& known) {
  std::vector<std::string> flags;
  for (const TomlOption& option : parse_toml(toml, file)) {
    const std::string flag = concat("--", option.name);
    require(std::find(known.begin(), known.end(), flag) != known.end(), ErrorCode::bad_format, file,
            ":", option.line, ": there is no option '", option.name, "'",
            did_you_mean(flag, known));
    if (is_given(given, flag)) continue;
    flags.push_back(flag);
    origins()[flag] = concat(file, ":", option.line);
    flags.insert(flags.end(), option.values.begin(), option.values.end());
  }
  return flags;
}

}  // namespace

std::string origin_of(const std::string& problem) {
  for (const auto& [flag, origin] : origins()) {
    if (problem.starts_with(flag) && !std::isalnum(problem[flag.size()]) &&
        problem[flag.size()] != '-') {
      return concat(origin, ": ");
    }
  }
  return "";
}

std::vector<std::string> with_files(const std::vector<std::string>& arguments,
                                    const std::vector<std::string>& known) {
  constexpr int64_t kMaxBytes = 1 << 20;
  const std::string config = value_of(arguments, {"--config"});
  const std::string folder = value_of(arguments, {"-o", "--output"});
  std::vector<std::string> result;
  if (is_given(arguments, "--resume")) {
    require(config.empty(), ErrorCode::invalid_argument,
            "train: --resume goes on with the options of the run: leave --config out");
    if (!folder.empty()) {
      check_start(folder, RunStart::resume);
      result = flags_of(options_of_run(folder), folder, arguments, known);
    }
  } else if (!config.empty()) {
    result = flags_of(read_file(config, kMaxBytes), config, arguments, known);
  }
  result.insert(result.end(), arguments.begin(), arguments.end());
  return result;
}

namespace {

// Sizes that were given override those of the preset.
void settle_with_preset(const CLI::App& train, Arguments& arguments) {
  TransformerConfig& model = arguments.options.model;
  TransformerConfig preset = model;
  apply_preset(arguments.preset, preset);
  const auto settle = [&](const char* flag, auto TransformerConfig::*field) {
    if (train.count(flag) == 0) model.*field = preset.*field;
  };
  settle("--model", &TransformerConfig::model);
  settle("--heads", &TransformerConfig::heads);
  settle("--feed-forward", &TransformerConfig::feed_forward);
  settle("--encoder-layers", &TransformerConfig::encoder_layers);
  settle("--decoder-layers", &TransformerConfig::decoder_layers);
  settle("--dropout", &TransformerConfig::dropout);
}

// Every option that was not given gets its default for runs that begin with this model.
void settle_with_base(const CLI::App& train, const BaseModel& base, TrainOptions& options) {
  TrainOptions settled = tuning_options(base);
  settled.train = options.train;
  settled.valid = options.valid;
  settled.languages = options.languages;
  settled.model_languages = options.model_languages;
  settled.freeze = options.freeze;
  std::map<std::string_view, const void*> given;
  for_each_option(options, [&](const char* name, const auto& value, auto...) {
    if (train.count(std::string("--") + name) > 0) given[name] = &value;
  });
  for_each_option(settled, [&]<class Value>(const char* name, Value& value, auto...) {
    const auto found = given.find(name);
    if (found != given.end()) value = *static_cast<const Value*>(found->second);
  });
  options = settled;
}

void check_device(const TransformerConfig& config, const Arguments& arguments) {
  try {
    Transformer::check_trainable(config, placement_for(arguments.device), "train");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    fail(error.code(), error.what(), ": add --device cpu");
  }
}

// What a model decides on is settled, and compared with what was given, before any text is read.
void begin_with_base(const CLI::App& train, Arguments& arguments) {
  const BaseModel base = read_base(arguments.options.from);
  check_device(base.config, arguments);
  settle_with_base(train, base, arguments.options);
  if (train.count("--preset") > 0) settle_with_preset(train, arguments);
  check_with_base(arguments.options, base);
}

}  // namespace

void add_train(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* train = app.add_subcommand(
      "train", "Make a translator from parallel text, or a decoder-only model from a single text");
  TrainOptions& options = arguments->options;
  add_corpus(train, "", options.train, "Training text");
  add_corpus(train, "valid-", options.valid, "Validation text");
  for_each_tuning_option(options, [&](const char* name, auto& value, const char* help) {
    CLI::Option* option = train->add_option(std::string("--") + name, value, help);
    if constexpr (!std::is_same_v<decltype(value), std::string&>) option->delimiter(',');
    if (std::string_view(name) == "from") option->type_name(kFolder);
    option->group("Fine-tuning and languages");
  });
  train->add_option("-o,--output", arguments->folder, "The model folder to write")
      ->type_name(kFolder)
      ->required();
  train
      ->add_option("--config", arguments->config,
                   "A TOML file with any of these options, by their names (vocab = 8000)")
      ->type_name(kFile);
  train->add_flag("--resume", arguments->resume, "Continue the run in the folder");
  train->add_flag("--overwrite", arguments->overwrite,
                  "Replace a model that is already in the folder");
  add_device_flag(*train, arguments->device);
  train->add_option("--threads", arguments->threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  const AddFlag add_flag{train};
  train
      ->add_option("--preset", arguments->preset,
                   "Sizes: tiny (width 128, 4 heads, feed-forward 256, 4+4 layers), small (256, 4, "
                   "1024, 3+3), base (512, 8, 2048, 6+6) or big (1024, 16, 4096, 6+6)")
      ->transform(one_of(choices_of<Preset>()))
      ->default_str(std::string(word_for(arguments->preset)))
      ->group("Model");
  for_each_option(options, add_flag);
  train->footer(
      "With --from, sizes and tokenizer are the model's, and other defaults apply: its\n"
      "dropout, rate 0.128 / width, warm-up 20, evaluate-every 50, and updates for 10\n"
      "epochs (at least 200, at most 20,000).\n\n"
      "Examples:\n"
      "  tril train --source train.en --target train.hi --valid-source dev.en \\\n"
      "    --valid-target dev.hi -o my-model\n"
      "  echo 'How are you?' | tril translate my-model\n"
      "  tril train --from my-model --source letters.en --target letters.hi \\\n"
      "    -o letters-model");
  train->callback([arguments, train] {
    std::string& from = arguments->options.from;
    if (!from.empty()) from = std::filesystem::absolute(from).lexically_normal();
    // A run that is resumed has all its options, and may have outlived the model it began with.
    const bool tunes = !from.empty() && !arguments->resume;
    if (tunes) {
      begin_with_base(*train, *arguments);
    } else {
      settle_with_preset(*train, *arguments);
    }
    // A small batch is one pass, and on a GPU any batch is.
    int64_t& pass = arguments->options.micro_batch_tokens;
    if (train->count("--micro-batch-tokens") == 0) {
      const bool on_card = placement_for(arguments->device).device != Device::cpu;
      pass = on_card ? arguments->options.batch_tokens
                     : std::min(pass, arguments->options.batch_tokens);
    }
    if (!tunes && train->count("--bpe-dropout") == 0 &&
        arguments->options.tokenizer.type == TokenizerType::unigram) {
      arguments->options.bpe_dropout = 0.0;
    }
    make_absolute(arguments->options.train);
    make_absolute(arguments->options.valid);
    std::string& tokenizer = arguments->options.tokenizer_file;
    if (!tokenizer.empty()) tokenizer = std::filesystem::absolute(tokenizer).lexically_normal();
    run(*arguments);
  });
}

}  // namespace tril::app
