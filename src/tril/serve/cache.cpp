#include "tril/serve/cache.h"

#include <utility>

namespace tril::serve {
namespace {

// Roughly what the allocator hands out for it.
int64_t bytes_of(const Translation& translation) {
  size_t bytes = sizeof translation;
  for (const TextHypothesis& h : translation.hypotheses) {
    bytes += sizeof h + h.text.capacity() + h.tokens.capacity() * sizeof(int32_t) +
             h.log_probs.capacity() * sizeof(float) + h.pieces.capacity() * sizeof(std::string) +
             h.alignment.weights.capacity() * sizeof(double) +
             h.links.capacity() * sizeof(WordLink);
    for (const std::string& piece : h.pieces) {
      if (piece.capacity() > std::string().capacity()) bytes += piece.capacity();
    }
  }
  return static_cast<int64_t>(bytes);
}

constexpr int64_t kEntryBytes = 200;  // of list, map and counters

}  // namespace

std::shared_ptr<const UnitResult> AnswerCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->answer;
}

void AnswerCache::put(const std::string& key, std::shared_ptr<const UnitResult> answer) {
  const int64_t bytes =
      bytes_of(answer->translation) + static_cast<int64_t>(key.size()) + kEntryBytes;
  if (bytes > max_bytes_ / 4) return;
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return;
  entries_.push_front({key, std::move(answer), bytes});
  by_key_.emplace(entries_.front().key, entries_.begin());
  bytes_ += bytes;
  while (bytes_ > max_bytes_) {
    bytes_ -= entries_.back().bytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

int64_t AnswerCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

int64_t AnswerCache::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace tril::serve
