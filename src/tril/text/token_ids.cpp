#include "tril/text/token_ids.h"

#include <charconv>

namespace tril {

std::optional<std::vector<int32_t>> parse_token_ids(std::string_view line) {
  std::vector<int32_t> ids;
  const char* at = line.data();
  const char* const end = at + line.size();
  while (at != end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && *next != ' ')) return std::nullopt;
    ids.push_back(id);
    at = next;
  }
  return ids;
}

}  // namespace tril
