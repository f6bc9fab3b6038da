#include "loading.h"

#include <fmt/core.h>

namespace tril::app {

Translator load_translator(const std::string& folder, int threads, std::optional<Compute> compute) {
  const NoticeListener listener(
      [](const std::string& text) { fmt::print(stderr, "tril: {}\n", escaped(text)); });
  return Translator::load_for_inference(folder, threads, compute);
}

}  // namespace tril::app
