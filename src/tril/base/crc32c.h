// CRC-32C (Castagnoli), the checksum of several formats of other programs; tril's own is in
// base/checksum.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace tril {

uint32_t crc32c(std::string_view bytes);

}  // namespace tril
