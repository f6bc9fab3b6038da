#include "tril/serve/http_text.h"

#include <algorithm>

#include "tril/serve/http.h"

namespace tril::serve {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

bool is_unreserved(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~").find(c) != std::string_view::npos;
}

// Takes the first field off a form, such as "a=1"; empty: there is no more.
std::string_view next_field(std::string_view& form) {
  std::string_view field;
  while (field.empty() && !form.empty()) {
    const size_t end = std::min(form.find('&'), form.size());
    field = form.substr(0, end);
    form.remove_prefix(std::min(end + 1, form.size()));
  }
  return field;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const Header& header : headers) {
    if (equal_ignoring_case(header.name, name)) return header.value;
  }
  return {};
}

std::string_view HttpRequest::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view HttpRequest::query() const {
  const size_t mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (is_unreserved(c)) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kDigits[byte >> 4u], kDigits[byte & 15u]};
  }
  return encoded;
}

std::optional<Fields> parse_form(std::string_view text, size_t most) {
  Fields fields;
  for (auto field = next_field(text); !field.empty(); field = next_field(text)) {
    if (fields.size() == most) return std::nullopt;
    const size_t equals = std::min(field.find('='), field.size());
    auto name = percent_decoded(field.substr(0, equals));
    auto value = percent_decoded(field.substr(std::min(equals + 1, field.size())));
    if (!name || !value) return std::nullopt;
    fields.emplace_back(std::move(*name), std::move(*value));
  }
  return fields;
}

size_t count_fields(std::string_view text) {
  size_t count = 0;
  while (!next_field(text).empty()) ++count;
  return count;
}

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string media_type(std::string_view content_type) {
  std::string type(trimmed(content_type.substr(0, content_type.find(';'))));
  std::transform(type.begin(), type.end(), type.begin(), lower);
  return type;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool names_tag(std::string_view if_none_match, std::string_view tag) {
  while (!if_none_match.empty()) {
    const size_t comma = std::min(if_none_match.find(','), if_none_match.size());
    std::string_view named = trimmed(if_none_match.substr(0, comma));
    if (named.starts_with("W/")) named.remove_prefix(2);
    if (named == tag || named == "*") return true;
    if_none_match.remove_prefix(std::min(comma + 1, if_none_match.size()));
  }
  return false;
}

}  // namespace tril::serve
