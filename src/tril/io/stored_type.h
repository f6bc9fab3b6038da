// The element types of tensors in files: those that tril computes with (DType) and those that other
// programs' models have besides. Bytes are little-endian and need no alignment.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tril/base/dtype.h"

namespace tril {

enum class StoredType : uint8_t { f16, bf16, f32, f64, i8, i16, i32, i64, u8, boolean };

inline constexpr std::array kStoredTypes = {
    StoredType::f16, StoredType::bf16, StoredType::f32, StoredType::f64, StoredType::i8,
    StoredType::i16, StoredType::i32,  StoredType::i64, StoredType::u8,  StoredType::boolean};

constexpr int64_t size_of(StoredType type) {
  switch (type) {
    case StoredType::i8:
    case StoredType::u8:
    case StoredType::boolean: return 1;
    case StoredType::f16:
    case StoredType::bf16:
    case StoredType::i16: return 2;
    case StoredType::f32:
    case StoredType::i32: return 4;
    case StoredType::f64:
    case StoredType::i64: return 8;
  }
  return 0;
}

// The names that safetensors files use: "F16", "BOOL".
std::string_view to_string(StoredType type);
std::optional<StoredType> stored_type_named(std::string_view name);

// The type of tril's that has the same elements; none for F16, I16, I64, U8 and BOOL.
std::optional<DType> dtype_of(StoredType type);
// Raises `internal` for expressions, which are not stored.
StoredType stored_type_of(DType type);

// IEEE half precision: 1 bit of sign, 5 of exponent, 10 of significand.
struct Float16 {
  uint16_t bits = 0;
};

// Exact; NaN keeps its bits, at the top of the longer significand.
constexpr float to_f32(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t fraction = value.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t longer = exponent == 0x1f ? 0xffu : exponent + 112u;
  return std::bit_cast<float>(sign | longer << 23 | fraction << 13);
}

// Rounds to nearest, ties to even; what is too large becomes infinity; NaN stays NaN.
constexpr Float16 to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    const auto fraction = static_cast<uint16_t>((magnitude >> 13) & 0x3ffu);
    // Were only lower bits set, cutting them off would make it infinity.
    return {static_cast<uint16_t>(sign | 0x7c00u | (fraction == 0 ? 0x200u : fraction))};
  }
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // from 65520 on
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounding = 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + rounding) >> 13))};
}

// Elements from their bytes, as fp32: exact for F16, BF16, F32, I8, I16, U8 and BOOL (1 for any
// byte but 0; else 0); rounded to nearest, ties to even, where an F64, I32 or I64 does not fit.
// There are as many bytes as the values need.
void read_elements(StoredType type, const char* bytes, std::span<float> values);
// The opposite way: rounded as above; integers also to nearest, and cut off at the ends of their
// range, NaN becoming 0; BOOL is 1 for any value but 0.
void write_elements(StoredType type, std::span<const float> values, char* bytes);

}  // namespace tril
