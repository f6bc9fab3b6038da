// Fuzzes the configuration of a model: anything but a tril::Error is a fault, and a configuration
// that was read must survive being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tril/base/error.h"
#include "tril/models/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const tril::TransformerConfig config = tril::config_from_json(text, "fuzz");
    if (!(tril::config_from_json(tril::to_json(config), "again") == config)) std::abort();
  } catch (const tril::Error&) {
  }
  return 0;
}
