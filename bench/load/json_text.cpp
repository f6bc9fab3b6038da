#include "json_text.h"

#include <cstdint>
#include <stdexcept>

namespace load {
namespace {

[[noreturn]] void fail(const char* wanted, std::string_view found) {
  throw std::runtime_error(std::string("expected ") + wanted +
                           ", found: " + std::string(found.substr(0, 80)));
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// The place after the string whose opening quote is at `at`.
size_t after_string(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  fail("a string that ends", text);
}

// The place of the first of `ends` that stands at this level, or the text's end.
size_t level_end(std::string_view text, size_t at, std::string_view ends) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = after_string(text, at);
      continue;
    }
    if (depth == 0 && ends.find(c) != ends.npos) return at;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
  }
  return at;
}

// What an array or an object holds, cut at its commas.
std::vector<std::string_view> parts(std::string_view value) {
  std::vector<std::string_view> all;
  size_t at = 1;
  while (at < value.size()) {
    const size_t end = level_end(value, at, ",]}");
    const std::string_view part = trimmed(value.substr(at, end - at));
    if (!part.empty()) all.push_back(part);
    at = end + 1;
  }
  return all;
}

std::string_view child(std::string_view value, std::string_view name) {
  if (value.empty() || (value[0] != '{' && value[0] != '[')) return {};
  size_t number = 0;
  for (const std::string_view part : parts(value)) {
    if (value[0] == '[') {
      if (std::to_string(number++) == name) return part;
      continue;
    }
    const size_t colon = level_end(part, 0, ":");
    const std::string_view key = trimmed(part.substr(0, colon));
    if (colon < part.size() && key.size() >= 2 && json_string(key) == name) {
      return trimmed(part.substr(colon + 1));
    }
  }
  return {};
}

void append_utf8(std::string& to, uint32_t code) {
  const auto put = [&](uint32_t byte) { to.push_back(char(uint8_t(byte))); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3f));
    }
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

uint32_t four_digits(std::string_view text, size_t at) {
  if (at + 4 > text.size()) fail("four hexadecimal digits", text.substr(at));
  uint32_t code = 0;
  for (const char c : text.substr(at, 4)) {
    const size_t digit = std::string_view("0123456789abcdef").find(char(c | 0x20));
    if (digit == std::string_view::npos) fail("a hexadecimal digit", text.substr(at));
    code = code << 4 | uint32_t(digit);
  }
  return code;
}

}  // namespace

std::string_view json_at(std::string_view json, std::string_view path) {
  std::string_view value = trimmed(json);
  while (!path.empty()) {
    const size_t dot = path.find('.');
    value = child(value, path.substr(0, dot));
    path = dot == path.npos ? std::string_view() : path.substr(dot + 1);
  }
  return value;
}

std::vector<std::string_view> json_elements(std::string_view array) {
  array = trimmed(array);
  if (array.size() < 2 || array.front() != '[' || array.back() != ']') fail("an array", array);
  return parts(array);
}

std::string_view json_members(std::string_view object) {
  object = trimmed(object);
  if (object.size() < 2 || object.front() != '{' || object.back() != '}') {
    fail("an object", object);
  }
  return trimmed(object.substr(1, object.size() - 2));
}

std::string json_string(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') fail("a string", value);
  value = value.substr(1, value.size() - 2);
  std::string text;
  for (size_t at = 0; at < value.size(); ++at) {
    if (value[at] != '\\') {
      text.push_back(value[at]);
      continue;
    }
    if (++at == value.size()) fail("a string that ends", value);
    if (value[at] != 'u') {
      const size_t known = std::string_view("bfnrt").find(value[at]);
      text.push_back(known == std::string_view::npos ? value[at] : "\b\f\n\r\t"[known]);
      continue;
    }
    uint32_t code = four_digits(value, at + 1);
    at += 4;
    if (code >= 0xd800 && code < 0xdc00 && value.substr(at + 1, 2) == "\\u") {
      code = 0x10000 + ((code - 0xd800) << 10) + (four_digits(value, at + 3) - 0xdc00);
      at += 6;
    }
    append_utf8(text, code);
  }
  return text;
}

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    if (uint8_t(c) >= 0x20) {
      quoted.push_back(c);
    } else {
      quoted += "\\u00";
      quoted.push_back("01"[c >> 4]);
      quoted.push_back("0123456789abcdef"[c & 15]);
    }
  }
  return quoted + '"';
}

}  // namespace load
