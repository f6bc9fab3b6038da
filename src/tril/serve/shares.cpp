#include "tril/serve/shares.h"

namespace tril::serve {

int64_t Shares::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

// `others`: what the client has besides.
bool Shares::has_room(int64_t others, int64_t more, int64_t after) const {
  if (more <= 0) return true;
  const int64_t sum = held_ + more;
  if (others == 0) return sum <= all_;
  return sum <= all_ - all_ / 4 && others + after <= each_;
}

bool Shares::change(std::optional<uint64_t> client, int64_t before, int64_t after,
                    bool in_any_case) {
  const std::lock_guard lock(mutex_);
  const int64_t more = after - before;
  if (!client) {
    if (!in_any_case && more > 0 && held_ + more > all_) return false;
    held_ += more;
    return true;
  }
  const auto found = by_client_.find(*client);
  const int64_t has = found == by_client_.end() ? 0 : found->second;
  if (!in_any_case && !has_room(has - before, more, after)) return false;
  if (has + more == 0) {
    if (found != by_client_.end()) by_client_.erase(found);
  } else if (found != by_client_.end()) {
    found->second += more;
  } else {
    by_client_.emplace(*client, more);
  }
  held_ += more;
  return true;
}

}  // namespace tril::serve
