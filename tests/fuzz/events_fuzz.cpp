// Any bytes as the log for TensorBoard: what is read of them are whole records, and a log that
// begins over them holds what it should. The bytes are a file, and the data of a record with its
// right checksums.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "scratch.h"
#include "tril/base/crc32c.h"
#include "tril/io/atomic_file.h"
#include "tril/train/event_log.h"

namespace {

using tril::fuzz::check;

std::string little_endian(uint64_t number, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xFF);
  return text;
}

std::string record_with(std::string_view data) {
  const auto masked = [](std::string_view bytes) {
    return little_endian(std::rotr(tril::crc32c(bytes), 15) + 0xA282EAD8u, 4);
  };
  const std::string length = little_endian(data.size(), 8);
  return length + masked(length) + std::string(data) + masked(data);
}

void read(std::string_view bytes) {
  const tril::EventFile file = tril::read_events(bytes);
  check(file.events.size() == file.ends.size());
  int64_t end = file.start;
  for (const int64_t next : file.ends) {
    check(next > end);
    end = next;
  }
  check(end <= std::ssize(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = tril::fuzz::view(data, size);
  const std::string record = tril::event_file_start(1.0) + record_with(bytes);
  read(bytes);
  read(record);
  const std::vector<tril::LogRecord> records = {{.update = 3, .values = {{"loss", 2.5}}}};
  for (const std::string_view there : {bytes, std::string_view(record)}) {
    const std::string path = tril::fuzz::put("events", there);
    { tril::EventLog(path, records).append({.update = 7, .values = {{"valid_loss", 0.5}}}); }
    const std::string after = tril::read_file(path, 1 << 20);
    const tril::EventFile file = tril::read_events(after);
    check(file.events.size() == 2 && file.events[0].step == 3 && file.events[1].step == 7);
    check(file.ends.back() == std::ssize(after));
  }
  return 0;
}
