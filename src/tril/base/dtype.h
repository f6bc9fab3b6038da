// Element types. fp32 is what the CPU computes in; f64 serves references and golden files; bf16 and
// i8 are storage for reduced precision; i32 holds token ids; expressions are numbers that remember
// how they were made instead of computing (base/expression.h).
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tril {

struct Expression;

enum class DType : uint8_t { f32, f64, bf16, i8, i32, expression };

constexpr int64_t size_of(DType type) {
  switch (type) {
    case DType::f32: return 4;
    case DType::f64: return 8;
    case DType::bf16: return 2;
    case DType::i8: return 1;
    case DType::i32: return 4;
    case DType::expression: return 32;
  }
  return 0;
}

constexpr std::string_view to_string(DType type) {
  switch (type) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::bf16: return "bf16";
    case DType::i8: return "i8";
    case DType::i32: return "i32";
    case DType::expression: return "expressions";
  }
  return "unknown";
}

// The upper half of an fp32.
struct BFloat16 {
  uint16_t bits = 0;
};

constexpr float to_f32(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Rounds to nearest, ties to even; NaN stays NaN (quiet), infinities stay.
constexpr BFloat16 to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  const uint32_t rounding = 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<uint16_t>((bits + rounding) >> 16)};
}

// The element type of a C++ type.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return DType::bf16;
  } else if constexpr (std::is_same_v<T, int8_t>) {
    return DType::i8;
  } else if constexpr (std::is_same_v<T, Expression>) {
    return DType::expression;
  } else {
    static_assert(std::is_same_v<T, int32_t>, "not an element type");
    return DType::i32;
  }
}

}  // namespace tril
