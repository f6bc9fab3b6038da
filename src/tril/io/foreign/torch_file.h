// The file of a PyTorch state dict (`pytorch_model.bin`): where its tensors lie. Internal to io/.
//
// Both forms that torch.save has had are read:
//   since 1.6   a zip archive: NAME/data.pkl is a pickle of the dict, NAME/data/KEY are storages
//   before      pickles one after the other: a magic number, the protocol, facts about the machine,
//               the dict, the keys of the storages; then each storage, preceded by its length
// A tensor is a view of a storage (offset, shape, strides); several may share one, and transposed
// ones are not dense. Each is checked against its storage, and each storage against the file.
// Nothing is executed (io/foreign/pickle.h). Every fault is one Error (`bad_format`) that names the
// file and the tensor, storage, entry or global.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tril/io/foreign/tensor_place.h"

namespace tril::foreign {

// Sorted by name. `file` is for errors.
std::vector<TensorPlace> read_torch_file(std::string_view bytes, const std::string& file);

// Reads the whole file and compares the checksums of a zip archive's entries. The older form has
// none.
void verify_torch_file(const std::string& path);

}  // namespace tril::foreign
