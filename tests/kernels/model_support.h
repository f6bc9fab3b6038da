// Shared by the tests of order-exact models: numbers of every kind, and when two are the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <vector>

#include "kernels/attention_support.h"
#include "kernels/kernel_support.h"
#include "support/testing.h"
#include "tril/base/rng.h"

namespace tril::testing::models {

inline constexpr const char* kOnCpu = "models describe the CPU's kernels";

// How many outputs each kernel is compared on.
inline int64_t outputs_wanted() {
  return std::getenv("TRIL_FULL") != nullptr ? 1'000'000 : 100'000;
}

inline ::testing::AssertionResult same_numbers(std::span<const float> kernel,
                                               std::span<const float> expected) {
  if (kernel.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (std::isnan(kernel[i]) && std::isnan(expected[i])) continue;
    if (same_float(kernel[i], expected[i])) continue;
    return ::testing::AssertionFailure() << "element " << i << ": the kernel gives " << kernel[i]
                                         << ", the model " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

// Numbers of every kind: ordinary ones, any exponent, and rarely zeros of both signs, subnormal
// numbers, infinities and NaN (in most rows none, or everything would be NaN).
class Numbers {
 public:
  // of_some_size: products of a few neither vanish nor overflow, and are not alike.
  enum class Kind { small, any_exponent, often_special, rarely_special, of_some_size };

  explicit Numbers(Random& random) : Numbers(random, static_cast<Kind>(random.below(5))) {}
  Numbers(Random& random, Kind kind) : random_(random), kind_(kind) {}

  float next() {
    if (kind_ == Kind::often_special && random_.below(50) == 0) return special();
    if (kind_ == Kind::rarely_special && random_.below(400) == 0) return special();
    switch (kind_) {
      case Kind::small: return random_.uniform(-1.0f, 1.0f);
      case Kind::any_exponent: return scaled(-148, 127);
      case Kind::of_some_size: return scaled(-6, 2);
      default: return scaled(-12, 11);
    }
  }
  std::vector<float> take(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = next();
    return values;
  }

 private:
  float special() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kSpecial[] = {0.0f,
                                  -0.0f,
                                  0x1p-149f,
                                  -0x1.8p-130f,
                                  kInfinity,
                                  -kInfinity,
                                  std::numeric_limits<float>::quiet_NaN(),
                                  0x1.fffffep+127f};
    return kSpecial[random_.below(std::size(kSpecial))];
  }

  float scaled(int least, int most) {
    const int exponent =
        least + static_cast<int>(random_.below(static_cast<uint32_t>(most - least + 1)));
    return std::ldexp(random_.uniform(-1.0f, 1.0f), exponent);
  }

  Random& random_;
  Kind kind_;
};

// Those that are not NaN: agreeing on a NaN says little.
inline int64_t told_apart(std::span<const float> expected) {
  return std::count_if(expected.begin(), expected.end(), [](float x) { return !std::isnan(x); });
}

// Draws cases until enough outputs were compared, in enough cases. compare(random) returns how many
// outputs those were.
template <class F>
void compare_many(uint64_t seed, const F& compare, int64_t least_cases = 300) {
  Random random(seed);
  int64_t compared = 0;
  for (int64_t cases = 0;
       (compared < outputs_wanted() || cases < least_cases) && !::testing::Test::HasFailure();
       ++cases) {
    compared += compare(random);
  }
}

inline int64_t between(Random& random, int64_t least, int64_t most) {
  return least + random.below(static_cast<uint32_t>(most - least + 1));
}

// A sequence's keys in a packed batch.
struct PackedKeys {
  const Case& c;
  int64_t origin;
  int64_t kv_head;
  int64_t at(int64_t key, int64_t d) const {
    return ((origin + key) * c.n.kv_heads + kv_head) * c.n.head_dim + d;
  }
  float key(int64_t key, int64_t d) const { return c.k[static_cast<size_t>(at(key, d))]; }
  float value(int64_t key, int64_t d) const { return c.v[static_cast<size_t>(at(key, d))]; }
};

// Half of the cases have scores that differ by much and are finite; in the others every token has
// numbers of its own kind.
inline void make_wild(Case& c, Random& random) {
  const bool finite = random.below(2) == 0;
  const auto fill = [&](std::vector<float>& values, int64_t width) {
    for (size_t at = 0; at < values.size(); at += static_cast<size_t>(width)) {
      Numbers numbers = finite ? Numbers(random, Numbers::Kind::of_some_size) : Numbers(random);
      for (size_t i = at; i < at + static_cast<size_t>(width); ++i) values[i] = numbers.next();
    }
  };
  fill(c.q, c.n.heads * c.n.head_dim);
  fill(c.k, c.n.kv_heads * c.n.head_dim);
  fill(c.v, c.n.kv_heads * c.n.head_dim);
  fill(c.dout, c.n.heads * c.n.head_dim);
  if (!c.bias.empty()) fill(c.bias, 1);
}

// A packed batch of any mask with such numbers.
inline Case wild_case(Random& random) {
  const auto kind = kAllKinds[random.below(std::size(kAllKinds))];
  std::vector<Segment> segments;
  int32_t first = static_cast<int32_t>(random.below(3));
  for (int64_t count = between(random, 1, 3); count > 0; --count) {
    const auto length = static_cast<int32_t>(between(random, 1, random.below(4) == 0 ? 150 : 30));
    segments.push_back({first, length});
    first += length + static_cast<int32_t>(random.below(3));
  }
  constexpr int64_t kWideHeads[] = {47, 48, 64, 80, 128, 130};
  const int64_t kv_heads = between(random, 1, 2);
  const int64_t heads = kv_heads * between(random, 1, 2);
  const int64_t head_dim = random.below(4) == 0 ? kWideHeads[random.below(std::size(kWideHeads))]
                                                : between(random, 1, 40);
  const auto window = static_cast<int32_t>(between(random, 1, 20));
  const bool has_bias = random.below(2) == 0;
  Case c = make_case(segments, kind, heads, kv_heads, head_dim, window, has_bias,
                     random.below(1u << 30));
  make_wild(c, random);
  return c;
}

}  // namespace tril::testing::models
