// How pieces become text again: the part "decoder" of a tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tril/text/pipeline/component.h"

namespace tril::pipeline {

class Decoder {
 public:
  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  virtual ~Decoder() = default;
  // The texts of tokens, which are joined when the last decoder is done.
  virtual std::vector<std::string> apply(std::vector<std::string> tokens) const = 0;
};

// ByteLevel, Metaspace, ByteFallback, Fuse, Strip, Replace, Sequence; others raise `unsupported`.
std::unique_ptr<const Decoder> make_decoder(Component component);
std::unique_ptr<const Decoder> make_byte_level_decoder();

// Whether pieces are in the alphabet of bytes; and whether "<0xE0>" stands for a byte.
struct DecodesBytes {
  bool letters = false;
  bool fallback = false;
};
DecodesBytes decodes_bytes(Component component);

}  // namespace tril::pipeline
