// A list of types that a template can search and walk through.
#pragma once

#include <type_traits>

namespace tril {

template <class... Types>
struct TypeList {
  template <class Type>
  static constexpr bool kContains = (std::is_same_v<Type, Types> || ...);

  // Calls f(std::type_identity<Type>()) for each.
  template <class F>
  static void for_each(const F& f) {
    (f(std::type_identity<Types>()), ...);
  }
};

}  // namespace tril
