// The header of a safetensors file, as far as experiments look into it or change it: 8 bytes with
// its size, that many bytes of JSON, then the tensors.
#pragma once

#include <string>

namespace adversary {

// A checkpoint without what two equal runs do not share: `seconds` of its state, and the checksum
// of the header, which depends on it. What is no safetensors file comes back as it is.
std::string comparable_checkpoint(const std::string& bytes);

// The file as a program without checksums would have written it. Empty if it has none.
std::string without_seal(const std::string& bytes);

}  // namespace adversary
