// Identity: distinguishes launches from each other, and steps from each other.
//
// It is made from the function that launches and from every value in its arguments (base/fields.h):
// pointers, sizes, numbers, enumerators. So it covers everything that is in a CUDA graph of the
// launch, and nothing that lies in memory: what changes from step to step is uploaded, and has the
// same address each time.
//
// 128 bits in two halves, mixed by two different functions. For a given state each of them is
// one-to-one in the word that is added: two launches that differ in one value differ in both
// halves. Other pairs are equal by chance once in 2^128.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <type_traits>

#include "tril/base/fields.h"
#include "tril/base/stream.h"

namespace tril {

class Identity {
 public:
  void add(uint64_t word) { add(word, word); }
  void add(const Identity& other) { add(other.first_, other.second_); }
  // Every value of a struct.
  template <class Struct>
  void add_values(const Struct& of) {
    for_each_value(of, [this](const auto& value) { this->add(word_of(value)); });
  }

  auto operator<=>(const Identity&) const = default;

 private:
  template <class Value>
  static uint64_t word_of(const Value& value) {
    if constexpr (std::is_pointer_v<Value>) {
      return reinterpret_cast<uintptr_t>(value);
    } else if constexpr (std::is_same_v<Value, double>) {
      return std::bit_cast<uint64_t>(value);
    } else if constexpr (std::is_same_v<Value, float>) {
      return std::bit_cast<uint32_t>(value);
    } else {
      static_assert(std::is_integral_v<Value> || std::is_enum_v<Value>);
      return static_cast<uint64_t>(value);
    }
  }
  void add(uint64_t to_first, uint64_t to_second) {
    first_ = (first_ ^ to_first) * 0x9E3779B97F4A7C15ULL;
    first_ ^= first_ >> 29;
    second_ = std::rotl((second_ + to_second) * 0xD1342543DE82EF95ULL, 31);
  }

  uint64_t first_ = 0;
  uint64_t second_ = 0x2545F4914F6CDD1DULL;
};

// A function that launches: it enqueues what `Args` says, and depends on nothing else.
template <class Args>
using Launcher = void (*)(Stream, const Args&);

template <class Args>
Identity identity_of(Launcher<Args> launcher, const std::type_identity_t<Args>& args) {
  Identity identity;
  identity.add(reinterpret_cast<uintptr_t>(launcher));
  identity.add_values(args);
  return identity;
}

}  // namespace tril
