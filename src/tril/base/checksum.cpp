#include "tril/base/checksum.h"

#include <bit>
#include <cstring>

#include "tril/base/fingerprint.h"

namespace tril {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they stand");

constexpr uint64_t kA = 0x9E3779B97F4A7C15u;
constexpr uint64_t kB = 0xC2B2AE3D27D4EB4Fu;
constexpr size_t kPairs = 4;
constexpr size_t kStep = kPairs * sizeof(uint64_t);

struct Chains {
  uint64_t a[kPairs];
  uint64_t b[kPairs];
};

// Every step is a bijection of the chain for a given word, and of the word for a given chain: one
// changed word certainly changes its chains, and one changed chain the result. The highest bit of a
// product depends on the highest bit of its factor alone, so in one kind of chain a few changed
// bits could cancel each other; the other kind rotates them elsewhere before it multiplies.
void take(Chains& chains, const char* bytes) {
  uint64_t words[kPairs];
  std::memcpy(words, bytes, kStep);
  for (size_t i = 0; i < kPairs; ++i) {
    const uint64_t mixed = (chains.a[i] ^ words[i]) * kA;
    chains.a[i] = mixed ^ (mixed >> 29);
    chains.b[i] = std::rotl(chains.b[i] ^ words[i], 23) * kB;
  }
}

void enter(uint64_t& half, uint64_t word) {
  half = (half ^ word) * kA;
  half ^= half >> 32;
}

}  // namespace

std::string to_string(const Checksum& checksum) {
  return hexadecimal(checksum.high) + hexadecimal(checksum.low);
}

Checksum block_checksum(std::string_view block) {
  Chains chains;
  for (size_t i = 0; i < kPairs; ++i) {
    chains.a[i] = kA * (i + 1);
    chains.b[i] = kB * (i + 1);
  }
  size_t at = 0;
  for (; at + kStep <= block.size(); at += kStep) take(chains, block.data() + at);
  if (at < block.size()) {
    char rest[kStep] = {};
    std::memcpy(rest, block.data() + at, block.size() - at);
    take(chains, rest);
  }
  Checksum result{block.size(), block.size()};
  for (size_t i = 0; i < kPairs; ++i) {
    enter(result.low, chains.a[i]);
    enter(result.high, chains.b[i]);
  }
  return result;
}

void ChecksumOfBlocks::add(const Checksum& block) {
  enter(joined_.low, block.low);
  enter(joined_.high, block.high);
}

Checksum ChecksumOfBlocks::value(int64_t bytes) const {
  Checksum result = joined_;
  enter(result.low, static_cast<uint64_t>(bytes));
  enter(result.high, static_cast<uint64_t>(bytes));
  return result;
}

Checksum checksum_of(std::string_view bytes) {
  ChecksumOfBlocks joined;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::string_view block = rest.substr(0, static_cast<size_t>(kChecksumBlock));
    joined.add(block_checksum(block));
    rest.remove_prefix(block.size());
  }
  return joined.value(static_cast<int64_t>(bytes.size()));
}

}  // namespace tril
