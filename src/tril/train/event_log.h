// The log of a training run in the format that TensorBoard reads: an event file beside log.jsonl.
//
// Such a file is a sequence of TFRecords, each of them
//   the length of the data (8 bytes), its masked CRC-32C (4), the data, the data's masked CRC (4)
// in little-endian order; a CRC is masked by rotating it right by 15 bits and adding 0xA282EAD8.
// The data is a protocol buffer `Event`, of which tril writes these fields:
//   1 wall_time (double), 2 step (varint), 3 file_version (string; only in the first record),
//   5 summary, which holds a field 1 for each value: 1 tag (string), 2 simple_value (float)
//
// The file follows log.jsonl, as that follows the checkpoint: when a run is resumed, what was
// logged after its checkpoint is cut off, and a file that is not the log's, or is damaged, is
// written anew from it. It is cut in place, so that a TensorBoard that reads it at that time can go
// on: the records of a resumed run have the same lengths as those that were cut off.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tril/train/log.h"

namespace tril {

// Values of one update.
struct ScalarEvent {
  double wall_time = 0.0;  // seconds since 1970
  int64_t step = 0;
  std::vector<std::pair<std::string, float>> values{};  // tag and value
};

// What TensorBoard shows of a record of the log: "train/loss" and so on. Values that are not
// finite, which log.jsonl leaves out, are left out here, too.
ScalarEvent event_of(const LogRecord& record, double wall_time);

// The bytes of a record, and those that a file begins with.
std::string event_record(const ScalarEvent& event);
std::string event_file_start(double wall_time);

struct EventFile {
  std::vector<ScalarEvent> events{};
  std::vector<int64_t> ends{};  // of each event: the byte after it
  int64_t start = 0;            // the byte after what the file begins with; 0: it is no event file
};
// What event_record() and event_file_start() wrote, up to the first record that is damaged,
// incomplete or of another kind.
EventFile read_events(std::string_view bytes);

class EventLog {
 public:
  // Continues the file with what the log holds. A file of that name that is not the log's is
  // replaced, and so is a link.
  EventLog(std::string path, std::span<const LogRecord> records);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  void append(const LogRecord& record);
  // Writes everything appended to the disk.
  void flush();

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace tril
