// Numbers for experiments: the same seed, campaign and experiment give the same numbers anywhere.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace adversary {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  // Of one experiment of a campaign.
  Rng(uint64_t seed, std::string_view campaign, int64_t experiment) : state_(seed) {
    for (const char c : campaign) state_ = next() ^ static_cast<unsigned char>(c);
    state_ = next() ^ static_cast<uint64_t>(experiment);
    next();
  }

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 <= result < count; count is positive.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(count));
  }
  bool one_in(int64_t count) { return below(count) == 0; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  template <class Item>
  const Item& pick(const std::vector<Item>& items) {
    return items[static_cast<size_t>(below(static_cast<int64_t>(items.size())))];
  }

 private:
  uint64_t state_;
};

}  // namespace adversary
