// Any bytes are either a tokenizer.json that works, for every family that may have one, or one
// tril::Error.
#include <cstddef>
#include <cstdint>

#include "fuzz/use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const char* const families[] = {"llama", "m2m_100", "mbart", "t5", "bart", "gpt2"};
  tril::fuzz::try_files({{"tokenizer.json", text}}, families[size % std::size(families)]);
  return 0;
}
