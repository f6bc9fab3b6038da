// Any folder is either a model that can be read, or one tril::Error. The input is a config.json, a
// line "===", and a model.safetensors.
#include <cstddef>
#include <cstdint>

#include "fuzz/scratch.h"
#include "tril/base/error.h"
#include "tril/hub/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kMark = "\n===\n";
  const std::string_view bytes = tril::fuzz::view(data, size);
  const size_t at = bytes.find(kMark);
  if (at == bytes.npos) return 0;
  tril::fuzz::put("config.json", bytes.substr(0, at));
  tril::fuzz::put("model.safetensors", bytes.substr(at + kMark.size()));
  try {
    tril::hub::ImportReport report;
    const tril::Transformer model = tril::hub::read_model(tril::fuzz::scratch(), {}, &report);
    tril::fuzz::check(model.parameter_count() == report.parameters);
  } catch (const tril::Error&) {
  }
  return 0;
}
