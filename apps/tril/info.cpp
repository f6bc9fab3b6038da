#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "loading.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

void show_machine() {
  const Target target = current_target();  // may raise, as the next: nothing is printed then
  const CudaCard& card = cuda_card();
  fmt::print("processor  {}\n", cpu_name());
  fmt::print("threads    {}\n", Parallel().threads());
  fmt::print("target     {} (of", to_string(target));
  for (const Target other : available_targets()) fmt::print(" {}", to_string(other));
  fmt::print("; TRIL_TARGET chooses)\n");
  if (!card.usable) {
    constexpr std::string_view kPrefix = "cuda: ";
    std::string_view problem = card.problem;
    if (problem.starts_with(kPrefix)) problem.remove_prefix(kPrefix.size());
    fmt::print("card       none to use: {}\n", problem);
    return;
  }
  fmt::print("card       {}, compute capability {}.{}, {} multiprocessors, {:.0f} GiB, {}\n",
             card.name, card.capability / 10, card.capability % 10, card.multiprocessors,
             static_cast<double>(card.memory_bytes) / (1 << 30),
             card.hopper ? "with the instructions of 9.0a" : "without those of 9.0a");
}

void show_model(const std::string& folder) {
  if (!file_exists(path_in(folder, kWeightsFile)) && file_exists(path_in(folder, kConfigFile))) {
    const Transformer model = Transformer::load_for_inference(folder, {}, telling());
    fmt::print("{}", to_json(model.config()));
    fmt::print("{} parameters, packed in {}: for inference on the CPU\n", model.parameter_count(),
               word_for(model.compute()));
    return;
  }
  const Transformer model = Transformer::load(folder, {}, telling());
  fmt::print("{}", to_json(model.config()));
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) {
    fmt::print("{:<44} {}\n", parameter.name, to_string(parameter.tensor.shape()));
    count += parameter.tensor.size();
  }
  fmt::print("{} parameters\n", count);
}

}  // namespace

void add_info(CLI::App& app) {
  auto folder = std::make_shared<std::string>();
  CLI::App* info = app.add_subcommand("info", "Say what this machine, or a model folder, is");
  const CLI::Option* given =
      info->add_option("model", *folder, "A model folder; without one, the machine");
  info->footer("Examples:\n  tril info\n  tril info my-model");
  info->callback([folder, given] { given->count() == 0 ? show_machine() : show_model(*folder); });
}

}  // namespace tril::app
