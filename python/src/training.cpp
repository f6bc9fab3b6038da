// train(): a run of the trainer, with reports to Python.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>

#include "bind.h"
#include "gil.h"
#include "tril/io/toml.h"
#include "tril/lesson/demo.h"
#include "tril/train/option_list.h"
#include "tril/train/options.h"
#include "tril/train/trainer.h"
#include "tril/train/tuning.h"
#include "words.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// An option by its name on the command line, with its values as text, as in a TOML file of options.
using Setting = std::pair<std::string, std::vector<std::string>>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

template <class Number>
void parse(const std::string& name, const std::string& text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, value);
  require(problem == std::errc() && at == end, ErrorCode::invalid_argument, name,
          ": expected a number, got '", text, "'");
}

void parse(const std::string& name, const std::string& text, bool& value) {
  require(text == "true" || text == "false", ErrorCode::invalid_argument, name,
          ": expected true or false, got '", text, "'");
  value = text == "true";
}

void parse(const std::string&, const std::string& text, std::string& value) { value = text; }

template <class Enum>
requires std::is_enum_v<Enum>
void parse(const std::string& name, const std::string& text, Enum& value) {
  value = from_word<Enum>(name, text);
}

// The options of a run from settings, and which were named.
class Settings {
 public:
  explicit Settings(const std::vector<Setting>& settings) : settings_(settings) {}

  // Sets those that are about text and tuning.
  void set_files(TrainOptions& options) {
    const auto corpus = [&](const std::string& prefix, CorpusFiles& files) {
      list(prefix + "source", files.source);
      list(prefix + "target", files.target);
      list(prefix + "tsv", files.tsv);
      list(prefix + "text", files.text);
    };
    corpus("", options.train);
    corpus("valid-", options.valid);
    for_each_tuning_option(options, [&](const char* name, auto& value, auto...) {
      if constexpr (std::is_same_v<decltype(value), std::string&>) {
        one(name, value);
      } else {
        list(name, value);
      }
    });
  }
  void set_others(TrainOptions& options) {
    for_each_option(options, [&](const char* name, auto& value, auto...) { one(name, value); });
  }
  template <class Value>
  bool one(const std::string& name, Value& value) {
    const Setting* const found = find(name);
    if (found == nullptr) return false;
    require(found->second.size() == 1, ErrorCode::invalid_argument, name,
            ": expected one value, got ", found->second.size());
    parse(name, found->second.front(), value);
    return true;
  }
  bool has(const std::string& name) { return find(name) != nullptr; }
  // Raises for a name that nothing has looked for.
  void check_known() const {
    for (const auto& [name, values] : settings_) {
      require(known_.contains(name), ErrorCode::invalid_argument, "train: there is no option '",
              name, "'");
    }
  }

 private:
  void list(const std::string& name, std::vector<std::string>& values) {
    if (const Setting* const found = find(name)) values = found->second;
  }
  const Setting* find(const std::string& name) {
    known_.insert(name);
    const auto found = std::find_if(settings_.begin(), settings_.end(),
                                    [&](const Setting& s) { return s.first == name; });
    return found == settings_.end() ? nullptr : &*found;
  }

  const std::vector<Setting>& settings_;
  std::set<std::string> known_;
};

// As `tril train` settles them (apps/tril/train.cpp): sizes that were not named are the preset's,
// and of a run that begins with a model all others are those made for that.
TrainOptions options_of(Settings& settings, bool resumes, bool on_gpu) {
  TrainOptions options;
  settings.set_files(options);
  Preset preset = Preset::tiny;
  const bool has_preset = settings.one("preset", preset);
  const bool tunes = !options.from.empty() && !resumes;
  std::optional<BaseModel> base;
  if (tunes) {
    base = read_base(options.from);
    TrainOptions settled = tuning_options(*base);
    settings.set_files(settled);
    options = std::move(settled);
  } else if (has_preset) {
    apply_preset(preset, options.model);
  }
  settings.set_others(options);
  if (!settings.has("micro-batch-tokens")) {
    options.micro_batch_tokens =
        on_gpu ? options.batch_tokens : std::min(options.micro_batch_tokens, options.batch_tokens);
  }
  if (!tunes && !settings.has("bpe-dropout") && options.tokenizer.type == TokenizerType::unigram) {
    options.bpe_dropout = 0.0;
  }
  settings.check_known();
  if (base) check_with_base(options, *base);
  return options;
}

