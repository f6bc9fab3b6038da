// Cache of translated sentences.
//
// What a sentence gets is a function of the model, the sentence and the options, so a cached answer
// is the answer. Keys hold all of that in full, not a hash of it: nobody can make two requests
// meet.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tril/translate/translator.h"

namespace tril::serve {

// What one unit of text got.
struct UnitResult {
  Translation translation;
  int64_t tokens_read = 0;  // of its source
  bool repeats = false;     // what was read begins each hypothesis: text was continued

  int64_t tokens_written() const {
    int64_t tokens = 0;
    for (const TextHypothesis& h : translation.hypotheses) {
      tokens += std::ssize(h.tokens) - (repeats ? tokens_read : 0);
    }
    return tokens;
  }
};

class AnswerCache {
 public:
  // Holds about as many bytes; 0: nothing.
  explicit AnswerCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Null if it is not there.
  std::shared_ptr<const UnitResult> find(const std::string& key);
  // Forgets those that were not asked for the longest, while there are too many bytes.
  void put(const std::string& key, std::shared_ptr<const UnitResult> answer);

  int64_t bytes() const;
  int64_t size() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const UnitResult> answer;
    int64_t bytes = 0;
  };
  const int64_t max_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the last one asked for first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
  int64_t bytes_ = 0;
};

}  // namespace tril::serve
