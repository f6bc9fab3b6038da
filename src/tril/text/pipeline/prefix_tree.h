// A tree of byte strings, to find those with which a text begins.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tril/text/pipeline/hash_table.h"

namespace tril::pipeline {

class PrefixTree {
 public:
  static constexpr int32_t kNone = -1;

  // A string that is there already gets the new value.
  void add(std::string_view text, int32_t value) {
    int32_t node = 0;
    for (const char byte : text) {
      int32_t next = edges_.find(key(node, byte));
      if (next == kNone) {
        next = static_cast<int32_t>(values_.size());
        edges_.add(key(node, byte), next);
        values_.push_back(kNone);
      }
      node = next;
    }
    values_[static_cast<size_t>(node)] = value;
  }

  // Calls f(bytes, value) for each string with which the text begins, the shortest first.
  template <class F>
  void each_prefix(std::string_view text, const F& f) const {
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = edges_.find(key(node, text[i]));
      if (node == kNone) return;
      const int32_t value = values_[static_cast<size_t>(node)];
      if (value != kNone) f(i + 1, value);
    }
  }
  int32_t find(std::string_view text) const {
    int32_t node = 0;
    for (const char byte : text) {
      node = edges_.find(key(node, byte));
      if (node == kNone) return kNone;
    }
    return values_[static_cast<size_t>(node)];
  }

 private:
  static uint64_t key(int32_t node, char byte) {
    return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
  }

  HashTable edges_;                     // (node, byte) to node
  std::vector<int32_t> values_{kNone};  // by node
};

}  // namespace tril::pipeline
