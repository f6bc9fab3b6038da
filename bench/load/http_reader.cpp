#include "http_reader.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace load {
namespace {

constexpr size_t kMaxHeaders = 64 * 1024;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = char(c | 0x20);
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

uint64_t number(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail("not a length: " + std::string(text.substr(0, 40)));
  }
  return value;
}

// Whether a list such as "keep-alive, Upgrade" names a word.
bool lists(const std::string& list, std::string_view word) {
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    if (trimmed(std::string_view(list).substr(at, comma - at)) == word) return true;
    at = comma + 1;
  }
  return false;
}

}  // namespace

void HttpReader::feed(std::string_view bytes) {
  begun_ = begun_ || !bytes.empty();
  while (!bytes.empty()) {
    switch (part_) {
      case Part::counted:
      case Part::chunk:
      case Part::rest: take_body(bytes); break;
      case Part::done: fail("bytes after the end of an answer");
      default: take_line(bytes);
    }
  }
}

void HttpReader::end() {
  if (part_ == Part::done) return;
  if (part_ != Part::rest) fail(begun_ ? "closed in the middle of an answer" : "closed");
  part_ = Part::done;
}

void HttpReader::take_line(std::string_view& bytes) {
  const size_t newline = bytes.find('\n');
  const std::string_view piece = bytes.substr(0, newline);
  headers_ += piece.size();
  if (headers_ > kMaxHeaders) fail("headers that do not end");
  line_ += piece;
  bytes.remove_prefix(newline == bytes.npos ? bytes.size() : newline + 1);
  if (newline == bytes.npos) return;
  std::string line;
  line.swap(line_);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  read_line(line);
}

void HttpReader::take_body(std::string_view& bytes) {
  size_t count = bytes.size();
  if (part_ != Part::rest) {
    count = size_t(std::min<uint64_t>(count, left_));
    left_ -= count;
  }
  body_ += bytes.substr(0, count);
  bytes.remove_prefix(count);
  if (part_ == Part::counted && left_ == 0) part_ = Part::done;
  if (part_ == Part::chunk && left_ == 0) part_ = Part::chunk_end;
}

void HttpReader::read_line(std::string_view line) {
  switch (part_) {
    case Part::status: return read_status(line);
    case Part::headers: return line.empty() ? end_headers() : read_header(line);
    case Part::chunk_size:
      left_ = number(trimmed(line.substr(0, line.find(';'))), 16);
      part_ = left_ == 0 ? Part::trailers : Part::chunk;
      headers_ = 0;
      return;
    case Part::chunk_end:
      if (!line.empty()) fail("a chunk longer than its size");
      part_ = Part::chunk_size;
      return;
    case Part::trailers:
      if (line.empty()) part_ = Part::done;
      return;
    default: return;
  }
}

void HttpReader::read_status(std::string_view line) {
  if (line.substr(0, 7) != "HTTP/1." || line.size() < 12 || line[8] != ' ') {
    fail("not an answer of HTTP/1: " + std::string(line.substr(0, 40)));
  }
  keeps_alive_ = line[7] != '0';
  status_ = int(number(line.substr(9, 3), 10));
  part_ = Part::headers;
}

void HttpReader::read_header(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos) fail("a header without a colon: " + std::string(line.substr(0, 40)));
  const std::string name = lower(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "content-length") {
    const uint64_t length = number(value, 10);
    if (has_length_ && length != left_) fail("two lengths");
    left_ = length;
    has_length_ = true;
  } else if (name == "transfer-encoding") {
    chunked_ = lists(lower(value), "chunked");
  } else if (name == "connection") {
    const std::string words = lower(value);
    if (lists(words, "close")) keeps_alive_ = false;
    if (lists(words, "keep-alive")) keeps_alive_ = true;
  }
}

void HttpReader::end_headers() {
  if (status_ >= 100 && status_ < 200) {
    reset();
    begun_ = true;
  } else if (status_ == 204 || status_ == 304) {
    part_ = Part::done;
  } else if (chunked_) {
    if (has_length_) fail("a length and chunks");
    part_ = Part::chunk_size;
  } else if (has_length_) {
    part_ = left_ == 0 ? Part::done : Part::counted;
  } else {
    keeps_alive_ = false;
    part_ = Part::rest;
  }
}

}  // namespace load
