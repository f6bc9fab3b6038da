// The words for an enum's values, in the order of the values: what files and flags call them. Each
// enum that has any specialises this beside its definition.
#pragma once

#include <cstddef>
#include <string_view>

namespace tril {

template <class Enum>
struct Words;  // static constexpr std::string_view kList[]

template <class Enum>
constexpr std::string_view word_for(Enum value) {
  return Words<Enum>::kList[static_cast<size_t>(value)];
}

}  // namespace tril
