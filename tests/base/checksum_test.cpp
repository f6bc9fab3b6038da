#include "tril/base/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tril/base/rng.h"

namespace tril::checksum_test {
namespace {

std::string some_bytes(size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = size;
  for (char& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  return bytes;
}

// A second implementation, from the header's definition alone: byte by byte, one block at a time.
struct Plain {
  static constexpr uint64_t kA = 0x9E3779B97F4A7C15u;
  static constexpr uint64_t kB = 0xC2B2AE3D27D4EB4Fu;
  static uint64_t word_at(const std::string& block, size_t at) {
    uint64_t word = 0;
    for (size_t i = 0; i < 8; ++i) {
      const size_t place = at + i;
      const uint64_t byte = place < block.size() ? static_cast<unsigned char>(block[place]) : 0;
      word |= byte << (8 * i);
    }
    return word;
  }
  static uint64_t entered(uint64_t half, uint64_t word) {
    const uint64_t mixed = (half ^ word) * kA;
    return mixed ^ (mixed >> 32);
  }
  static Checksum block(const std::string& bytes) {
    uint64_t a[4];
    uint64_t b[4];
    for (uint64_t i = 0; i < 4; ++i) {
      a[i] = kA * (i + 1);
      b[i] = kB * (i + 1);
    }
    for (size_t at = 0; at < bytes.size(); at += 32) {
      for (size_t i = 0; i < 4; ++i) {
        const uint64_t word = word_at(bytes, at + 8 * i);
        const uint64_t mixed = (a[i] ^ word) * kA;
        a[i] = mixed ^ (mixed >> 29);
        const uint64_t turned = b[i] ^ word;
        b[i] = (turned << 23 | turned >> 41) * kB;
      }
    }
    Checksum result{bytes.size(), bytes.size()};
    for (size_t i = 0; i < 4; ++i) {
      result.low = entered(result.low, a[i]);
      result.high = entered(result.high, b[i]);
    }
    return result;
  }
  static Checksum all(const std::string& bytes) {
    Checksum result{1, 2};
    for (size_t at = 0; at < bytes.size(); at += size_t{1} << 20) {
      const Checksum one = block(bytes.substr(at, size_t{1} << 20));
      result = {entered(result.low, one.low), entered(result.high, one.high)};
    }
    return {entered(result.low, bytes.size()), entered(result.high, bytes.size())};
  }
};

TEST(Checksum, IsWhatItsHeaderSays) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{63}, size_t{64},
                            size_t{65}, size_t{1000}, (size_t{1} << 20) - 1, size_t{1} << 20,
                            (size_t{1} << 20) + 1, (size_t{3} << 20) + 77}) {
    const std::string bytes = some_bytes(size);
    EXPECT_EQ(to_string(checksum_of(bytes)), to_string(Plain::all(bytes))) << size;
  }
}

// Files that were written must stay readable: these numbers must never change.
TEST(Checksum, DoesNotChangeBetweenVersions) {
  EXPECT_EQ(to_string(checksum_of("")), "3c6ef372c2fa0b589e3779b9e17d05ac");
  EXPECT_EQ(to_string(checksum_of("tril")), "071b6d4140d2a58ac00b50aad7ba315c");
}

TEST(Checksum, EveryFlippedBitIsFound) {
  for (const size_t size : {size_t{1}, size_t{64}, size_t{200}}) {
    std::string bytes = some_bytes(size);
    std::set<std::string> seen{to_string(checksum_of(bytes))};
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_TRUE(seen.insert(to_string(checksum_of(bytes))).second) << size << " bit " << bit;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    }
  }
}

// Few bits at distances at which words enter the same chain, the highest ones among them, which a
// multiplication mixes least.
TEST(Checksum, FewFlippedBitsDoNotCancelEachOther) {
  Random random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = some_bytes(512);
    const Checksum before = checksum_of(bytes);
    const uint32_t bits = 2 + random.below(3);
    const uint32_t first = random.below(64);
    const bool high = random.below(2) == 0;
    std::set<uint32_t> flipped;
    while (flipped.size() < bits) {
      const uint32_t word = first % 4 + 4 * random.below(16);
      flipped.insert(64 * word + (high ? 63 - random.below(2) * 29 : random.below(64)));
    }
    for (const uint32_t bit : flipped) {
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    }
    ASSERT_NE(checksum_of(bytes).high, before.high) << round;
    ASSERT_NE(checksum_of(bytes), before) << round;
  }
  // The three bits that cancel in one chain of each pair do not cancel in the other.
  std::string bytes = some_bytes(512);
  const Checksum before = checksum_of(bytes);
  for (const uint32_t bit : {63u, 256u + 63u, 256u + 34u}) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
  EXPECT_EQ(checksum_of(bytes).low, before.low);
  EXPECT_NE(checksum_of(bytes).high, before.high);
}

TEST(Checksum, LengthAndOrderCount) {
  const std::string zeros(200, '\0');
  std::set<std::string> seen;
  for (size_t size = 0; size <= zeros.size(); ++size) {
    EXPECT_TRUE(seen.insert(to_string(checksum_of(zeros.substr(0, size)))).second) << size;
  }
  const std::string block(size_t{1} << 20, 'a');
  const std::string other(size_t{1} << 20, 'b');
  EXPECT_NE(checksum_of(block + other), checksum_of(other + block));
  std::string swapped = some_bytes(128);
  const Checksum before = checksum_of(swapped);
  std::swap_ranges(swapped.begin(), swapped.begin() + 8, swapped.begin() + 64);
  EXPECT_NE(checksum_of(swapped), before);
}

}  // namespace
}  // namespace tril::checksum_test
