// Any bytes are either a state dict in a zip archive whose every tensor can be read, or one
// tril::Error.
#include "foreign_places.h"
#include "tril/io/foreign/torch_file.h"
#include "tril/io/foreign/zip_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = tril::fuzz::view(data, size);
  tril::fuzz::places_or_error(bytes, [&] { return tril::foreign::read_torch_file(bytes, "fuzz"); });
  // An archive that holds no state dict.
  tril::fuzz::places_or_error(bytes, [&] {
    for (const tril::foreign::ZipEntry& entry : tril::foreign::read_zip_directory(bytes, "fuzz")) {
      tril::fuzz::check(entry.begin >= 0 && entry.bytes >= 0 &&
                        entry.begin + entry.bytes <= static_cast<int64_t>(size));
    }
    return std::vector<tril::foreign::TensorPlace>{};
  });
  return 0;
}
