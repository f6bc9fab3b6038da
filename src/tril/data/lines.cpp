#include "tril/data/lines.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "tril/base/error.h"

namespace tril {

struct LineReader::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::string path;
  int64_t max_line_bytes = 0;
  gzFile file = nullptr;
  std::vector<char> buffer = std::vector<char>(1 << 17);
  size_t begin = 0;  // what of the buffer is not read yet
  size_t end = 0;
  int64_t number = 0;
  bool too_long = false;

  ~State() { gzclose(file); }

  // False at the end of the file.
  bool refill() {
    errno = 0;
    const int got = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()));
    int code = Z_OK;
    const char* text = gzerror(file, &code);
    // A file that is cut short gives what it has, and says so only here.
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      const std::string why = code == Z_ERRNO || errno != 0
                                  ? std::generic_category().message(errno)
                                  : (code == Z_BUF_ERROR ? "the gzip file is cut short" : text);
      fail(ErrorCode::io, path, ": cannot read past line ", number, ": ", why);
    }
    begin = 0;
    end = static_cast<size_t>(got);
    return got > 0;
  }
};

LineReader::LineReader(const std::string& path, int64_t max_line_bytes) {
  require(path.find('\0') == std::string::npos, ErrorCode::io, path.c_str(),
          ": a path may not hold a NUL byte");
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");
  require(file != nullptr, ErrorCode::io, path,
          ": cannot open: ", std::generic_category().message(errno != 0 ? errno : ENOMEM));
  state_ = std::make_unique<State>();
  state_->path = path;
  state_->max_line_bytes = max_line_bytes;
  state_->file = file;
  state_->refill();
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (std::string_view(state_->buffer.data(), state_->end).starts_with(kMark)) {
    state_->begin = kMark.size();
  }
}

LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

bool LineReader::next(std::string& line) {
  State& s = *state_;
  line.clear();
  if (s.begin == s.end && !s.refill()) return false;
  ++s.number;
  s.too_long = false;
  for (bool ended = false; !ended && (s.begin < s.end || s.refill());) {
    const char* from = s.buffer.data() + s.begin;
    const auto* stop = static_cast<const char*>(std::memchr(from, '\n', s.end - s.begin));
    ended = stop != nullptr;
    const size_t bytes = ended ? static_cast<size_t>(stop - from) : s.end - s.begin;
    const size_t room = static_cast<size_t>(s.max_line_bytes) - line.size();
    if (bytes > room) s.too_long = true;
    line.append(from, std::min(bytes, room));
    s.begin += bytes + (ended ? 1 : 0);
  }
  if (!s.too_long && line.ends_with('\r')) line.pop_back();
  return true;
}

const std::string& LineReader::path() const { return state_->path; }
int64_t LineReader::number() const { return state_->number; }
bool LineReader::too_long() const { return state_->too_long; }

}  // namespace tril
