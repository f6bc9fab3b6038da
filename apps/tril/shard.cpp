#include "shard.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "tril/io/atomic_file.h"

namespace tril::app {
namespace {

constexpr int64_t kMostRecordBytes = 1 << 20;
constexpr int64_t kMostShards = 1'000'000;
constexpr int64_t kFormat = 1;

std::optional<int64_t> number_in(std::string_view word) {
  int64_t number = 0;
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, number);
  return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

// Everything but the checksum of the record itself.
JsonWriter fields_of(const ShardRecord& record) {
  JsonWriter writer;
  writer.set("format", kFormat);
  writer.set("shard", record.shard);
  writer.set("first_line", record.first_line);
  writer.set("lines", record.lines);
  writer.set("bad_lines", record.bad_lines);
  writer.set("model", record.model);
  writer.set("options", record.options);
  writer.set("input", record.input);
  writer.set("output", record.output);
  return writer;
}

std::string seal_of(const ShardRecord& record) {
  return to_string(checksum_of(fields_of(record).to_string()));
}

}  // namespace

std::optional<Shard> parse_shard(std::string_view word, std::string& problem) {
  const size_t slash = word.find('/');
  const auto number = number_in(word.substr(0, slash));
  const auto count = slash == word.npos ? std::nullopt : number_in(word.substr(slash + 1));
  if (!number || !count || *count < 1 || *count > kMostShards) {
    problem = concat("'", word, "' is no shard: give its number and how many there are, as in 2/8");
    return std::nullopt;
  }
  if (*number < 1 || *number > *count) {
    problem = concat("there is no shard ", *number, " of ", *count,
                     ": they are numbered from 1 to ", *count);
    return std::nullopt;
  }
  return Shard{*number, *count};
}

void RunningChecksum::add(std::string_view text) {
  bytes_ += std::ssize(text);
  while (!text.empty()) {
    const size_t room = static_cast<size_t>(kChecksumBlock) - block_.size();
    block_.append(text.substr(0, room));
    text.remove_prefix(std::min(room, text.size()));
    if (std::ssize(block_) < kChecksumBlock) break;
    blocks_.add(block_checksum(block_));
    block_.clear();
  }
}

Checksum RunningChecksum::value() const {
  ChecksumOfBlocks all = blocks_;
  if (!block_.empty()) all.add(block_checksum(block_));
  return all.value(bytes_);
}

std::string record_path(const std::string& output) {
  const size_t name = output.rfind('/') + 1;  // 0 where there is no slash
  return concat(output.substr(0, name), ".", output.substr(name), ".shard");
}

void write_record(const std::string& output, const ShardRecord& record) {
  JsonWriter writer = fields_of(record);
  writer.set("checksum", seal_of(record));
  write_file_atomically(record_path(output), writer.to_string(), Links::replace);
}

std::optional<ShardRecord> read_record(const std::string& output) {
  const std::string path = record_path(output);
  if (!file_exists(path)) return std::nullopt;
  require_regular(path);
  JsonReader reader(read_file(path, kMostRecordBytes), path);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  reader.get_int("format", kFormat, kFormat);
  ShardRecord record;
  record.shard = reader.get_string("shard");
  record.first_line = reader.get_int("first_line", 1, kMost);
  record.lines = reader.get_int("lines", 0, kMost);
  record.bad_lines = reader.get_int("bad_lines", 0, kMost);
  record.model = reader.get_string("model");
  record.options = reader.get_string("options");
  record.input = reader.get_string("input");
  record.output = reader.get_string("output");
  require(reader.get_string("checksum") == seal_of(record), ErrorCode::bad_format, path,
          ": damaged: it does not match its checksum");
  reader.finish();
  return record;
}

}  // namespace tril::app
