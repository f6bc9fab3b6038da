// Notices: what someone may want to know beside a result, such as a file that was found and not
// used. The library never prints. Who wants to hear listens:
//
//   const NoticeListener listener([](const std::string& text) { ... });
//
// A listener hears what calls on its own thread have to say while it lives; of several the youngest
// does. Without one a notice goes nowhere. Results never depend on it.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "tril/base/error.h"

namespace tril {

class NoticeListener {
 public:
  using Hear = std::function<void(const std::string& text)>;

  explicit NoticeListener(Hear hear)
      : hear_(std::move(hear)), before_(std::exchange(youngest(), this)) {}
  ~NoticeListener() { youngest() = before_; }
  NoticeListener(const NoticeListener&) = delete;
  NoticeListener& operator=(const NoticeListener&) = delete;

 private:
  template <class... Parts>
  friend void notice(const Parts&... parts);
  static NoticeListener*& youngest() {
    thread_local NoticeListener* listener = nullptr;
    return listener;
  }

  Hear hear_;
  NoticeListener* before_;
};

// Joins the parts, as fail() does, where someone listens.
template <class... Parts>
void notice(const Parts&... parts) {
  const NoticeListener* listener = NoticeListener::youngest();
  if (listener != nullptr) listener->hear_(concat(parts...));
}

}  // namespace tril
