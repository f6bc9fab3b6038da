#include "tril/text/pipeline/vocabulary.h"

#include <utility>

#include "tril/text/pipeline/component.h"

namespace tril::pipeline {

constexpr int32_t kMaxTokens = 1 << 23;  // no vocabulary is nearly as large

void Vocabulary::add(std::string piece, int32_t id, const std::string& where) {
  require(0 <= id && id < kMaxTokens, ErrorCode::bad_format, where, ": ", printable(piece),
          " has the id ", id, ", expected 0 to ", kMaxTokens - 1);
  const auto [entry, is_new] = ids_.emplace(std::move(piece), id);
  require(is_new || entry->second == id, ErrorCode::bad_format, where, ": ",
          printable(entry->first), " has two ids");
  const auto place = static_cast<size_t>(id);
  if (pieces_.size() <= place) pieces_.resize(place + 1, nullptr);
  require(pieces_[place] == nullptr || pieces_[place] == &entry->first, ErrorCode::bad_format,
          where, ": the id ", id, " stands for two pieces");
  pieces_[place] = &entry->first;
}

Vocabulary Vocabulary::from_json(const JsonValue& value, const std::string& where) {
  require(value.kind == JsonValue::Kind::object, ErrorCode::bad_format, where,
          ": expected an object, got ", describe(value));
  Vocabulary vocabulary;
  vocabulary.ids_.reserve(value.items.size());
  for (size_t i = 0; i < value.items.size(); ++i) {
    vocabulary.add(value.names[i], token_id(value.items[i], where), where);
  }
  return vocabulary;
}

const std::string* Vocabulary::piece(int32_t id) const {
  const auto place = static_cast<size_t>(id);
  return id >= 0 && place < pieces_.size() ? pieces_[place] : nullptr;
}

std::optional<int32_t> Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

}  // namespace tril::pipeline
