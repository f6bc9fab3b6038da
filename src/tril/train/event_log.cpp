#include "tril/train/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <system_error>

#include "tril/base/crc32c.h"
#include "tril/base/error.h"
#include "tril/io/atomic_file.h"

namespace tril {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr std::string_view kVersion = "brain.Event:2";
constexpr size_t kFrameBytes = 16;  // of a record, beside its data

// The values of a record and what TensorBoard calls them; it groups them by what stands before the
// slash.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTags = {{
    {"loss", "train/loss"},
    {"gradient_norm", "train/gradient_norm"},
    {"rate", "train/learning_rate"},
    {"tokens_per_second", "train/tokens_per_second"},
    {"valid_loss", "valid/loss"},
    {"valid_bleu", "valid/bleu"},
}};

// Wire types of protocol buffers, and fields by number and type.
enum Wire : unsigned { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr unsigned field(unsigned number, Wire wire) { return number << 3 | wire; }
constexpr unsigned kWallTime = field(1, kFixed64);
constexpr unsigned kStep = field(2, kVarint);
constexpr unsigned kFileVersion = field(3, kBytes);
constexpr unsigned kSummary = field(5, kBytes);
constexpr unsigned kValue = field(1, kBytes);
constexpr unsigned kTag = field(1, kBytes);
constexpr unsigned kSimpleValue = field(2, kFixed32);

template <class Number>
void put_number(std::string& out, Number number) {
  for (size_t i = 0; i < sizeof number; ++i) out += static_cast<char>(number >> (8 * i) & 0xFF);
}

void put_varint(std::string& out, uint64_t number) {
  for (; number > 0x7F; number >>= 7) out += static_cast<char>((number & 0x7F) | 0x80);
  out += static_cast<char>(number);
}

void put_bytes(std::string& out, unsigned key, std::string_view bytes) {
  put_varint(out, key);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_wall_time(std::string& out, double wall_time) {
  put_varint(out, kWallTime);
  put_number(out, std::bit_cast<uint64_t>(wall_time));
}

uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

std::string framed(std::string_view data) {
  std::string record;
  put_number(record, static_cast<uint64_t>(data.size()));
  put_number(record, masked_crc(record));
  record += data;
  put_number(record, masked_crc(data));
  return record;
}

// Reads what put_...() wrote. Anything else makes it fail for good.
class Parser {
 public:
  explicit Parser(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }
  std::string_view take(uint64_t count) {
    if (count > bytes_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <class Number>
  Number number() {
    Number value = 0;
    const std::string_view bytes = take(sizeof value);
    for (size_t i = 0; i < bytes.size(); ++i) {
      value = static_cast<Number>(
          value | static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i));
    }
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = number<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }
  void expect(unsigned key) { ok_ = varint() == key && ok_; }
  std::string_view bytes(unsigned key) {
    expect(key);
    return take(varint());
  }
  double wall_time() {
    expect(kWallTime);
    return std::bit_cast<double>(number<uint64_t>());
  }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

// The data of the next record; nothing where it is damaged or incomplete.
std::optional<std::string_view> next_data(Parser& file) {
  const std::string_view length = file.take(sizeof(uint64_t));
  if (file.number<uint32_t>() != masked_crc(length) || !file.ok()) return std::nullopt;
  const std::string_view data = file.take(Parser(length).number<uint64_t>());
  if (file.number<uint32_t>() != masked_crc(data) || !file.ok()) return std::nullopt;
  return data;
}

bool parse_start(std::string_view data) {
  Parser event(data);
  event.wall_time();
  return event.bytes(kFileVersion) == kVersion && event.ok() && event.at_end();
}

std::optional<ScalarEvent> parse_event(std::string_view data) {
  Parser event(data);
  ScalarEvent result;
  result.wall_time = event.wall_time();
  event.expect(kStep);
  result.step = static_cast<int64_t>(event.varint());
  Parser summary(event.bytes(kSummary));
  while (event.ok() && summary.ok() && !summary.at_end()) {
    Parser value(summary.bytes(kValue));
    const std::string_view tag = value.bytes(kTag);
    value.expect(kSimpleValue);
    const auto number = std::bit_cast<float>(value.number<uint32_t>());
    if (!value.ok() || !value.at_end()) return std::nullopt;
    result.values.emplace_back(tag, number);
  }
  if (!event.ok() || !event.at_end() || !summary.ok()) return std::nullopt;
  return result;
}

// Which bytes of a file hold exactly these records, from its first on; 0 where they are not all
// there.
int64_t bytes_of(std::span<const LogRecord> records, std::string_view bytes) {
  const EventFile file = read_events(bytes);
  int64_t end = file.start;
  if (end == 0 || file.events.size() < records.size()) return 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const ScalarEvent expected = event_of(records[i], 0.0);
    if (file.events[i].step != expected.step || file.events[i].values != expected.values) return 0;
    end = file.ends[i];
  }
  return end;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A whole file. When it was that a record was logged is taken from how long the run had taken.
std::string file_of(std::span<const LogRecord> records) {
  const auto seconds = [](const LogRecord& record, double otherwise) {
    const double* found = record.find("seconds");
    return found == nullptr ? otherwise : *found;
  };
  double last = 0.0;
  for (const LogRecord& record : records) last = seconds(record, last);
  const double begun = now() - last;
  std::string bytes = event_file_start(begun);
  double so_far = 0.0;
  for (const LogRecord& record : records) {
    so_far = seconds(record, so_far);
    bytes += event_record(event_of(record, begun + so_far));
  }
  return bytes;
}

// Whether the file may be changed in place: whoever else has a name or a link for it keeps theirs.
bool is_ours_alone(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
         status.st_size <= kMostBytes;
}

}  // namespace

ScalarEvent event_of(const LogRecord& record, double wall_time) {
  ScalarEvent event{.wall_time = wall_time, .step = record.update};
  for (const auto& [name, tag] : kTags) {
    const double* value = record.find(std::string(name));
    if (value != nullptr && std::isfinite(*value)) {
      event.values.emplace_back(tag, static_cast<float>(*value));
    }
  }
  return event;
}

std::string event_record(const ScalarEvent& event) {
  std::string summary;
  for (const auto& [tag, number] : event.values) {
    std::string value;
    put_bytes(value, kTag, tag);
    put_varint(value, kSimpleValue);
    put_number(value, std::bit_cast<uint32_t>(number));
    put_bytes(summary, kValue, value);
  }
  std::string data;
  put_wall_time(data, event.wall_time);
  put_varint(data, kStep);
  put_varint(data, static_cast<uint64_t>(event.step));
  put_bytes(data, kSummary, summary);
  return framed(data);
}

std::string event_file_start(double wall_time) {
  std::string data;
  put_wall_time(data, wall_time);
  put_bytes(data, kFileVersion, kVersion);
  return framed(data);
}

EventFile read_events(std::string_view bytes) {
  EventFile file;
  Parser parser(bytes);
  auto data = next_data(parser);
  if (!data || !parse_start(*data)) return file;
  int64_t end = file.start = std::ssize(*data) + static_cast<int64_t>(kFrameBytes);
  while ((data = next_data(parser))) {
    auto event = parse_event(*data);
    if (!event) break;
    end += std::ssize(*data) + static_cast<int64_t>(kFrameBytes);
    file.events.push_back(std::move(*event));
    file.ends.push_back(end);
  }
  return file;
}

EventLog::EventLog(std::string path, std::span<const LogRecord> records) : path_(std::move(path)) {
  const int64_t kept = is_ours_alone(path_) ? bytes_of(records, read_file(path_, kMostBytes)) : 0;
  if (kept == 0) write_file_atomically(path_, file_of(records), Links::replace);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  require(descriptor_ >= 0, ErrorCode::io, path_,
          ": cannot open: ", std::generic_category().message(errno));
  if (kept == 0 || ::ftruncate(descriptor_, kept) == 0) return;
  const int error = errno;
  ::close(descriptor_);
  fail(ErrorCode::io, path_, ": cannot cut: ", std::generic_category().message(error));
}

EventLog::~EventLog() { ::close(descriptor_); }

void EventLog::append(const LogRecord& record) {
  const std::string bytes = event_record(event_of(record, now()));
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t wrote = ::write(descriptor_, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    require(wrote >= 0, ErrorCode::io, path_,
            ": cannot write: ", std::generic_category().message(errno));
    rest.remove_prefix(static_cast<size_t>(wrote));
  }
}

void EventLog::flush() {
  const int error = ::fsync(descriptor_) == 0 ? 0 : errno;
  require(error == 0, ErrorCode::io, path_,
          ": cannot flush: ", std::generic_category().message(error));
}

}  // namespace tril
