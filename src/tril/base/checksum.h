// Checksums: 128 bits that tell whether bytes have changed, the same on every machine.
//
// Any change within one aligned word of eight bytes, and so every flipped bit, is found for
// certain. Any other change would have to collide in two 64-bit hashes that mix differently. This
// protects against damage and mistakes, not against malice.
//
// The definition, so that another program can compute it too. The bytes are cut into blocks of 1
// MiB, the last one perhaps shorter; each is hashed by itself, by any thread, in any order.
// Arithmetic is modulo 2^64, words are little-endian, A = 0x9E3779B97F4A7C15, B =
// 0xC2B2AE3D27D4EB4F.
//
// A block: four pairs of chains begin as a[i] = A * (i + 1), b[i] = B * (i + 1). Of every 32 bytes,
// the last padded with zeros, word i enters pair i:
//     m = (a[i] ^ word) * A,  a[i] = m ^ (m >> 29)
//     b[i] = rotate_left(b[i] ^ word, 23) * B
// Then low = high = the number of bytes; a[0] to a[3] enter low, b[0] to b[3] enter high, each as
//     x = (x ^ chain) * A,  x ^= x >> 32
//
// All: low = 1, high = 2. The low half of each block's checksum enters low, the high half high, in
// the same way and in the order of the blocks; at the end the number of bytes enters both.
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

// Combines the checksums of blocks, given in order, into that of the whole.
class ChecksumOfBlocks {
 public:
  void add(const Checksum& block);
  Checksum value(int64_t bytes) const;

 private:
  Checksum joined_{1, 2};
};

Checksum checksum_of(std::string_view bytes);

}  // namespace tril
