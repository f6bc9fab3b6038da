// The log for TensorBoard: its bytes, and what becomes of them when a run is resumed.
#include "tril/train/event_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "support/temp_folder.h"
#include "support/testing.h"
#include "trainer_support.h"
#include "tril/io/atomic_file.h"
#include "tril/train/checkpoint.h"

namespace tril::event_log_test {
namespace {

using namespace testing;

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

LogRecord record_of(int64_t update) {
  const auto number = static_cast<double>(update);
  if (update % 3 == 0) {
    return {.update = update, .values = {{"valid_loss", 2.0 / number}, {"valid_bleu", number}}};
  }
  return {.update = update,
          .values = {{"loss", 3.0 / number},
                     {"gradient_norm", 0.1},
                     {"rate", 1e-3},
                     {"tokens", 100.0 * number},
                     {"seconds", 2.0 * number},
                     {"tokens_per_second", 50.0}}};
}

std::vector<LogRecord> records_to(int64_t update) {
  std::vector<LogRecord> records;
  for (int64_t i = 1; i <= update; ++i) records.push_back(record_of(i));
  return records;
}

// Without wall times.
void expect_holds(const std::string& path, const std::vector<LogRecord>& records) {
  const std::string bytes = contents(path);
  const EventFile file = read_events(bytes);
  ASSERT_EQ(file.events.size(), records.size());
  EXPECT_EQ(records.empty() ? file.start : file.ends.back(), std::ssize(bytes));
  for (size_t i = 0; i < records.size(); ++i) {
    const ScalarEvent expected = event_of(records[i], 0.0);
    EXPECT_EQ(file.events[i].step, expected.step);
    EXPECT_EQ(file.events[i].values, expected.values);
  }
}

// The same records as TensorBoard's own RecordWriter writes them.
TEST(EventLog, HasTheBytesOfTensorBoard) {
  EXPECT_EQ(
      event_file_start(1700000000.5),
      from_hex("1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110"));
  EXPECT_EQ(
      event_record({.wall_time = 1700000000.75,
                    .step = 300,
                    .values = {{"train/loss", 2.5f}, {"train/learning_rate", 0.0009765625f}}}),
      from_hex("3d000000000000006049f1ec0900003040fc54d94110ac022a2f0a110a0a747261696e2f6c6f7373"
               "15000020400a1a0a13747261696e2f6c6561726e696e675f72617465150000803af21017f9"));
}

TEST(EventLog, ShowsWhatTheLogSays) {
  const ScalarEvent trained = event_of(record_of(4), 7.5);
  EXPECT_EQ(trained.wall_time, 7.5);
  EXPECT_EQ(trained.step, 4);
  EXPECT_EQ(trained.values,
            (std::vector<std::pair<std::string, float>>{{"train/loss", 0.75f},
                                                        {"train/gradient_norm", 0.1f},
                                                        {"train/learning_rate", 1e-3f},
                                                        {"train/tokens_per_second", 50.0f}}));
  const ScalarEvent evaluated = event_of(record_of(3), 0.0);
  EXPECT_EQ(evaluated.values, (std::vector<std::pair<std::string, float>>{
                                  {"valid/loss", 2.0f / 3.0f}, {"valid/bleu", 3.0f}}));
  LogRecord bad = record_of(4);
  bad.values[0].second = std::numeric_limits<double>::quiet_NaN();
  bad.values[1].second = std::numeric_limits<double>::infinity();
  EXPECT_EQ(event_of(bad, 0.0).values.size(), 2u);
}

TEST(EventLog, AnyChangeEndsWhatIsRead) {
  std::string whole = event_file_start(1.0);
  const int64_t start = std::ssize(whole);
  std::vector<int64_t> ends;
  for (const int64_t update : {1, 3, 200}) {
    whole += event_record(event_of(record_of(update), 2.0));
    ends.push_back(std::ssize(whole));
  }
  EXPECT_EQ(read_events(whole).ends, ends);
  const auto before = [&](size_t byte) {  // events that end before it
    return static_cast<size_t>(std::count_if(
        ends.begin(), ends.end(), [&](int64_t end) { return end <= static_cast<int64_t>(byte); }));
  };
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 0x10);
    const EventFile read = read_events(damaged);
    EXPECT_EQ(read.events.size(), before(byte)) << byte;
    EXPECT_EQ(read.start, static_cast<int64_t>(byte) < start ? 0 : start) << byte;
    EXPECT_EQ(read_events(whole.substr(0, byte)).events.size(), before(byte)) << byte;
  }
}

TEST(EventLog, IsCutBackToTheLog) {
  const TempFolder folder;
  const std::string path = folder / "events";
  {
    EventLog log(path, {});
    for (const LogRecord& record : records_to(8)) log.append(record);
    log.flush();
  }
  expect_holds(path, records_to(8));
  const std::string before = contents(path);
  struct stat old;
  ASSERT_EQ(::stat(path.c_str(), &old), 0);
  {
    EventLog log(path, records_to(5));
    expect_holds(path, records_to(5));
    for (int64_t i = 6; i <= 8; ++i) log.append(record_of(i));
  }
  expect_holds(path, records_to(8));
  // In place, and so that who read it before finds the same records at the same bytes.
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_ino, old.st_ino);
  EXPECT_EQ(contents(path).size(), before.size());
  const auto kept = static_cast<size_t>(read_events(before).ends[4]);
  EXPECT_EQ(contents(path).substr(0, kept), before.substr(0, kept));
}

