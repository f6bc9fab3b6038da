// Any bytes are either tensors of any stored type whose every element can be read, or one
// tril::Error.
#include "foreign_places.h"
#include "tril/io/foreign/safetensors_places.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = tril::fuzz::view(data, size);
  tril::fuzz::places_or_error(bytes, [&] {
    tril::SafetensorsMetadata metadata;
    return tril::foreign::read_safetensors_places(bytes, "fuzz", metadata);
  });
  return 0;
}
