#include "tril/serve/waiting.h"

namespace tril::serve {

bool WaitingTokens::admits(uint64_t client, int64_t bound) const {
  const std::lock_guard lock(mutex_);
  if (total_ < bound) return true;
  return total_ / 4 < bound && !by_client_.contains(client);
}

void WaitingTokens::add(uint64_t client, int64_t tokens) {
  if (tokens == 0) return;
  const std::lock_guard lock(mutex_);
  by_client_[client] += tokens;
  total_ += tokens;
}

void WaitingTokens::remove(uint64_t client, int64_t tokens) {
  if (tokens == 0) return;  // it has no entry
  const std::lock_guard lock(mutex_);
  const auto found = by_client_.find(client);
  total_ -= tokens;
  if ((found->second -= tokens) == 0) by_client_.erase(found);
}

}  // namespace tril::serve
