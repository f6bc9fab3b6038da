// Any bytes are either what an import kept, which is written again with the same meaning, or one
// tril::Error.
#include <cstddef>
#include <cstdint>

#include "fuzz/scratch.h"
#include "tril/base/error.h"
#include "tril/hub/kept.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const tril::hub::Kept kept = tril::hub::read_kept(tril::fuzz::view(data, size), "fuzz");
    const std::string bytes = tril::hub::to_bytes(kept);
    tril::fuzz::check(tril::hub::to_bytes(tril::hub::read_kept(bytes, "again")) == bytes);
    for (const tril::hub::KeptTensor& tensor : kept.tensors) {
      tril::fuzz::check(tensor.file < kept.weight_files.size());
      tril::fuzz::check(!tensor.data || *tensor.data < kept.data.size());
    }
    for (const auto& [name, contents] : kept.files) {
      tril::fuzz::check(tril::hub::is_file_name(name));
    }
  } catch (const tril::Error&) {
  }
  return 0;
}
