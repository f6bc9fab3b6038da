// Every field of a plain struct, without listing them by hand.
//
// The number of fields is counted by the compiler (how many initialisers the struct takes) and
// checked by it once more (a structured binding has exactly as many names as the struct has
// fields). So a new field is visited automatically, and a struct whose fields cannot be found does
// not compile: one with a base, with private fields, with an array that is not a std::array, with a
// reference, or with more than 24 fields. Fields may be structs of the same kind. Padding is never
// read.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

namespace tril {
namespace fields {

struct Anything {
  template <class Type>
  operator Type() const;  // NOLINT: declared for the compiler to count with, never called
};

template <class Struct, class... Given>
consteval size_t count() {
  if constexpr (requires { Struct{Given{}..., Anything{}}; }) {
    return count<Struct, Given..., Anything>();
  } else {
    return sizeof...(Given);
  }
}

// Whether the fields of the struct can be found. One that cannot be assigned has a reference, at
// which count() would stop, or a const field.
template <class Struct>
constexpr bool kIsPlain =
    std::is_aggregate_v<Struct> && !std::is_array_v<Struct> && !std::is_union_v<Struct> &&
    std::is_trivially_copyable_v<Struct> && std::is_copy_assignable_v<Struct>;

template <class Type>
constexpr bool kIsArray = false;
template <class Type, size_t kSize>
constexpr bool kIsArray<std::array<Type, kSize>> = true;

// Types without fields.
template <class Type>
constexpr bool kIsValue =
    std::is_arithmetic_v<Type> || std::is_enum_v<Type> || std::is_pointer_v<Type>;

// Calls f with every field of the struct, by reference.
template <class Struct, class F>
constexpr decltype(auto) with(Struct& s, const F& f) {
  constexpr size_t kCount = count<std::remove_const_t<Struct>>();
  static_assert(kCount <= 24, "a struct with more fields than fields.h can name");
  // clang-format off
  if constexpr (kCount == 0) {
    return f();
  } else if constexpr (kCount == 1) {
    auto& [x1] = s;
    return f(x1);
  } else if constexpr (kCount == 2) {
    auto& [x1, x2] = s;
    return f(x1, x2);
  } else if constexpr (kCount == 3) {
    auto& [x1, x2, x3] = s;
    return f(x1, x2, x3);
  } else if constexpr (kCount == 4) {
    auto& [x1, x2, x3, x4] = s;
    return f(x1, x2, x3, x4);
  } else if constexpr (kCount == 5) {
    auto& [x1, x2, x3, x4, x5] = s;
    return f(x1, x2, x3, x4, x5);
  } else if constexpr (kCount == 6) {
    auto& [x1, x2, x3, x4, x5, x6] = s;
    return f(x1, x2, x3, x4, x5, x6);
  } else if constexpr (kCount == 7) {
    auto& [x1, x2, x3, x4, x5, x6, x7] = s;
    return f(x1, x2, x3, x4, x5, x6, x7);
  } else if constexpr (kCount == 8) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8);
  } else if constexpr (kCount == 9) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9);
  } else if constexpr (kCount == 10) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10);
  } else if constexpr (kCount == 11) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11);
  } else if constexpr (kCount == 12) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12);
  } else if constexpr (kCount == 13) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13);
  } else if constexpr (kCount == 14) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14);
  } else if constexpr (kCount == 15) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15);
  } else if constexpr (kCount == 16) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16);
  } else if constexpr (kCount == 17) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17);
  } else if constexpr (kCount == 18) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18);
  } else if constexpr (kCount == 19) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18,
        x19] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19);
  } else if constexpr (kCount == 20) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20);
  } else if constexpr (kCount == 21) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20, x21] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20, x21);
  } else if constexpr (kCount == 22) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20, x21, x22] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20, x21, x22);
  } else if constexpr (kCount == 23) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20, x21, x22, x23] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20, x21, x22, x23);
  } else if constexpr (kCount == 24) {
    auto& [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20, x21, x22, x23, x24] = s;
    return f(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19,
        x20, x21, x22, x23, x24);
  }
  // clang-format on
}

}  // namespace fields

// Calls f(value) for every number, enumerator and pointer in a struct, in the order of declaration,
// nested structs in their place. By reference, so that f may change what is not const.
template <class Type, class F>
constexpr void for_each_value(Type& of, const F& f) {
  using Plain = std::remove_const_t<Type>;
  if constexpr (fields::kIsValue<Plain>) {
    f(of);
  } else if constexpr (fields::kIsArray<Plain>) {
    for (auto& each : of) for_each_value(each, f);
  } else {
    static_assert(
        fields::kIsPlain<Plain>,
        "fields are numbers, enumerators, pointers, std::arrays or plain structs of these");
    fields::with(of, [&](auto&... field) { (for_each_value(field, f), ...); });
  }
}

}  // namespace tril
