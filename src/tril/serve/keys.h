// Keys: who may use the server, and how much.
//
// A file of keys has one per line: the key, a name for it, and optionally how many source tokens
// per minute it may have translated. "#" begins a comment.
//
//   # key                 name       tokens per minute
//   s3cr3t-of-the-shop    shop       200000
//   another               tests
//
// A key is compared with every known one, each over the same number of bytes, so that the time
// tells nothing about how much of a guess was right, nor which key it was.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tril::serve {

constexpr size_t kMaxKeyBytes = 256;

struct Key {
  std::string secret;
  std::string name;
  int64_t tokens_per_minute = 0;  // 0: no limit of its own
};

// Raises `bad_format` naming file and line; `io` for a file that cannot be read.
std::vector<Key> read_keys(const std::string& file);
// The same from the file's text; `file` is for errors.
std::vector<Key> parse_keys(std::string_view text, const std::string& file);

// The key with this secret; null if there is none. In constant time: see above.
const Key* find_key(const std::vector<Key>& keys, std::string_view secret);

// The same, reading bytes through an Iterator, made of a pointer to them: a test counts what is
// read.
template <class Iterator>
const Key* find_key_through(const std::vector<Key>& keys, std::string_view secret) {
  using Padded = std::array<unsigned char, kMaxKeyBytes>;
  const auto padded = [](std::string_view from) {
    Padded bytes{};
    std::copy_n(from.begin(), std::min(from.size(), kMaxKeyBytes), bytes.begin());
    return bytes;
  };
  const Padded given = padded(secret);
  const Key* found = nullptr;
  for (const Key& key : keys) {
    const Padded known = padded(key.secret);
    Iterator a(known.data()), b(given.data());
    volatile unsigned char different = 0;  // volatile: no compiler may end the loop early
    for (size_t i = 0; i < kMaxKeyBytes; ++i, ++a, ++b) different = different | (*a ^ *b);
    const bool same_size = key.secret.size() == secret.size();
    const bool same = different == 0;
    found = same && same_size ? &key : found;
  }
  const bool whole = secret.size() <= kMaxKeyBytes && !secret.empty();
  return whole ? found : nullptr;
}

// How many source tokens each client may have translated: a bucket that is filled steadily, holds
// one minute's worth, and is charged when the tokens of a request are known. A request is let in
// while the bucket is not empty, so one may overdraw it, and the next waits longer.
class TokenBuckets {
 public:
  using Clock = std::chrono::steady_clock;

  TokenBuckets();
  // Empty: the client may go on; otherwise how long until it may.
  std::optional<std::chrono::seconds> refusal(const std::string& client, int64_t per_minute,
                                              Clock::time_point now = Clock::now());
  // Below 0: gives back what was charged too much.
  void charge(const std::string& client, int64_t per_minute, int64_t tokens,
              Clock::time_point now = Clock::now());

 private:
  struct Bucket {
    double tokens = 0.0;
    Clock::time_point filled{};
    Clock::time_point full{};  // when it will be: then nothing needs to be known of it
  };
  Bucket& filled(const std::string& client, int64_t per_minute, Clock::time_point now);
  void forget_full(Clock::time_point now);

  std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_;
  size_t forget_at_;  // so many buckets; see forget_full()
};

}  // namespace tril::serve
