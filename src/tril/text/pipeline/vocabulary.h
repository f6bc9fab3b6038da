// The pieces of a vocabulary and their ids, which need not be consecutive.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tril/io/json.h"

namespace tril::pipeline {

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // An id that is used twice raises `bad_format`, naming `where`; so does one far beyond the number
  // of pieces.
  void add(std::string piece, int32_t id, const std::string& where);
  // An object of ids by piece, as in vocab.json.
  static Vocabulary from_json(const JsonValue& value, const std::string& where);

  // One more than the largest id.
  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  // Null for an id without a piece.
  const std::string* piece(int32_t id) const;
  std::optional<int32_t> find(std::string_view piece) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> pieces_;  // the keys of `ids_`, by id
};

}  // namespace tril::pipeline
