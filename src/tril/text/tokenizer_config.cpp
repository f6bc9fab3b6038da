#include "tril/text/tokenizer_config.h"

#include <charconv>
#include <utility>

#include "tril/base/error.h"

namespace tril {
namespace {

using JsonKind = JsonValue::Kind;

constexpr JsonLimits kConfigLimits{.max_bytes = 1 << 26, .max_depth = 16, .max_values = 1 << 22};

JsonValue parse_if_there(const Bundle& bundle, std::string_view name, const std::string& folder) {
  const auto content = bundle.find(name);
  if (!content) return {};
  const std::string file = concat(folder, ": ", name);
  JsonValue value = parse_json(*content, file, kConfigLimits);
  require(value.kind == JsonKind::object, ErrorCode::bad_format, file, ": expected an object, got ",
          describe(value));
  return value;
}

const JsonValue* item_of(const JsonValue& object, std::string_view field) {
  const JsonValue* item = object.kind == JsonKind::object ? object.find(field) : nullptr;
  return item == nullptr || item->kind == JsonKind::null ? nullptr : item;
}

// A token is written as its text, or as an object with its properties.
std::optional<std::string> content_of(const JsonValue* token) {
  if (token == nullptr) return std::nullopt;
  if (token->kind == JsonKind::object) token = item_of(*token, "content");
  if (token == nullptr || token->kind != JsonKind::string) return std::nullopt;
  return token->text;
}

}  // namespace

TokenizerConfig::TokenizerConfig(const Bundle& bundle, const std::string& folder)
    : config_(parse_if_there(bundle, "tokenizer_config.json", folder)),
      special_(parse_if_there(bundle, "special_tokens_map.json", folder)),
      added_(parse_if_there(bundle, "added_tokens.json", folder)),
      folder_(folder) {}

const JsonValue* TokenizerConfig::find(std::string_view field) const {
  return item_of(config_, field);
}

const JsonValue* TokenizerConfig::find_special(std::string_view field) const {
  const JsonValue* item = find(field);
  return item != nullptr ? item : item_of(special_, field);
}

std::optional<std::string> TokenizerConfig::special_token(std::string_view name) const {
  return content_of(find_special(name));
}

std::optional<pipeline::AddedToken> TokenizerConfig::special_added_token(
    std::string_view name) const {
  const JsonValue* item = find_special(name);
  const auto content = content_of(item);
  if (!content) return std::nullopt;
  pipeline::AddedToken token;
  if (item->kind == JsonKind::object) {
    token = pipeline::read_added_token({*item, concat(folder_, ": ", name)}, 0);
  }
  token.content = *content;
  token.special = true;
  return token;
}

std::vector<std::string> TokenizerConfig::additional_special_tokens() const {
  const JsonValue* list = find_special("extra_special_tokens");
  if (list == nullptr || list->kind != JsonKind::array) {
    list = find_special("additional_special_tokens");
  }
  std::vector<std::string> tokens;
  if (list == nullptr) return tokens;
  for (const JsonValue& item : list->items) {
    if (const auto content = content_of(&item)) tokens.push_back(*content);
  }
  return tokens;
}

std::vector<pipeline::AddedToken> TokenizerConfig::added_tokens() const {
  std::vector<pipeline::AddedToken> tokens;
  if (const JsonValue* decoder = find("added_tokens_decoder")) {
    const std::string where = concat(folder_, ": tokenizer_config.json: added_tokens_decoder");
    for (size_t i = 0; i < decoder->names.size(); ++i) {
      const std::string& name = decoder->names[i];
      int32_t id = -1;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
      require(error == std::errc() && end == name.data() + name.size() && id >= 0 && id < (1 << 23),
              ErrorCode::bad_format, where, ": expected an id, got ", printable(name));
      tokens.push_back(
          pipeline::read_added_token({decoder->items[i], concat(where, ": ", name)}, id));
    }
    return tokens;
  }
  for (size_t i = 0; i < added_.names.size(); ++i) {
    pipeline::AddedToken token;
    token.content = added_.names[i];
    token.id = pipeline::token_id(added_.items[i], concat(folder_, ": added_tokens.json"));
    require(token.id < (1 << 23), ErrorCode::bad_format, folder_, ": added_tokens.json: the id ",
            token.id, " is too large");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::optional<std::string> TokenizerConfig::text(std::string_view field) const {
  const JsonValue* item = find(field);
  if (item == nullptr || item->kind != JsonKind::string) return std::nullopt;
  return item->text;
}

std::optional<bool> TokenizerConfig::flag(std::string_view field) const {
  const JsonValue* item = find(field);
  if (item == nullptr || item->kind != JsonKind::boolean) return std::nullopt;
  return item->boolean;
}

std::optional<int64_t> TokenizerConfig::number(std::string_view field) const {
  const JsonValue* item = find(field);
  if (item == nullptr || item->kind != JsonKind::integer) return std::nullopt;
  return item->integer;
}

}  // namespace tril
