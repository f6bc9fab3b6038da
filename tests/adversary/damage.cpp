#include "damage.h"

#include <algorithm>

#include "files.h"

namespace adversary {

std::string flip_bit(const std::string& file, int64_t byte, int bit) {
  std::string bytes = read_all(file);
  char& c = bytes.at(static_cast<size_t>(byte));
  c = static_cast<char>(static_cast<unsigned char>(c) ^ (1u << bit));
  write_all(file, bytes);
  return "bit " + std::to_string(bit) + " of byte " + std::to_string(byte) + " of " +
         std::to_string(bytes.size()) + " flipped";
}

std::string truncate_to(const std::string& file, int64_t size) {
  std::string bytes = read_all(file);
  const size_t before = bytes.size();
  bytes.resize(std::min(before, static_cast<size_t>(size)));
  write_all(file, bytes);
  return "cut to " + std::to_string(bytes.size()) + " of " + std::to_string(before) + " bytes";
}

std::string append_bytes(const std::string& file, int64_t count, Rng& rng) {
  std::string bytes = read_all(file);
  for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(rng.next()));
  write_all(file, bytes);
  return std::to_string(count) + " random bytes appended";
}

std::string zero_block(const std::string& file, int64_t begin, int64_t size) {
  std::string bytes = read_all(file);
  const auto first = std::min(bytes.size(), static_cast<size_t>(begin));
  const auto last = std::min(bytes.size(), first + static_cast<size_t>(size));
  std::fill(bytes.begin() + static_cast<int64_t>(first), bytes.begin() + static_cast<int64_t>(last),
            '\0');
  write_all(file, bytes);
  return "bytes " + std::to_string(first) + " to " + std::to_string(last) + " set to zero";
}

void swap_files(const std::string& one, const std::string& other) {
  const std::string kept = read_all(one);
  write_all(one, read_all(other));
  write_all(other, kept);
}

std::string damage_at_random(const std::string& file, Rng& rng) {
  const std::string before = read_all(file);
  const auto size = static_cast<int64_t>(before.size());
  const int64_t kind = rng.below(20);
  std::string what;
  if (kind == 0) what = truncate_to(file, rng.below(size));
  if (kind == 1) what = append_bytes(file, 1 + rng.below(64), rng);
  if (kind == 2) what = zero_block(file, rng.below(size), 1 + rng.below(4096));
  // A block that is zeroed may have been zero before.
  if (what.empty() || read_all(file) == before) {
    what = flip_bit(file, rng.below(size), static_cast<int>(rng.below(8)));
  }
  return what;
}

}  // namespace adversary
