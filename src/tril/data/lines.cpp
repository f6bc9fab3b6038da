#include "tril/data/lines.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tril/base/error.h"
#include "tril/io/atomic_file.h"

namespace tril {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kGzipMark = "\x1F\x8B";
constexpr size_t kBufferBytes = 1 << 16;
constexpr int kGzipWindow = 15 + 16;  // zlib's largest window, and gzip's header and checksum

std::string text_of(int error) { return std::generic_category().message(error); }

enum class Packing { unknown, plain, gzip };
enum class Got { bytes, nothing_yet, end };

}  // namespace

// Bytes go from the descriptor into `raw`, are unpacked into `text`, and go line by line into
// `kept`. Each stage keeps what it has when no more input is available for now.
struct LineReader::State {
  State(int file, std::string name, int64_t limit)
      : descriptor(file), path(std::move(name)), max_line_bytes(limit) {}
  ~State() {
    if (packing == Packing::gzip) inflateEnd(&stream);
    if (descriptor != STDIN_FILENO) ::close(descriptor);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const int descriptor;
  const std::string path;
  const int64_t max_line_bytes;

  std::vector<char> raw = std::vector<char>(kBufferBytes);
  size_t raw_begin = 0, raw_end = 0;  // the part not unpacked yet
  bool ended = false;                 // nothing more will come into `raw`

  Packing packing = Packing::unknown;
  z_stream stream{};
  bool in_member = false;   // inside a member of the gzip file, which may have several
  bool has_output = false;  // zlib holds more output than `text` had room for, or an error

  std::vector<char> text = std::vector<char>(kBufferBytes);
  size_t begin = 0, end = 0;  // the part not read yet

  std::string kept;           // the current line so far
  bool passed_limit = false;  // it was longer than kept
  int64_t number = 0;
  int64_t offset = 0;  // of the text at `begin`
  bool too_long = false;

  [[noreturn]] void fail_reading(const std::string& why) const {
    fail(ErrorCode::io, path, ": cannot read past line ", number, ": ", why);
  }

  Got read_raw(Wait wait) {
    if (raw_begin == raw_end) raw_begin = raw_end = 0;
    while (!ended) {
      pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
      const int count = ::poll(&ready, 1, wait == Wait::yes ? -1 : 0);
      if (count == 0) return Got::nothing_yet;
      const ssize_t got =
          count < 0 ? -1 : ::read(descriptor, raw.data() + raw_end, raw.size() - raw_end);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got < 0) fail_reading(text_of(errno));
      ended = got == 0;
      raw_end += static_cast<size_t>(got);
      if (got > 0) return Got::bytes;
    }
    return Got::end;
  }

  // Needs the first two bytes, or the end of the input. False: not yet known.
  bool find_packing() {
    const std::string_view first(raw.data() + raw_begin, std::min<size_t>(raw_end - raw_begin, 2));
    if (!ended && first.size() < 2 && kGzipMark.starts_with(first)) return false;
    packing = first == kGzipMark ? Packing::gzip : Packing::plain;
    if (packing == Packing::gzip && inflateInit2(&stream, kGzipWindow) != Z_OK) {
      packing = Packing::unknown;
      throw std::bad_alloc();
    }
    return true;
  }

  // Unpacks what is in `raw` into `text`. False: that gave nothing.
  bool unpack() {
    while (raw_begin < raw_end || has_output) {
      if (!in_member) {
        // Files may be padded with zeros after their last member.
        if (stream.total_in > 0 && raw[raw_begin] == '\0') {
          ++raw_begin;
          continue;
        }
        inflateReset(&stream);
        in_member = true;
      }
      stream.next_in = reinterpret_cast<Bytef*>(raw.data() + raw_begin);
      stream.avail_in = static_cast<uInt>(raw_end - raw_begin);
      stream.next_out = reinterpret_cast<Bytef*>(text.data());
      stream.avail_out = static_cast<uInt>(text.size());
      const int code = inflate(&stream, Z_NO_FLUSH);
      const bool damaged = code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR;
      begin = 0;
      end = text.size() - stream.avail_out;
      if (damaged && end == 0) {
        fail_reading(concat("the gzip file is damaged: ", stream.msg ? stream.msg : "no memory"));
      }
      raw_begin = raw_end - stream.avail_in;
      in_member = code != Z_STREAM_END;
      has_output = in_member && (stream.avail_out == 0 || damaged);
      if (end > 0) return true;
    }
    return false;
  }

  // Gets more text when all of it has been read.
  Got refill(Wait wait) {
    for (;;) {
      if (packing == Packing::gzip && unpack()) return Got::bytes;
      const Got got = read_raw(wait);
      if (got == Got::nothing_yet) return got;
      if (packing == Packing::unknown && !find_packing()) continue;
      if (packing == Packing::plain) {
        std::swap(text, raw);
        begin = std::exchange(raw_begin, 0);
        end = std::exchange(raw_end, 0);
        return begin < end ? Got::bytes : Got::end;
      }
      if (got == Got::end) {
        if (in_member) fail_reading("the gzip file is cut short");
        return Got::end;
      }
    }
  }

