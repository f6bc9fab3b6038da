// Function: a callback, as std::function is one, for public headers: including <functional> would
// take them as long as the rest of tril/tril.h.
//
// Made from anything that can be called with these arguments; copies share it. Empty if made from
// nothing, or from a null pointer or an empty std::function.
#pragma once

#include <type_traits>
#include <utility>

#include "tril/base/shared.h"

namespace tril {

template <class Signature>
class Function;

template <class Result, class... Args>
class Function<Result(Args...)> {
 public:
  Function() = default;
  Function(decltype(nullptr)) {}  // NOLINT: no callback
  template <class F>
  requires(!std::is_base_of_v<Function, std::remove_cvref_t<F>> &&
           std::is_invocable_r_v<Result, std::decay_t<F>&, Args...>)
      Function(F&& f) {  // NOLINT: a callback is what it calls
    using Called = std::decay_t<F>;
    constexpr bool kMayBeEmpty = std::is_constructible_v<bool, Called&> &&
                                 !std::is_empty_v<Called> &&
                                 !std::is_function_v<std::remove_reference_t<F>>;
    if constexpr (kMayBeEmpty) {
      if (!static_cast<bool>(f)) return;
    }
    target_ = new Calls<Called>(std::forward<F>(f));
  }
  ~Function() { detail::Kept::drop(target_); }
  Function(const Function& other) : target_(other.target_) { detail::Kept::add(target_); }
  Function(Function&& other) noexcept : target_(std::exchange(other.target_, nullptr)) {}
  Function& operator=(Function other) noexcept {
    std::swap(target_, other.target_);
    return *this;
  }

  explicit operator bool() const { return target_ != nullptr; }
  // Not for an empty one.
  Result operator()(Args... args) const { return target_->call(std::forward<Args>(args)...); }

 private:
  struct Target : detail::Kept {
    virtual Result call(Args... args) = 0;
  };
  template <class F>
  struct Calls : Target {
    template <class From>
    explicit Calls(From&& from) : called(std::forward<From>(from)) {}
    Result call(Args... args) override {
      if constexpr (std::is_void_v<Result>) {
        called(std::forward<Args>(args)...);
      } else {
        return called(std::forward<Args>(args)...);
      }
    }
    F called;
  };

  Target* target_ = nullptr;
};

}  // namespace tril
