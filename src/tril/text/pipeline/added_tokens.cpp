#include "tril/text/pipeline/added_tokens.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tril/text/pipeline/characters.h"

namespace tril::pipeline {
namespace {

bool word_ends_at(std::string_view text, size_t end) {
  return end > 0 && is_word(character_before(text, end).character);
}
bool word_begins_at(std::string_view text, size_t begin) {
  return begin < text.size() && is_word(character_at(text, begin).character);
}

size_t without_space_before(std::string_view text, size_t end) {
  while (end > 0) {
    const CharacterAt before = character_before(text, end);
    if (!is_space(before.character)) break;
    end -= before.bytes;
  }
  return end;
}
size_t past_space(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const CharacterAt next = character_at(text, begin);
    if (!is_space(next.character)) break;
    begin += next.bytes;
  }
  return begin;
}

}  // namespace

void AddedTokens::add(AddedToken token, const Normalizer* normalizer) {
  size_t place = tokens_.size();
  if (const auto same = contents_.find(token.content); same != contents_.end()) {
    place = same->second;
  } else if (const auto id = places_.find(token.id); id != places_.end()) {
    place = id->second;
  }
  std::string spelling = token.content;
  if (token.normalized && normalizer != nullptr) spelling = normalizer->apply(std::move(spelling));
  if (!spelling.empty()) {
    Spellings& spellings = token.normalized ? normalized_ : plain_;
    spellings.tree.add(spelling, static_cast<int32_t>(place));
    spellings.may_begin[static_cast<uint8_t>(spelling[0])] = true;
  }
  contents_[token.content] = place;
  places_[token.id] = place;
  if (place == tokens_.size()) {
    tokens_.push_back(std::move(token));
  } else {
    tokens_[place] = std::move(token);
  }
}

std::vector<Found> AddedTokens::split(std::string_view text, bool normalized) const {
  const Spellings& spellings = normalized ? normalized_ : plain_;
  std::vector<Found> found;
  size_t rest = 0;
  for (size_t at = 0; at < text.size();) {
    size_t bytes = 0;
    int32_t place = PrefixTree::kNone;
    if (spellings.may_begin[static_cast<uint8_t>(text[at])]) {
      spellings.tree.each_prefix(text.substr(at), [&](size_t length, int32_t value) {
        bytes = length;  // the longest, which comes last
        place = value;
      });
    }
    if (place == PrefixTree::kNone) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(place)];
    size_t begin = at, end = at + bytes;
    at = end;
    if (token.single_word && (word_ends_at(text, begin) || word_begins_at(text, end))) continue;
    if (token.lstrip) begin = std::max(without_space_before(text, begin), rest);
    if (token.rstrip) end = past_space(text, end);
    if (rest < begin) found.push_back({text.substr(rest, begin - rest), std::nullopt});
    found.push_back({text.substr(begin, end - begin), token.id});
    rest = end;
  }
  if (rest < text.size()) found.push_back({text.substr(rest), std::nullopt});
  return found;
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto place = places_.find(id);
  return place == places_.end() ? nullptr : &tokens_[place->second];
}

std::optional<int32_t> AddedTokens::find(std::string_view content) const {
  const auto place = contents_.find(std::string(content));
  if (place == contents_.end()) return std::nullopt;
  return tokens_[place->second].id;
}

AddedToken read_added_token(Component component, std::optional<int32_t> id) {
  AddedToken token;
  constexpr int64_t kMost = (1 << 23) - 1;
  token.id = id ? *id : static_cast<int32_t>(component.number("id", 0, kMost));
  token.content = component.text("content");
  token.single_word = component.flag_or("single_word", false);
  token.lstrip = component.flag_or("lstrip", false);
  token.rstrip = component.flag_or("rstrip", false);
  token.special = component.flag_or("special", false);
  token.normalized = component.flag_or("normalized", !token.special);
  component.ignore({"__type"});
  component.finish();
  return token;
}

}  // namespace tril::pipeline
