#include "tril/serve/keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "tril/base/error.h"
#include "tril/io/json.h"
#include "tril/models/folder.h"

namespace tril::serve {
namespace {

constexpr int64_t kMostTokensPerMinute = int64_t{1} << 40;
constexpr size_t kManyBuckets = 1 << 16;

}  // namespace

std::vector<Key> parse_keys(std::string_view text, const std::string& file) {
  std::vector<Key> keys;
  std::istringstream lines{std::string(text)};
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Key key;
    std::string limit, more;
    if (!(words >> key.secret)) continue;
    const std::string where = concat(file, ": line ", number, ": ");
    require(static_cast<bool>(words >> key.name), ErrorCode::bad_format, where,
            "a key needs a name after it");
    require(key.secret.size() <= kMaxKeyBytes, ErrorCode::bad_format, where, "a key may have ",
            kMaxKeyBytes, " bytes at most");
    if (words >> limit) {
      const char* end = limit.data() + limit.size();
      const auto read = std::from_chars(limit.data(), end, key.tokens_per_minute);
      require(read.ec == std::errc() && read.ptr == end && key.tokens_per_minute > 0 &&
                  key.tokens_per_minute <= kMostTokensPerMinute,
              ErrorCode::bad_format, where,
              "tokens per minute: expected a whole number above 0, got ", printable(limit));
    }
    require(!(words >> more), ErrorCode::bad_format, where,
            "expected a key, a name and tokens per minute, got more");
    require(find_key(keys, key.secret) == nullptr, ErrorCode::bad_format, where,
            "this key is there twice");
    const auto same_name = [&](const Key& known) { return known.name == key.name; };
    require(std::none_of(keys.begin(), keys.end(), same_name), ErrorCode::bad_format, where,
            "the name ", printable(key.name), " is there twice");
    keys.push_back(std::move(key));
  }
  require(!keys.empty(), ErrorCode::bad_format, file,
          ": holds no key: nobody could use the server");
  return keys;
}

std::vector<Key> read_keys(const std::string& file) {
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash + 1);
  return parse_keys(
      read_model_file(folder, slash == std::string::npos ? file : file.substr(slash + 1)), file);
}

const Key* find_key(const std::vector<Key>& keys, std::string_view secret) {
  return find_key_through<const unsigned char*>(keys, secret);
}

TokenBuckets::TokenBuckets() : forget_at_(kManyBuckets) {}

TokenBuckets::Bucket& TokenBuckets::filled(const std::string& client, int64_t per_minute,
                                           Clock::time_point now) {
  if (buckets_.size() >= forget_at_) forget_full(now);
  const auto most = static_cast<double>(per_minute);
  const auto [at, is_new] = buckets_.try_emplace(client, Bucket{most, now, now});
  Bucket& bucket = at->second;
  if (!is_new) {
    const double minutes =
        std::chrono::duration<double, std::ratio<60>>(now - bucket.filled).count();
    bucket.tokens = std::min(most, bucket.tokens + std::max(0.0, minutes) * most);
    bucket.filled = now;
  }
  return bucket;
}

// Next when there are twice as many as are left, so that it costs little for each request, whatever
// number of addresses there is.
void TokenBuckets::forget_full(Clock::time_point now) {
  std::erase_if(buckets_, [&](const auto& each) { return now >= each.second.full; });
  forget_at_ = std::max(kManyBuckets, 2 * buckets_.size());
}

std::optional<std::chrono::seconds> TokenBuckets::refusal(const std::string& client,
                                                          int64_t per_minute,
                                                          Clock::time_point now) {
  if (per_minute <= 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const Bucket& bucket = filled(client, per_minute, now);
  if (bucket.tokens > 0) return std::nullopt;
  const double missing = (1.0 - bucket.tokens) * 60.0 / static_cast<double>(per_minute);
  return std::chrono::seconds(std::max<int64_t>(1, std::llround(std::ceil(missing))));
}

void TokenBuckets::charge(const std::string& client, int64_t per_minute, int64_t tokens,
                          Clock::time_point now) {
  if (per_minute <= 0) return;
  const std::lock_guard lock(mutex_);
  Bucket& bucket = filled(client, per_minute, now);
  bucket.tokens =
      std::min(static_cast<double>(per_minute), bucket.tokens - static_cast<double>(tokens));
  constexpr double kMostMinutes = 60.0 * 24 * 365;  // that a clock can count
  const double minutes = 1.0 - bucket.tokens / static_cast<double>(per_minute);
  bucket.full =
      now + std::chrono::ceil<Clock::duration>(
                std::chrono::duration<double, std::ratio<60>>(std::min(minutes, kMostMinutes)));
}

}  // namespace tril::serve
