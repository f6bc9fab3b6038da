#include "tril/io/stored_type.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tril/base/error.h"

namespace tril {
namespace {

static_assert(std::endian::native == std::endian::little, "bytes are used as they stand");

struct Bool {
  uint8_t byte = 0;
};

// Calls `call` with an element of the C++ type.
template <class Call>
void with_element(StoredType type, const Call& call) {
  switch (type) {
    case StoredType::f16: return call(Float16{});
    case StoredType::bf16: return call(BFloat16{});
    case StoredType::f32: return call(float{});
    case StoredType::f64: return call(double{});
    case StoredType::i8: return call(int8_t{});
    case StoredType::i16: return call(int16_t{});
    case StoredType::i32: return call(int32_t{});
    case StoredType::i64: return call(int64_t{});
    case StoredType::u8: return call(uint8_t{});
    case StoredType::boolean: return call(Bool{});
  }
}

template <class T>
float read_one(T element) {
  if constexpr (std::is_same_v<T, Bool>) {
    return element.byte == 0 ? 0.0f : 1.0f;
  } else if constexpr (std::is_class_v<T>) {
    return to_f32(element);
  } else {
    return static_cast<float>(element);
  }
}

template <class T>
T write_one(float value) {
  if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>(value == 0.0f ? 0 : 1)};
  } else if constexpr (std::is_same_v<T, Float16>) {
    return to_f16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bf16(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    using Limits = std::numeric_limits<T>;
    const float whole = std::nearbyint(value);
    if (std::isnan(whole)) return 0;
    if (whole <= static_cast<float>(Limits::min())) return Limits::min();
    // The largest value may round up to a float that T cannot hold.
    if (whole >= static_cast<float>(Limits::max())) return Limits::max();
    return static_cast<T>(whole);
  }
}

}  // namespace

std::string_view to_string(StoredType type) {
  switch (type) {
    case StoredType::f16: return "F16";
    case StoredType::bf16: return "BF16";
    case StoredType::f32: return "F32";
    case StoredType::f64: return "F64";
    case StoredType::i8: return "I8";
    case StoredType::i16: return "I16";
    case StoredType::i32: return "I32";
    case StoredType::i64: return "I64";
    case StoredType::u8: return "U8";
    case StoredType::boolean: return "BOOL";
  }
  return "unknown";
}

std::optional<StoredType> stored_type_named(std::string_view name) {
  for (const StoredType type : kStoredTypes) {
    if (to_string(type) == name) return type;
  }
  return std::nullopt;
}

std::optional<DType> dtype_of(StoredType type) {
  switch (type) {
    case StoredType::f32: return DType::f32;
    case StoredType::f64: return DType::f64;
    case StoredType::bf16: return DType::bf16;
    case StoredType::i8: return DType::i8;
    case StoredType::i32: return DType::i32;
    default: return std::nullopt;
  }
}

StoredType stored_type_of(DType type) {
  for (const StoredType stored : kStoredTypes) {
    if (dtype_of(stored) == type) return stored;
  }
  fail(ErrorCode::internal, "a file cannot hold ", to_string(type));
}

void read_elements(StoredType type, const char* bytes, std::span<float> values) {
  with_element(type, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      T element;
      std::memcpy(&element, bytes + i * sizeof(T), sizeof(T));
      values[i] = read_one(element);
    }
  });
}

void write_elements(StoredType type, std::span<const float> values, char* bytes) {
  with_element(type, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      const T element = write_one<T>(values[i]);
      std::memcpy(bytes + i * sizeof(T), &element, sizeof(T));
    }
  });
}

}  // namespace tril
