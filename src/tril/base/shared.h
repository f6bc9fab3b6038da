// Shared: a pointer to something that its copies own together, and whose type need not be known
// here. It is to public headers what std::shared_ptr is to sources: including <memory> would take
// them a third of the time that all of tril/tril.h takes.
//
// Copies may be made and destroyed by any number of threads; one Shared belongs to one thread.
#pragma once

#include <utility>

namespace tril {

namespace detail {

// What keeps the thing alive, counted.
class Kept {
 public:
  Kept() = default;
  virtual ~Kept();
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  static void add(Kept* kept);   // one more owner; null is fine
  static void drop(Kept* kept);  // one fewer; the last one deletes it

 private:
  int owners_ = 1;  // accessed atomically
};

template <class Owner>
class KeptBy : public Kept {
 public:
  explicit KeptBy(Owner owner) : owner_(std::move(owner)) {}

 private:
  Owner owner_;
};

}  // namespace detail

template <class T>
class Shared {
 public:
  Shared() = default;
  // From a std::shared_ptr.
  template <class Owner>
  requires requires(const Owner& owner) {
    static_cast<T*>(owner.get());
    owner.use_count();
  }
  Shared(Owner owner) : pointer_(owner.get()) {  // NOLINT: the same pointer
    if (pointer_ != nullptr) kept_ = new detail::KeptBy<Owner>(std::move(owner));
  }
  ~Shared() { detail::Kept::drop(kept_); }
  Shared(const Shared& other) : pointer_(other.pointer_), kept_(other.kept_) {
    detail::Kept::add(kept_);
  }
  Shared(Shared&& other) noexcept
      : pointer_(std::exchange(other.pointer_, nullptr)),
        kept_(std::exchange(other.kept_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(pointer_, other.pointer_);
    std::swap(kept_, other.kept_);
    return *this;
  }

  T* get() const { return pointer_; }
  T& operator*() const { return *pointer_; }
  T* operator->() const { return pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }
  bool operator==(const Shared& other) const { return pointer_ == other.pointer_; }
  bool operator==(decltype(nullptr)) const { return pointer_ == nullptr; }

 private:
  T* pointer_ = nullptr;
  detail::Kept* kept_ = nullptr;
};

}  // namespace tril