  // Takes the text up to the end of the line, or all of it; true when the line is complete.
  bool take() {
    const char* from = text.data() + begin;
    const auto* stop = static_cast<const char*>(std::memchr(from, '\n', end - begin));
    const size_t bytes = stop != nullptr ? static_cast<size_t>(stop - from) : end - begin;
    // Leaves room for a byte order mark and a CR, which do not count.
    const size_t most = static_cast<size_t>(max_line_bytes) + kByteOrderMark.size() + 1;
    const size_t room = most - kept.size();
    passed_limit = passed_limit || bytes > room;
    kept.append(from, std::min(bytes, room));
    advance(bytes + (stop != nullptr ? 1 : 0));
    return stop != nullptr;
  }

  void advance(size_t bytes) {
    begin += bytes;
    offset += static_cast<int64_t>(bytes);
  }

  // Counts and passes the ends of lines before the byte `until`. False: the text goes on no
  // further.
  bool pass(int64_t until, bool& in_line) {
    while (offset < until) {
      if (begin == end && refill(Wait::yes) == Got::end) return false;
      const auto bytes =
          static_cast<size_t>(std::min(until - offset, static_cast<int64_t>(end - begin)));
      const char* from = text.data() + begin;
      number += std::count(from, from + bytes, '\n');
      in_line = from[bytes - 1] != '\n';
      advance(bytes);
    }
    return true;
  }

  void hand_out(std::string& line) {
    ++number;
    if (number == 1 && kept.starts_with(kByteOrderMark)) kept.erase(0, kByteOrderMark.size());
    if (!passed_limit && kept.ends_with('\r')) kept.pop_back();
    too_long = passed_limit || kept.size() > static_cast<size_t>(max_line_bytes);
    if (too_long) kept.resize(static_cast<size_t>(max_line_bytes));
    line.swap(kept);
    kept.clear();
    passed_limit = false;
  }

  bool has_last_line() const { return !kept.empty() && (number > 0 || kept != kByteOrderMark); }
};

LineReader::LineReader(std::unique_ptr<State> state) : state_(std::move(state)) {}

LineReader::LineReader(const std::string& path, int64_t max_line_bytes) {
  require(path.find('\0') == std::string::npos, ErrorCode::io, path.c_str(),
          ": a path may not hold a NUL byte");
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, ErrorCode::io, path, ": cannot open: ", text_of(errno));
  try {
    state_ = std::make_unique<State>(descriptor, path, max_line_bytes);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  struct stat about {};
  require(::fstat(descriptor, &about) != 0 || !S_ISDIR(about.st_mode), ErrorCode::io, path,
          ": cannot open: ", text_of(EISDIR));
}

LineReader LineReader::standard_input(int64_t max_line_bytes) {
  return LineReader(std::make_unique<State>(STDIN_FILENO, "stdin", max_line_bytes));
}

LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

bool LineReader::next(std::string& line, Wait wait) {
  State& s = *state_;
  line.clear();
  for (;;) {
    const Got got = s.begin < s.end ? Got::bytes : s.refill(wait);
    if (got == Got::nothing_yet) return false;
    if (got == Got::end && !s.has_last_line()) return false;
    if (got == Got::end || s.take()) break;
  }
  s.hand_out(line);
  return true;
}

void LineReader::skip_to(int64_t byte) {
  State& s = *state_;
  if (byte <= s.offset) return;
  // The first line that begins at `byte` or later follows the first end of a line at the byte
  // before it, or later.
  bool in_line = false;
  bool more = s.pass(byte - 1, in_line);
  while (more) {
    if (s.begin == s.end && s.refill(Wait::yes) == Got::end) break;
    const char* from = s.text.data() + s.begin;
    const auto* stop = static_cast<const char*>(std::memchr(from, '\n', s.end - s.begin));
    s.advance(stop != nullptr ? static_cast<size_t>(stop - from) + 1 : s.end - s.begin);
    in_line = stop == nullptr;
    if (stop == nullptr) continue;
    ++s.number;
    return;
  }
  s.number += in_line ? 1 : 0;  // the last line, without an end
}

int64_t text_bytes(const std::string& path) {
  require_regular(path);
  LineReader reader(path);
  LineReader::State& s = *reader.state_;
  if (s.refill(LineReader::Wait::yes) == Got::end) return 0;
  if (s.packing == Packing::plain) return file_bytes(path);
  reader.skip_to(std::numeric_limits<int64_t>::max());
  return reader.offset();
}

int64_t LineReader::offset() const { return state_->offset; }
const std::string& LineReader::path() const { return state_->path; }
int64_t LineReader::number() const { return state_->number; }
int64_t LineReader::max_line_bytes() const { return state_->max_line_bytes; }
bool LineReader::too_long() const { return state_->too_long; }

}  // namespace tril
