#include <fmt/core.h>

#include <filesystem>

#include "commands.h"
#include "lesson.h"
#include "loading.h"
#include "output.h"
#include "tril/lesson/learn_phrasebook.h"
#include "tril/lesson/phrasebook.h"

namespace tril::app {

std::optional<Subject> translator_on_disk(const LessonFlags& flags) {
  const std::string demo = "demo-model";
  std::error_code ignored;
  const auto load = [&](const std::string& folder) {
    return Subject{Translator::load(folder, to_study(folder), flags.threads),
                   is_demo_model(folder) ? Seen::never : Seen::unknown};
  };
  if (!flags.model.empty()) return load(flags.model);
  if (std::filesystem::exists(std::filesystem::path(demo) / "config.json", ignored)) {
    Subject subject = load(demo);
    if (!subject.translator.model().config().decoder_only()) {
      message(fmt::format("using ./{} (--model chooses another)\n", demo));
      return subject;
    }
  }
  return std::nullopt;
}

Subject find_translator(const LessonFlags& flags, const Phrasebook& phrasebook) {
  constexpr int64_t kUpdates = 300;  // few, so that the model makes mistakes
  if (auto there = translator_on_disk(flags)) return *std::move(there);
  message(fmt::format("no ./demo-model here: training a small one ({} updates)\n", kUpdates));
  return {learn_phrasebook(phrasebook, {.updates = kUpdates,
                                        .seed = flags.seed,
                                        .threads = flags.threads,
                                        .progress = learning_progress(kUpdates, "learning")}),
          Seen::never};
}

}  // namespace tril::app
