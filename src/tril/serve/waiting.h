// WaitingTokens: how much is waiting to be translated, and for whom.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace tril::serve {

// Source tokens of the sentences that were submitted and are not done. What is added is removed
// later, once, with the same number; nothing may be 0 tokens. Any thread may call it.
class WaitingTokens {
 public:
  // `total`: where the sum is kept, for the metrics.
  explicit WaitingTokens(std::atomic<int64_t>& total) : total_(total) {}

  // Whether a client may add to what waits. One who has nothing waiting may also when others have
  // reached the bound, so that nobody is kept out by the many sentences of another; at four times
  // the bound nobody may.
  bool admits(uint64_t client, int64_t bound) const;
  void add(uint64_t client, int64_t tokens);
  void remove(uint64_t client, int64_t tokens);

 private:
  mutable std::mutex mutex_;
  std::atomic<int64_t>& total_;                      // changed under the mutex
  std::unordered_map<uint64_t, int64_t> by_client_;  // above 0; guarded by the mutex
};

}  // namespace tril::serve
