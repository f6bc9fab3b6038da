// Any bytes are either a SentencePiece model of somebody's that works, for every family that has
// one without a tokenizer.json, or one tril::Error.
#include <cstddef>
#include <cstdint>

#include "fuzz/use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string model(reinterpret_cast<const char*>(bytes), size);
  const char* const families[] = {"llama", "t5", "pegasus", "m2m_100", "mbart"};
  const size_t family = size % std::size(families);
  const char* const name = family < 3 ? "spiece.model" : "sentencepiece.bpe.model";
  tril::fuzz::try_files({{name, model}}, families[family]);
  return 0;
}
