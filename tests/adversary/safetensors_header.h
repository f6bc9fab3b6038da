// The parts of a safetensors file that experiments inspect or change: 8 bytes with the header's
// size, that many bytes of JSON, then the tensors.
#pragma once

#include <string>

namespace adversary {

// A checkpoint without what differs between two equal runs: `seconds` of its state, and the
// checksum of the header, which depends on it. Anything but a safetensors file is returned
// unchanged.
std::string comparable_checkpoint(const std::string& bytes);

// The file as a program without checksums would have written it. Empty if it has none.
std::string without_seal(const std::string& bytes);

}  // namespace adversary
