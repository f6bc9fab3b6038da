#include "model.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bind.h"
#include "flow.h"
#include "tril/io/atomic_file.h"
#include "tril/translate/doubt.h"
#include "tril/translate/text_plan.h"
#include "words.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// How often a thread that waits lets Python handle signals.
constexpr std::chrono::milliseconds kSignals{50};

using Prefixes = std::vector<std::string>;
using StepCallback = nb::typed<nb::callable, nb::object(Step)>;

Device device_for(const Loading& loading, std::optional<Compute> compute, bool packed_alone) {
  const bool for_cpu = packed_alone || compute == Compute::int8 || compute == Compute::bf16_dot;
  if (loading.device == "auto") return for_cpu ? Device::cpu : best_device();
  const auto device = device_from(loading.device);
  require(device.has_value(), ErrorCode::invalid_argument, Field{"device"},
          "device: expected 'auto', 'cpu', 'cuda' or 'cuda:1', got '", loading.device, "'");
  return *device;
}

Model* load_model(const std::string& folder, const std::string& device, const std::string& compute,
                  int threads) {
  begin_use();
  const Loading loading{folder, device, compute, threads};
  std::vector<std::string> notices;
  const WithoutGil unlocked;
  Translator translator = load(loading, Purpose::inference, &notices);
  return new Model{loading, Held(std::move(translator)), std::move(notices)};
}

// Calls the function with every step that has arrived; a line for which it returns true ends there.
void tell_steps(Flow& flow, const StepCallback& call, WithoutGil& unlocked) {
  std::vector<Step> steps = flow.take_steps();
  if (steps.empty()) return;
  unlocked.with([&] {
    for (Step& step : steps) {
      if (!flow.add(step)) continue;
      const int64_t number = step.number;
      if (nb::cast<bool>(nb::bool_(call(std::move(step))))) flow.end(number);
    }
  });
}

std::vector<Translation> translate_lines(const Model& model, std::vector<std::string> lines,
                                         Prefixes prefixes, const TranslateOptions& options,
                                         int64_t first, const std::optional<StepCallback>& step) {
  begin_use();
  require(prefixes.empty() || prefixes.size() == lines.size(), ErrorCode::invalid_argument,
          "translate: ", lines.size(), " lines, but ", prefixes.size(), " prefixes");
  WithoutGil unlocked;
  Flow flow(*model.translator, options, first, step.has_value());
  std::vector<Translation> done;
  done.reserve(lines.size());
  auto last_signals = Clock::now();
  for (size_t next = 0; done.size() < lines.size();) {
    for (; next < lines.size() && flow.wants(); ++next) {
      flow.submit({std::move(lines[next]), prefixes.empty() ? "" : std::move(prefixes[next])});
    }
    const bool is_ready = flow.wait(kSignals);
    if (step) tell_steps(flow, *step, unlocked);
    if (is_ready) done.push_back(flow.take());
    if (const auto now = Clock::now(); now - last_signals >= kSignals) {
      last_signals = now;
      unlocked.check_signals();
    }
  }
  return done;
}

// A Flow for Python, which decides where the lines come from.
class Stream {
 public:
  Stream(const Model& model, const TranslateOptions& options, int64_t first)
      : flow_((begin_use(), std::make_unique<Flow>(*model.translator, options, first, false))) {}

  bool wants() const { return flow()->wants(); }
  bool empty() const { return flow()->empty(); }
  void submit(std::string line, std::string prefix) {
    begin_use();
    const WithoutGil unlocked;
    flow()->submit({std::move(line), std::move(prefix)});
  }
  Translation next() {
    begin_use();
    require(!flow()->empty(), ErrorCode::invalid_argument, "translate: no line is on its way");
    WithoutGil unlocked;
    while (!flow()->wait(kSignals)) unlocked.check_signals();
    return flow()->take();
  }

 private:
  const std::unique_ptr<Flow>& flow() const { return *flow_; }
  Held<std::unique_ptr<Flow>> flow_;
};

std::vector<TextScore> score_pairs(const Model& model,
                                   std::vector<std::pair<std::string, std::string>> pairs,
                                   const TranslateOptions& options) {
  begin_use();
  WithoutGil unlocked;
  std::vector<TextScore> scores;
  scores.reserve(pairs.size());
  size_t next = 0;
  model.translator->score(
      [&]() -> std::optional<ScoreTextRequest> {
        if (next == pairs.size()) return std::nullopt;
        auto& [source, target] = pairs[next++];
        return ScoreTextRequest{std::move(source), std::move(target)};
      },
      [&](TextScore&& score) {
        if (scores.size() % 64 == 0) unlocked.check_signals();
        scores.push_back(std::move(score));
        return true;
      },
      {.bad_lines = options.bad_lines,
       .shortlist = options.shortlist,
       .languages = options.languages});
  return scores;
}