// Those of the run in a folder, except for what is named.
std::vector<Setting> with_record(std::vector<Setting> settings, const std::string& folder) {
  for (const TomlOption& option : parse_toml(options_of_run(folder), folder)) {
    const bool named = std::any_of(settings.begin(), settings.end(),
                                   [&](const Setting& s) { return s.first == option.name; });
    if (!named) settings.emplace_back(option.name, option.values);
  }
  return settings;
}

using StatusCallback = nb::typed<nb::callable, nb::object(TrainStatus)>;
using MessageCallback = nb::typed<nb::callable, nb::object(std::string)>;
// The status, the loss, BLEU, the outputs, and whether it is the best so far.
using EvaluatedCallback = nb::typed<nb::callable, nb::object(TrainStatus, double, double,
                                                             std::vector<std::string>, bool)>;

struct Reports {
  std::optional<StatusCallback> status;
  std::optional<MessageCallback> message;
  std::optional<EvaluatedCallback> evaluated;
};

// Calls a Python function now and then, lets Python handle signals, and remembers what it raised:
// the trainer then writes a checkpoint and returns.
class Listener {
 public:
  Listener(WithoutGil& unlocked, const Reports& reports) : unlocked_(unlocked), reports_(reports) {}

  TrainEvents events() {
    TrainEvents events;
    if (reports_.status) {
      events.progress = [this](const TrainStatus& status) {
        guarded([&] { stop_ = nb::cast<bool>(nb::bool_((*reports_.status)(status))) || stop_; });
      };
    }
    if (reports_.message) {
      events.message = [this](const Notice& notice) {
        guarded([&] { (*reports_.message)(notice.text); });
      };
    }
    if (reports_.evaluated) {
      events.evaluated = [this](const TrainStatus& status, const Evaluation& e, bool best) {
        guarded([&] {
          stop_ = nb::cast<bool>(
                      nb::bool_((*reports_.evaluated)(status, e.loss, e.bleu, e.outputs, best))) ||
                  stop_;
        });
      };
    }
    events.cancelled = [this] {
      const auto now = std::chrono::steady_clock::now();
      if (now - last_ > std::chrono::milliseconds(50)) {
        last_ = now;
        guarded([] {
          if (PyErr_CheckSignals() != 0) throw nb::python_error();
        });
      }
      return stop_;
    };
    return events;
  }
  void raise() const {
    if (raised_) throw nb::python_error(*raised_);
  }

 private:
  template <class F>
  void guarded(const F& f) {
    if (raised_) return;
    unlocked_.with([&] {
      try {
        f();
      } catch (nb::python_error& error) {
        raised_.emplace(error);
        stop_ = true;
      }
    });
  }

  WithoutGil& unlocked_;
  const Reports& reports_;
  std::optional<nb::python_error> raised_;
  bool stop_ = false;
  std::chrono::steady_clock::time_point last_{};
};

struct Text {
  std::optional<Pairs> train, valid;
};

