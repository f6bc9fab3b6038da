// Ahead: the values of a function of 0, 1, 2, ..., taken in that order and computed ahead by
// threads of its own. The function must be pure: its values depend on neither threads nor time.
//
// With no threads, or where the system starts none, a value is computed when it is taken. An
// exception of the function is thrown by next() in place of that value. Only one thread may take
// values.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tril {

template <class T>
class Ahead {
 public:
  // At most `room` values wait to be taken.
  Ahead(std::function<T(int64_t)> make, int threads, int64_t room)
      : make_(std::move(make)), waiting_(static_cast<size_t>(threads > 0 ? room : 0)) {
    try {
      for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // those that started are enough, even if there are none
    }
  }
  ~Ahead() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  T next() {
    if (workers_.empty()) return make_(taken_++);
    std::unique_lock lock(mutex_);
    Place& place = at(taken_);
    ready_.wait(lock, [&] { return place.value.has_value() || place.failure != nullptr; });
    if (place.failure != nullptr) std::rethrow_exception(place.failure);
    T value = std::move(*place.value);
    place.value.reset();
    ++taken_;
    lock.unlock();
    room_.notify_one();
    return value;
  }

 private:
  struct Place {
    std::optional<T> value;
    std::exception_ptr failure;
  };
  Place& at(int64_t number) { return waiting_[static_cast<size_t>(number) % waiting_.size()]; }

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] {
        return stopping_ || begun_ < taken_ + static_cast<int64_t>(waiting_.size());
      });
      if (stopping_) return;
      const int64_t number = begun_++;
      lock.unlock();
      Place made;
      try {
        made.value = make_(number);
      } catch (...) {
        made.failure = std::current_exception();
      }
      lock.lock();
      at(number) = std::move(made);
      lock.unlock();
      ready_.notify_one();
    }
  }

  std::function<T(int64_t)> make_;
  std::mutex mutex_;
  std::condition_variable room_, ready_;
  std::vector<Place> waiting_;  // value n at n modulo its size
  int64_t begun_ = 0;
  int64_t taken_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tril
