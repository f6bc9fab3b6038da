// The tensors of a safetensors file that another program wrote, with all types and any alignment.
// Internal to io/. The header is checked as that of tril's own files (io/safetensors_header.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tril/io/foreign/tensor_place.h"
#include "tril/io/safetensors.h"

namespace tril::foreign {

// Sorted by name. `file` is for errors. The metadata goes to `metadata`.
std::vector<TensorPlace> read_safetensors_places(std::string_view bytes, const std::string& file,
                                                 SafetensorsMetadata& metadata);

}  // namespace tril::foreign
