// Shares: something of which there is only so much, divided among clients.
//
// One client alone gets a part of it, and the last quarter is for those who have none of it yet, so
// that nobody keeps the others out: neither one client nor the few who ask most.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tril::serve {

// Any thread may call it. It outlives what holds a share of it.
class Shares {
 public:
  // `all` of it in sum, `each` of it for one client.
  Shares(int64_t all, int64_t each) : all_(all), each_(each) {}

  int64_t held() const;

 private:
  friend class Share;
  // Changes what one holder has. False, and nothing changes, if there is not so much for it.
  bool change(std::optional<uint64_t> client, int64_t before, int64_t after, bool in_any_case);
  bool has_room(int64_t others, int64_t more, int64_t after) const;

  const int64_t all_;
  const int64_t each_;
  mutable std::mutex mutex_;
  int64_t held_ = 0;                                 // guarded by the mutex, as the next
  std::unordered_map<uint64_t, int64_t> by_client_;  // who has any
};

// What one holder, such as a connection or a request, has of it on behalf of its client. One thread
// at a time.
class Share {
 public:
  // `client`: nothing where clients cannot be told apart; then only the sum is bounded.
  Share(Shares& of, std::optional<uint64_t> client) : of_(of), client_(client) {}
  ~Share() { release(); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  // Holds this much instead of what it held. False, and it holds what it held, if that would be
  //   - more than there is;
  //   - of the last quarter, or more than one client's part, unless its client has nothing else. So
  //     a client's first request is let in however large it is.
  bool hold(int64_t amount) { return change(amount, false); }
  // The same, however much is held.
  void hold_anyway(int64_t amount) { change(amount, true); }
  void release() { change(0, true); }

 private:
  bool change(int64_t amount, bool in_any_case) {
    if (amount == held_) return true;
    if (!of_.change(client_, held_, amount, in_any_case)) return false;
    held_ = amount;
    return true;
  }

  Shares& of_;
  const std::optional<uint64_t> client_;
  int64_t held_ = 0;
};

}  // namespace tril::serve
