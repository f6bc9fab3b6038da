// Reads the events of a text/event-stream from a body that grows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace load {

struct Event {
  std::string name = "message";
  std::string data;  // lines of data, joined by line breaks
};

class EventReader {
 public:
  void reset() { at_ = 0; }

  // The next event that has arrived whole; `body` is the same at every call, except that it may
  // have grown.
  std::optional<Event> next(std::string_view body);

 private:
  size_t at_ = 0;  // where the next event begins
};

}  // namespace load
