#include <fmt/core.h>

#include <filesystem>

#include "commands.h"
#include "lesson.h"
#include "loading.h"
#include "output.h"

namespace tril::app {

LessonTranslator find_translator(const LessonFlags& flags, const Phrasebook& phrasebook) {
  constexpr int64_t kUpdates = 300;
  const std::string demo = "demo-model";
  std::error_code ignored;
  const auto load = [&](const std::string& folder) {
    return LessonTranslator{Translator::load(folder, flags.threads, {}, telling()),
                            is_demo_model(folder)};
  };
  if (!flags.model.empty()) return load(flags.model);
  if (std::filesystem::exists(demo + "/config.json", ignored)) {
    LessonTranslator found = load(demo);
    if (!found.translator.model().config().decoder_only()) {
      message(fmt::format("using ./{} (--model chooses another)\n", demo));
      return found;
    }
  }
  message(fmt::format(
      "no model here: learning the phrasebook for {} updates, few enough to leave mistakes\n",
      kUpdates));
  return {learn_phrasebook(phrasebook, {.updates = kUpdates,
                                        .seed = flags.seed,
                                        .threads = flags.threads,
                                        .progress = learning_progress(kUpdates, "learning")}),
          true};
}

}  // namespace tril::app
