#include "events.h"

namespace load {

std::optional<Event> EventReader::next(std::string_view body) {
  Event event;
  bool some = false;
  for (size_t at = at_;;) {
    const size_t newline = body.find('\n', at);
    if (newline == body.npos) return std::nullopt;
    std::string_view line = body.substr(at, newline - at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    at = newline + 1;
    if (line.empty()) {
      at_ = at;
      if (some) return event;
      event = Event();
      continue;
    }
    const size_t colon = line.find(':');
    std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
    if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    const std::string_view field = line.substr(0, colon);
    if (field == "event") event.name = value;
    if (field != "data") continue;
    if (some) event.data += '\n';
    event.data += value;
    some = true;
  }
}

}  // namespace load