TrainSummary run(const std::string& folder, std::vector<Setting> given, const Text& pairs,
                 const std::string& start_word, const std::string& device_word, int threads,
                 const Reports& reports) {
  begin_use();
  const RunStart start = start_word == "resume"      ? RunStart::resume
                         : start_word == "overwrite" ? RunStart::overwrite
                                                     : RunStart::fresh;
  Device device = best_device();
  if (device_word != "auto") {
    const auto named = device_from(device_word);
    require(named.has_value(), ErrorCode::invalid_argument,
            "device: expected 'auto', 'cpu', 'cuda' or 'cuda:1', got '", device_word, "'");
    device = *named;
  }
  check_usable(device);
  TrainSummary summary;
  WithoutGil unlocked;
  Listener listener(unlocked, reports);
  {
    check_start(folder, start);
    const bool resumes = start == RunStart::resume;
    if (resumes) given = with_record(std::move(given), folder);
    Settings settings(given);
    const TrainOptions options = options_of(settings, resumes, on_gpu(device));
    TrainEvents events = listener.events();
    std::optional<TrainingText> text;
    if (pairs.train) {
      require(options.train.empty() && options.valid.empty(), ErrorCode::invalid_argument,
              "train: files and pairs of text together");
      text.emplace(TrainingText{Corpus::of(*pairs.train), std::nullopt});
      if (pairs.valid) text->valid = Corpus::of(*pairs.valid);
    } else {
      text.emplace(read_text(options, events));
    }
    summary = train(*text, options, folder, start, {threads, device}, events);
  }
  listener.raise();
  return summary;
}

}  // namespace

void bind_training(nb::module_& module) {
  nb::class_<TrainStatus>(module, "TrainStatus", "How far a run has come.")
      .def_ro("update", &TrainStatus::update)
      .def_ro("updates", &TrainStatus::updates)
      .def_ro("epoch", &TrainStatus::epoch)
      .def_ro("loss", &TrainStatus::loss, "Per target token, recently.")
      .def_ro("rate", &TrainStatus::rate, "The learning rate.")
      .def_ro("tokens_per_second", &TrainStatus::tokens_per_s)
      .def_ro("seconds", &TrainStatus::seconds)
      .def_ro("seconds_left", &TrainStatus::seconds_left)
      .def_ro("best", &TrainStatus::best, "Of the evaluations so far: BLEU, or the loss.")
      .def_ro("evaluated", &TrainStatus::evaluated, "Whether there was an evaluation.");
  nb::class_<TrainSummary>(module, "TrainSummary", "How a run ended.")
      .def_ro("last", &TrainSummary::last)
      .def_ro("finished", &TrainSummary::finished,
              "False if it was stopped: resume=True continues it.")
      .def_ro("best_update", &TrainSummary::best_update)
      .def_ro("best", &TrainSummary::best)
      .def_ro("parameters", &TrainSummary::parameters)
      .def_ro("stopped_early", &TrainSummary::stopped_early);
  module.def(
      "train",
      [](const std::string& folder, std::vector<Setting> settings, std::optional<Pairs> pairs,
         std::optional<Pairs> valid_pairs, const std::string& start, const std::string& device,
         int threads, std::optional<StatusCallback> status, std::optional<MessageCallback> message,
         std::optional<EvaluatedCallback> evaluated) {
        return run(folder, std::move(settings), {std::move(pairs), std::move(valid_pairs)}, start,
                   device, threads, {std::move(status), std::move(message), std::move(evaluated)});
      },
      "folder"_a, "settings"_a, "pairs"_a = nb::none(), "valid_pairs"_a = nb::none(),
      "start"_a = "fresh", "device"_a = "auto", "threads"_a = 0, "status"_a = nb::none(),
      "message"_a = nb::none(), "evaluated"_a = nb::none());
  module.def(
      "train_options",
      [] {
        std::vector<std::pair<std::string, std::string>> options;
        TrainOptions o;
        for_each_option(o, [&](const char* name, auto&, const char* help, auto) {
          options.emplace_back(name, help);
        });
        for_each_tuning_option(o, [&](const char* name, auto&, const char* help) {
          options.emplace_back(name, help);
        });
        return options;
      },
      "The names of all options, as `tril train` has them, with a line of help for each.");
  module.def(
      "demo_settings",
      [] {
        std::vector<std::pair<std::string, std::string>> settings;
        for (const TomlOption& option : parse_toml(to_toml(demo_options()), "the demo's options")) {
          if (option.values.size() == 1) settings.emplace_back(option.name, option.values.front());
        }
        return settings;
      },
      "The options with which `tril demo` learns its phrasebook.");
}

}  // namespace tril::python
