// Fuzzes generation.json: anything but a tril::Error is a fault, and settings that were read must
// survive being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tril/base/error.h"
#include "tril/decode/generation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const tril::GenerationSettings settings = tril::generation_from_json(text, "fuzz");
    if (!(tril::generation_from_json(tril::to_json(settings), "again") == settings)) std::abort();
  } catch (const tril::Error&) {
  }
  return 0;
}