TEST(EventLog, IsWrittenAnewWhereItIsNotTheLogs) {
  const TempFolder folder;
  const std::string path = folder / "events";
  const std::vector<LogRecord> records = records_to(5);
  const auto written = [&](const std::vector<LogRecord>& those) {
    std::filesystem::remove(path);
    EventLog log(path, those);
    return contents(path);
  };
  std::vector<LogRecord> other = records;
  other[1].values[0].second += 1.0;
  std::string damaged = written(records);
  damaged[100] = static_cast<char>(damaged[100] ^ 1);
  for (const std::string& there : {std::string(), std::string("something else"), written(other),
                                   written(records_to(4)), damaged}) {
    std::filesystem::remove(path);
    write_file_atomically(path, there);
    const EventLog log(path, records);
    expect_holds(path, records);
  }
  // It took four seconds of training from the second record to the fourth.
  const EventFile file = read_events(contents(path));
  EXPECT_NEAR(file.events[3].wall_time - file.events[1].wall_time, 4.0, 1e-3);
  std::filesystem::remove(path);
  const EventLog log(path, records);
  expect_holds(path, records);
}

// A copy of the folder by links, and a link to somebody else's file, stay as they are.
TEST(EventLog, ChangesNoFileOfOthers) {
  const TempFolder folder;
  const std::string path = folder / "events";
  { const EventLog log(path, records_to(8)); }
  const std::string copy = folder / "copy", theirs = folder / "theirs";
  std::filesystem::create_hard_link(path, copy);
  { const EventLog log(path, records_to(2)); }
  expect_holds(copy, records_to(8));
  expect_holds(path, records_to(2));
  write_file_atomically(theirs, contents(copy));
  std::filesystem::remove(path);
  std::filesystem::create_symlink(theirs, path);
  { const EventLog log(path, records_to(2)); }
  expect_holds(theirs, records_to(8));
  expect_holds(path, records_to(2));
}

// A run that is stopped and resumed shows each point once, as one that was never stopped.
TEST(EventLog, OfAResumedRunIsThatOfTheWholeRun) {
  const TempFolder folder;
  const TrainOptions options = small_training();
  run(options, folder / "whole", RunStart::fresh);
  const auto events_of = [&](const std::string& name) {
    return read_events(contents(folder / (name + "/training/events.out.tfevents.tril")));
  };
  const EventFile whole = events_of("whole");
  const auto value = [](const ScalarEvent& event, std::string_view tag) -> const float* {
    for (const auto& [name, number] : event.values) {
      if (name == tag) return &number;
    }
    return nullptr;
  };
  std::vector<int64_t> trained, evaluated;
  for (const ScalarEvent& event : whole.events) {
    for (const char* tag :
         {"train/loss", "train/gradient_norm", "train/learning_rate", "train/tokens_per_second"}) {
      const float* number = value(event, tag);
      if (number == nullptr) continue;
      EXPECT_GE(*number, 0.0f) << tag;
      EXPECT_TRUE(*number > 0.0f || tag == std::string_view("train/learning_rate")) << tag;
      if (std::string_view(tag) == "train/gradient_norm") trained.push_back(event.step);
    }
    if (value(event, "valid/bleu") != nullptr) evaluated.push_back(event.step);
  }
  std::vector<int64_t> lines, evaluations;
  for (int64_t update = 1; update <= options.updates; ++update) {
    const bool last = update == options.updates;
    if (last || update % options.log_every == 0) lines.push_back(update);
    if (last || update % options.evaluate_every == 0) evaluations.push_back(update);
  }
  EXPECT_EQ(trained, lines);
  EXPECT_EQ(evaluated, evaluations);

  TrainEvents events;
  int asked = 0, most = 20;
  events.cancelled = [&] { return ++asked > most; };
  bool finished = run(options, folder / "parts", RunStart::fresh, 1, events).finished;
  int sittings = 1;
  for (int sitting = 2; !finished; ++sitting) {
    // As if the run had gone on after its last checkpoint and was killed.
    const std::string path = folder / "parts/training/events.out.tfevents.tril";
    std::string bytes = contents(path);
    for (const int64_t update : {90, 91}) bytes += event_record(event_of(record_of(update), 1.0));
    if (sitting % 3 == 0) bytes.resize(bytes.size() - 5);
    if (sitting % 4 == 0) bytes.clear();
    write_file_atomically(path, bytes);
    asked = 0;
    most = 20 + 3 * sitting;
    finished = run(options, folder / "parts", RunStart::resume, 1, events).finished;
    sittings = sitting;
    ASSERT_LT(sitting, 100);
  }
  EXPECT_GE(sittings, 4);
  const EventFile parts = events_of("parts");
  ASSERT_EQ(parts.events.size(), whole.events.size());
  EXPECT_EQ(parts.ends, whole.ends);
  for (size_t i = 0; i < whole.events.size(); ++i) {
    EXPECT_EQ(parts.events[i].step, whole.events[i].step);
    ASSERT_EQ(parts.events[i].values.size(), whole.events[i].values.size());
    for (size_t k = 0; k < whole.events[i].values.size(); ++k) {
      if (whole.events[i].values[k].first == "train/tokens_per_second") continue;
      EXPECT_EQ(parts.events[i].values[k], whole.events[i].values[k]);
    }
  }
}

}  // namespace
}  // namespace tril::event_log_test
