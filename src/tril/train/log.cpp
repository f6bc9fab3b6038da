#include "tril/train/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <system_error>

#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"

namespace tril {
namespace {

constexpr int64_t kMaxLogBytes = int64_t{1} << 30;

std::string to_line(const LogRecord& record) {
  std::string line = concat("{\"update\": ", record.update);
  for (const auto& [name, value] : record.values) {
    // JSON has neither NaN nor infinity.
    if (std::isfinite(value)) line += concat(", ", json_quoted(name), ": ", value);
  }
  return line + "}\n";
}

LogRecord from_line(std::string_view line, const std::string& file) {
  const JsonValue value = parse_json(line, file);
  const JsonValue* update = value.find("update");
  require(update != nullptr && update->kind == JsonValue::Kind::integer, ErrorCode::bad_format,
          file, ": a line without its update");
  LogRecord record{.update = update->integer, .values = {}};
  for (size_t i = 0; i < value.names.size(); ++i) {
    if (value.names[i] != "update")
      record.values.emplace_back(value.names[i], value.items[i].number);
  }
  return record;
}

}  // namespace

const double* LogRecord::find(const std::string& name) const {
  for (const auto& [key, value] : values) {
    if (key == name) return &value;
  }
  return nullptr;
}

TrainingLog::TrainingLog(std::string path, int64_t last_update, int64_t last_evaluation)
    : path_(std::move(path)) {
  std::string kept;
  if (last_evaluation != kAfresh && ::access(path_.c_str(), F_OK) == 0) {
    const std::string text = read_file(path_, kMaxLogBytes);
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      LogRecord record;
      try {
        record = from_line(line, path_);
      } catch (const Error&) {
        break;  // the checkpoint decides
      }
      const bool evaluation = record.find("valid_loss") != nullptr;
      if (record.update > (evaluation ? last_evaluation : last_update)) break;
      kept.append(line).push_back('\n');
      records_.push_back(std::move(record));
    }
  }
  write_file_atomically(path_, kept, Links::replace);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  require(descriptor_ >= 0, ErrorCode::io, path_,
          ": cannot open: ", std::generic_category().message(errno));
}

void TrainingLog::flush() {
  const int error = ::fsync(descriptor_) == 0 ? 0 : errno;
  require(error == 0, ErrorCode::io, path_,
          ": cannot flush: ", std::generic_category().message(error));
}

TrainingLog::~TrainingLog() { ::close(descriptor_); }

void TrainingLog::append(const LogRecord& record) {
  const std::string line = to_line(record);
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t wrote = ::write(descriptor_, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    require(wrote >= 0, ErrorCode::io, path_,
            ": cannot write: ", std::generic_category().message(errno));
    rest.remove_prefix(static_cast<size_t>(wrote));
  }
  records_.push_back(record);
}

}  // namespace tril