std::string translate_whole(const Model& model, const std::string& text,
                            const TranslateOptions& options, const std::string& split) {
  begin_use();
  WithoutGil unlocked;
  const TextPlan plan =
      plan_text(*model.translator, text, options.languages, from_word<Split>("split", split));
  Flow flow(*model.translator, options, 0, false);
  std::vector<std::string> parts;
  for (size_t next = 0; parts.size() < plan.parts.size();) {
    for (; next < plan.parts.size() && flow.wants(); ++next) flow.submit({plan.parts[next].source});
    if (flow.wait(kSignals)) {
      parts.push_back(flow.take().text());
    } else {
      unlocked.check_signals();
    }
  }
  return plan.join(parts);
}

}  // namespace

Translator load(const Loading& loading, Purpose purpose, std::vector<std::string>* notices) {
  std::optional<Compute> compute;
  if (loading.compute != "default") compute = from_word<Compute>("compute_type", loading.compute);
  require(loading.threads >= 0 && loading.threads <= 1024, ErrorCode::invalid_argument,
          Field{"threads"}, "threads: expected 0 to 1024, got ", loading.threads);
  LoadOptions options;
  const bool packed_alone =
      !file_exists(path_in(loading.folder, kWeightsFile)) && purpose == Purpose::inference;
  options.device = device_for(loading, compute, packed_alone);
  check_usable(options.device);
  options.compute = compute;
  options.purpose = purpose;
  if (notices != nullptr) {
    options.notice = [notices](const Notice& notice) { notices->push_back(notice.text); };
  }
  return Translator::load(loading.folder, options, loading.threads);
}

void bind_model(nb::module_& module) {
  nb::class_<Model> model(module, "Model", "A model folder, loaded for inference.");
  model
      .def(nb::new_(&load_model), "folder"_a, "device"_a = "auto", "compute"_a = "default",
           "threads"_a = 0)
      .def_prop_ro("folder", [](const Model& m) { return m.loading.folder; })
      .def_prop_ro("notices", [](const Model& m) { return m.notices; })
      .def_prop_ro(
          "device",
          [](const Model& m) { return to_string(m.translator->model().placement().device); })
      .def_prop_ro(
          "compute",
          [](const Model& m) { return std::string(word_for(m.translator->model().compute())); })
      .def_prop_ro("decoder_only",
                   [](const Model& m) { return m.translator->model().config().decoder_only(); })
      .def_prop_ro("parameters",
                   [](const Model& m) { return m.translator->model().parameter_count(); })
      .def_prop_ro("config", [](const Model& m) { return to_json(m.translator->model().config()); })
      .def_prop_ro("languages", [](const Model& m) { return m.translator->languages().codes; })
      .def_prop_ro("usual_languages",
                   [](const Model& m) {
                     const LanguagePair usual = m.translator->languages().usual;
                     return std::pair(usual.from, usual.to);
                   })
      .def(
          "width",
          [](const Model& m, const TranslateOptions& options) {
            return width_of(*m.translator, options);
          },
          "options"_a, "Hypotheses that are alive at once with these options.")
      .def("translate_lines", &translate_lines, "lines"_a, "prefixes"_a, "options"_a,
           "first_number"_a = 0, "step"_a = nb::none())
      .def("translate_text", &translate_whole, "text"_a, "options"_a, "split"_a)
      .def("score", &score_pairs, "pairs"_a, "options"_a)
      .def(
          "doubt",
          [](const Model& m, const std::string& line, const TranslateOptions& options) {
            return doubt_about(*m.translator, line, options.languages);
          },
          "line"_a, "options"_a);
  nb::class_<Stream>(module, "Flow", "Lines on their way through a model, in order.")
      .def(nb::init<const Model&, const TranslateOptions&, int64_t>(), "model"_a, "options"_a,
           "first_number"_a = 0)
      .def("wants", &Stream::wants, "Whether another line should be submitted now.")
      .def("empty", &Stream::empty)
      .def("submit", &Stream::submit, "line"_a, "prefix"_a = "")
      .def("next", &Stream::next, "Waits for the next line in order.");
}

}  // namespace tril::python
