// Any bytes as a file of lines, plain or gzip: LineReader gives the lines that unpacking it at once
// and splitting the text gives, or all whole lines before the place that cannot be read and an
// Error.
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "scratch.h"
#include "tril/base/error.h"
#include "tril/data/lines.h"

namespace {

using tril::fuzz::check;
using tril::fuzz::view;

constexpr size_t kLongest = 60;        // bytes in a line before it is too long
constexpr size_t kMostText = 1 << 20;  // a small file can unpack to a thousand times its size
constexpr int kGzip = 15 + 16;         // zlib: its largest window, gzip's header
constexpr std::string_view kMark = "\xEF\xBB\xBF";

struct Text {
  std::string bytes;
  bool whole = true;
};

// All members of a gzip file one after the other, followed by zeros.
Text unpacked(std::string_view file) {
  if (!file.starts_with("\x1F\x8B")) return {std::string(file)};
  Text text;
  z_stream stream{};
  check(inflateInit2(&stream, kGzip) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file.data()));
  stream.avail_in = static_cast<uInt>(file.size());
  char buffer[4096];
  int code = Z_STREAM_END;
  while (text.bytes.size() < kMostText) {
    if (code == Z_STREAM_END) {
      while (stream.total_in > 0 && stream.avail_in > 0 && *stream.next_in == 0) {
        ++stream.next_in;
        --stream.avail_in;
      }
      if (stream.avail_in == 0) break;
      inflateReset(&stream);
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof buffer;
    code = inflate(&stream, Z_NO_FLUSH);
    text.bytes.append(buffer, sizeof buffer - stream.avail_out);
    if (code == Z_BUF_ERROR || (code != Z_OK && code != Z_STREAM_END)) break;
    if (code == Z_OK && stream.avail_in == 0 && stream.avail_out > 0) break;
  }
  text.whole = code == Z_STREAM_END;
  inflateEnd(&stream);
  return text;
}

struct Line {
  std::string text;
  bool too_long = false;
  bool operator==(const Line&) const = default;
};

std::vector<Line> lines_of(const Text& text) {
  std::vector<Line> lines;
  std::string_view rest = text.bytes;
  if (rest.starts_with(kMark)) rest.remove_prefix(kMark.size());
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    if (end == rest.npos && !text.whole) break;
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end == rest.npos ? end : end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back({std::string(line.substr(0, kLongest)), line.size() > kLongest});
  }
  return lines;
}

struct Read {
  std::vector<Line> lines;
  bool whole = true;
};

Read read(const std::string& path) {
  Read result;
  try {
    tril::LineReader reader(path, kLongest);
    for (Line line; reader.next(line.text);) {
      line.too_long = reader.too_long();
      result.lines.push_back(line);
      check(reader.number() == static_cast<int64_t>(result.lines.size()));
    }
  } catch (const tril::Error& error) {
    check(error.code() == tril::ErrorCode::io);
    check(std::string_view(error.what()).starts_with(path));
    result.whole = false;
  }
  return result;
}

std::string packed(std::string_view text) {
  z_stream stream{};
  check(deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string result(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  check(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Half of the time what changes is the text inside, so that gzip's checksum does not end every try.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  const Text text = unpacked(view(data, size));
  if (seed % 2 == 0 || !text.whole || text.bytes.size() > max_size) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  std::string inside = text.bytes;
  inside.resize(max_size);
  inside.resize(
      LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(inside.data()), text.bytes.size(), max_size));
  const std::string file = packed(inside);
  if (file.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, file.data(), file.size());
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Text text = unpacked(view(data, size));
  if (text.bytes.size() >= kMostText) return 0;
  const Read got = read(tril::fuzz::put("lines", view(data, size)));
  check(got.whole == text.whole);
  check(got.lines == lines_of(text));
  return 0;
}
