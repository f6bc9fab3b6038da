// Checksums: 128 bits that tell whether bytes are still what they were, the same on every machine.
//
// Any change inside one aligned word of eight bytes, and so every flipped bit, is found for
// certain; any other change is missed with a probability of about 2^-128. It guards against damage
// and mistakes, not against malice. One thread hashes some 15 GB per second.
//
// How it is made, so that another program can make it too. The bytes are cut into blocks of 1 MiB,
// the last one perhaps shorter; each is hashed alone, by any thread, in any order. With the prime
// P = 0x9E3779B97F4A7C15, arithmetic modulo 2^64 and words in little-endian order:
//   block   eight chains begin as c[i] = P * (i + 1); for every 64 bytes, the last padded with
//           zeros, word i enters chain i: m = (c[i] ^ word) * P, c[i] = m ^ (m >> 29). Then
//           low = high = the number of bytes; c[0] to c[7] enter low, c[7] to c[0] enter high, each
//           as x = (x ^ c) * P, x ^= x >> 32.
//   all     low = 1, high = 2; the low and the high half of each block's checksum enter low and
//   high
//           in the same way, in the order of the blocks; at the end the number of bytes enters
//           both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tril {

struct Checksum {
  uint64_t low = 0;
  uint64_t high = 0;

  bool operator==(const Checksum&) const = default;
};
constexpr int64_t kChecksumBlock = int64_t{1} << 20;
constexpr size_t kChecksumDigits = 32;

// 32 hexadecimal digits, the high half first.
std::string to_string(const Checksum& checksum);

// Of one block: at most kChecksumBlock bytes.
Checksum block_checksum(std::string_view block);

// Joins the checksums of blocks, given in their order, to that of the whole.
class ChecksumOfBlocks {
 public:
  void add(const Checksum& block);
  Checksum value(int64_t bytes) const;

 private:
  Checksum joined_{1, 2};
};

Checksum checksum_of(std::string_view bytes);

}  // namespace tril
