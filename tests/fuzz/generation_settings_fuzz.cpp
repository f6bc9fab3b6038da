// Fuzzes the reader of generation_config.json: anything but a tril::Error is a fault, and what it
// makes of one must be a generation.json.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tril/base/error.h"
#include "tril/hub/generation_settings.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tril;
  const std::string text(reinterpret_cast<const char*>(data), size);
  hub::ImportedGeneration read;
  try {
    read = hub::generation_settings(
        text, "fuzz",
        {.vocab = 100, .decoder_only = size % 2 == 0, .ends = {2}, .languages = {{"deu", 7}}});
  } catch (const Error&) {
    return 0;
  }
  try {
    check_tokens(read.settings, 100, "fuzz");
    if (!(generation_from_json(to_json(read.settings), "again") == read.settings)) std::abort();
  } catch (const Error&) {
    std::abort();
  }
  return 0;
}
