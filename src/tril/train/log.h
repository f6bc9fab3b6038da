// The log of a training run: JSON lines in the model folder, and the curve drawn from them.
//
// A record is a line {"update": 50, "loss": 4.1, ...}; that of an evaluation has a "valid_loss".
// Appending is cheap; a line cut short by a crash, and everything after the checkpoint from which a
// run is resumed, is removed when the log is opened. An invalid line ends what is kept.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tril {

struct LogRecord {
  int64_t update = 0;
  std::vector<std::pair<std::string, double>> values;  // in the order of the line

  const double* find(const std::string& name) const;
};

class TrainingLog {
 public:
  // Continues with what `path` holds up to update `last_update`, and evaluations up to the one
  // after `last_evaluation`.
  static constexpr int64_t kAfresh = -1;  // as last_evaluation: nothing is kept
  TrainingLog(std::string path, int64_t last_update, int64_t last_evaluation);
  ~TrainingLog();
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;

  void append(const LogRecord& record);
  // Writes everything appended to the disk.
  void flush();
  const std::vector<LogRecord>& records() const { return records_; }

 private:
  std::string path_;
  std::vector<LogRecord> records_;
  int descriptor_ = -1;
};

// Loss in training and evaluation, and BLEU if there is one, over the updates: an SVG picture.
std::string draw_curve(const std::vector<LogRecord>& records);

}  // namespace tril
