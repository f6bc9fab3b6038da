// Python's lock (the GIL) around calls of the library: released while it computes, taken again for
// callbacks and signals; and what must not happen in a process that was forked, or is ending.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>

#include "tril/translate/translator.h"

namespace tril::python {

namespace nb = nanobind;

// To be called before anything that starts or needs the library's threads. They do not survive a
// fork, so in a child of a process that called this it raises `unsupported` instead of waiting for
// them for ever.
void begin_use();
// Whether this process is such a child: what the library made before must not even be destroyed.
bool is_stranded();

// Releases the lock while it lives. While the interpreter ends, a thread that would take the lock
// again sleeps instead, as Python itself does from 3.14 on; earlier versions would end it in the
// middle of a C++ function.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

  // Calls f with the lock, on this thread.
  template <class F>
  auto with(const F& f) {
    const Holding holding(*this);
    return f();
  }
  // Lets Python handle signals; raises what a handler raised, such as KeyboardInterrupt.
  void check_signals();

 private:
  struct Holding {
    explicit Holding(WithoutGil& owner) : owner_(owner) { owner.take(); }
    ~Holding() { owner_.release(); }
    Holding(const Holding&) = delete;
    Holding& operator=(const Holding&) = delete;
    WithoutGil& owner_;
  };
  void take();
  void release();
  PyThreadState* thread_ = nullptr;
};

// Called with the lock when the interpreter begins to end. Cancels all lines in flight, and waits
// until no other thread is in the library or on its way back: those that would come back sleep.
void end_of_interpreter();

// While it lives, a submitted line is cancelled when the interpreter ends.
class InFlight {
 public:
  explicit InFlight(const PendingTranslation& line);
  ~InFlight();
  InFlight(InFlight&& other) noexcept : number_(std::exchange(other.number_, 0)) {}
  InFlight& operator=(InFlight&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  uint64_t number_;
};

// A handle to something of the library that a Python object owns. In a stranded child it is given
// up instead of destroyed, because its threads are gone.
template <class T>
class Held {
 public:
  explicit Held(T value) : value_(new T(std::move(value))) {}
  Held(Held&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  ~Held() {
    if (value_ != nullptr && !is_stranded()) {
      const WithoutGil unlocked;
      delete value_;
    }
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

}  // namespace tril::python
