#include "tril/base/checksum.h"

#include <bit>
#include <cstring>

#include "tril/base/fingerprint.h"

namespace tril {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they stand");

constexpr uint64_t kPrime = 0x9E3779B97F4A7C15u;
constexpr size_t kChains = 8;
constexpr size_t kStep = kChains * sizeof(uint64_t);

// Every step is a bijection of the state for a given word, and of the word for a given state: one
// changed word changes its chain, and one changed chain the result, for certain.
void take(uint64_t (&chains)[kChains], const char* bytes) {
  uint64_t words[kChains];
  std::memcpy(words, bytes, kStep);
  for (size_t i = 0; i < kChains; ++i) {
    const uint64_t mixed = (chains[i] ^ words[i]) * kPrime;
    chains[i] = mixed ^ (mixed >> 29);
  }
}

void enter(uint64_t& half, uint64_t word) {
  half = (half ^ word) * kPrime;
  half ^= half >> 32;
}

}  // namespace

std::string to_string(const Checksum& checksum) {
  return hexadecimal(checksum.high) + hexadecimal(checksum.low);
}

Checksum block_checksum(std::string_view block) {
  uint64_t chains[kChains];
  for (size_t i = 0; i < kChains; ++i) chains[i] = kPrime * (i + 1);
  size_t at = 0;
  for (; at + kStep <= block.size(); at += kStep) take(chains, block.data() + at);
  if (at < block.size()) {
    char rest[kStep] = {};
    std::memcpy(rest, block.data() + at, block.size() - at);
    take(chains, rest);
  }
  Checksum result{block.size(), block.size()};
  for (size_t i = 0; i < kChains; ++i) {
    enter(result.low, chains[i]);
    enter(result.high, chains[kChains - 1 - i]);
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
