#include "decoding_output.h"

#include <fmt/core.h>

#include "commands.h"
#include "output.h"
#include "output_files.h"
#include "tril/serve/service.h"
#include "tril/text/display.h"
#include "units.h"

namespace tril::app {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

[[noreturn]] void refuse(const std::string& output, const std::string& why) {
  fail(ErrorCode::invalid_argument, output, ": ", why,
       "; choose another file, or --overwrite to replace it");
}

std::string checksum_of_file(const std::string& path) {
  InputFile file(path);
  RunningChecksum checksum;
  std::string part(static_cast<size_t>(kChecksumBlock), '\0');
  while (const int64_t got = file.read(part.data(), kChecksumBlock)) {
    checksum.add(std::string_view(part).substr(0, static_cast<size_t>(got)));
  }
  return to_string(checksum.value());
}

// What a run makes its shard from. `input` was read to its end.
ShardRecord record_of(const Translator& translator, const DecodingFlags& flags,
                      const DecodingInput& input) {
  ShardRecord record;
  record.shard = flags.shard->text();
  record.model = serve::fingerprint_of(translator, flags.model);
  record.options = flags.given;
  record.input = input.identity();
  record.first_line = input.first_number() + 1;
  record.lines = input.taken();
  return record;
}

// The record of an output that is there.
ShardRecord record_beside(const std::string& output) {
  std::optional<ShardRecord> record;
  try {
    record = read_record(output);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_format) throw;
    refuse(output, concat("is there already, and its record cannot be used (", error.what(), ")"));
  }
  if (!record) refuse(output, "is there already, and nothing says that it is a finished shard");
  return *record;
}

// "none" where no options were given.
std::string quoted_options(const std::string& options) {
  return options.empty() ? "none" : concat("'", options, "'");
}

// Raises unless the output was made from the same as this run would make it from.
void check_same(const ShardRecord& was, const ShardRecord& is, const std::string& output) {
  const std::string of_another = "is a finished shard of another run, ";
  if (was.shard != is.shard) {
    refuse(output, concat("is finished as shard ", was.shard, ", and this is shard ", is.shard));
  }
  if (was.model != is.model) {
    refuse(output, of_another + "by another model, version of tril or kind of device");
  }
  if (was.options != is.options) {
    refuse(output, concat(of_another, "with other options: ", quoted_options(was.options),
                          ", and now ", quoted_options(is.options)));
  }
  if (was.input != is.input || was.first_line != is.first_line || was.lines != is.lines) {
    refuse(output, of_another + "of other lines or prefixes");
  }
  if (was.output != checksum_of_file(output)) refuse(output, "has changed since it was finished");
}

}  // namespace

void check_output_flags(const DecodingFlags& flags) {
  const auto check = [](bool holds, std::string_view why) {
    require(holds, ErrorCode::invalid_argument, why);
  };
  check(!flags.shard || !flags.output.empty(), "--shard needs a file to write to: give --output");
  check(!flags.shard || flags.input != "-",
        "--shard needs a file to read: give --input, since every shard reads it for itself");
  check(!flags.shard || flags.prefix != "-", "--shard needs prefixes in a file, not on stdin");
  check(!flags.shard || !flags.first_line,
        "--first-line is for lines without those before them, and --shard counts those itself: "
        "use one of the two");
  check(!flags.overwrite || flags.shard,
        "--overwrite goes with --shard: without that, --output replaces what is there");
  check(flags.output != "-", "--output -: leave it out to write to stdout");
  const std::vector<InputName> inputs = {{"--input", flags.input}, {"--prefix", flags.prefix}};
  check_output("--output", flags.output, inputs, flags.model);
  if (flags.shard) check_output("--output", record_path(flags.output), inputs, flags.model);
}

bool is_finished_shard(const Translator& translator, const DecodingFlags& flags) {
  if (!flags.shard || flags.overwrite || !file_exists(flags.output)) return false;
  const ShardRecord record = record_beside(flags.output);
  DecodingInput input(flags);
  while (input.next(LineReader::Wait::yes)) {
  }
  input.check_end();
  check_same(record, record_of(translator, flags, input), flags.output);
  message(
      fmt::format("tril: {}: shard {} is finished already\n", escaped(flags.output), record.shard));
  if (record.bad_lines > 0) {
    message(fmt::format("tril: {}: {} skipped when it was translated\n", escaped(flags.output),
                        counted(record.bad_lines, "line")));
    throw Failed{};
  }
  return true;
}

DecodingOutput::DecodingOutput(const DecodingFlags& flags) : flags_(flags) {
  if (flags.output.empty()) return;
  file_ = std::make_unique<AtomicFile>(flags.output);
  // A signal is noticed when a line is done, and waiting for stdin to have one may take forever.
  if (flags.input != "-") stop_.emplace();
}

bool DecodingOutput::write(std::string_view text) {
  if (file_ == nullptr) return stdout_.write(text);
  if (stop_ && stop_->asked()) return false;
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) flush();
  return true;
}

void DecodingOutput::flush() {
  file_->write(buffer_);
  written_.add(buffer_);
  buffer_.clear();
}

void DecodingOutput::raise_stopped() const {
  if (stop_ && stop_->asked()) throw Stopped{stop_->signal()};
}

void DecodingOutput::commit(const Translator& translator, const DecodingInput& input,
                            const BadLineCount& bad) {
  if (file_ == nullptr) return;
  flush();
  if (flags_.shard) {
    ShardRecord record = record_of(translator, flags_, input);
    record.output = to_string(written_.value());
    record.bad_lines = bad.lines();
    // It was not there at the start: another worker has written it since.
    if (!flags_.overwrite && file_exists(flags_.output)) {
      check_same(record_beside(flags_.output), record, flags_.output);
      message(fmt::format("tril: {}: shard {} was finished by another worker meanwhile\n",
                          escaped(flags_.output), record.shard));
      return;
    }
    write_record(flags_.output, record);
  }
  file_->commit();
}

}  // namespace tril::app
