// Shards: `tril translate --shard 2/8` translates the second of eight parts of a file.
//
// Shard i of n holds the lines that begin in the i-th of n equal parts of the file's bytes (of a
// gzip file, of what it unpacks to). So every line is in exactly one shard, each shard is a range
// of lines, and the outputs of all shards, one after the other, are the output for the whole file.
//
// A finished shard leaves a record beside its output, `.NAME.shard`, which says what it was made
// from: which shard, the model, the options, the lines themselves; and the checksum of the output.
// By it a later start knows that nothing is left to do. The record is in place before the output
// takes its name, so that wherever a worker is killed, there is no output without its record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tril/base/checksum.h"
#include "tril/base/error.h"

namespace tril::app {

struct Shard {
  int64_t number = 1;  // from 1
  int64_t count = 1;

  // The lines of the shard begin in [begin, end) of a text of so many bytes.
  int64_t begin(int64_t bytes) const { return boundary(number - 1, bytes); }
  int64_t end(int64_t bytes) const { return boundary(number, bytes); }
  std::string text() const { return concat(number, "/", count); }

 private:
  int64_t boundary(int64_t part, int64_t bytes) const {
    return bytes / count * part + bytes % count * part / count;
  }
};

// "2/8". What is wrong with the word goes to `problem`.
std::optional<Shard> parse_shard(std::string_view word, std::string& problem);

// The checksum of a text that comes in parts.
class RunningChecksum {
 public:
  void add(std::string_view text);
  Checksum value() const;

 private:
  ChecksumOfBlocks blocks_;
  std::string block_;  // not full yet
  int64_t bytes_ = 0;
};

struct ShardRecord {
  std::string shard;    // "2/8"
  std::string model;    // its fingerprint, with the version of tril and the kind of device
  std::string options;  // those that were given
  std::string input;    // checksum of the lines, their prefixes and the number of the first
  std::string output;   // checksum
  int64_t first_line = 1;
  int64_t lines = 0;
  int64_t bad_lines = 0;  // that could not be used
};

// The path of the record beside an output.
std::string record_path(const std::string& output);
void write_record(const std::string& output, const ShardRecord& record);
// Nothing where there is none. Raises `bad_format` for one that is damaged.
std::optional<ShardRecord> read_record(const std::string& output);

}  // namespace tril::app
