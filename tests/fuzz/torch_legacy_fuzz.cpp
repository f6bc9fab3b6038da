// Any pickles and storages, after the beginning that every such file has, are either a state dict
// whose every tensor can be read, or one tril::Error. The same pickle in a zip archive would need
// lengths that fit, so this target is also the one for pickles.
#include <string>

#include "foreign_places.h"
#include "tril/io/foreign/torch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The magic number, the protocol, and {"little_endian": True}.
  std::string bytes("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.",
                    21);
  bytes += std::string("\x80\x02}X\x0d\0\0\0little_endian\x88s.", 24);
  bytes += tril::fuzz::view(data, size);
  tril::fuzz::places_or_error(bytes, [&] { return tril::foreign::read_torch_file(bytes, "fuzz"); });
  return 0;
}
