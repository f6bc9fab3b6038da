// Where `tril translate` and `tril generate` write: to stdout, each line as soon as it is ready, or
// into a file that appears whole or not at all. And whether a shard is finished already.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "decoding_lines.h"
#include "lines.h"
#include "progress.h"
#include "shard.h"
#include "tril/io/atomic_file.h"

namespace tril::app {

// Raises, before any work, for combinations of --output, --shard, --overwrite and --first-line that
// make no sense, and where the output would replace an input or a file of the model.
void check_output_flags(const DecodingFlags& flags);

// Whether the output of this shard is there, whole and as this run would write it; says so on
// stderr. Raises where something else is there and is not to be replaced, and Failed for a finished
// shard with bad lines, as the run that finished it did.
bool is_finished_shard(const Translator& translator, const DecodingFlags& flags);

class DecodingOutput {
 public:
  explicit DecodingOutput(const DecodingFlags& flags);

  // False: nothing more is to be written, because nobody reads it or a signal came.
  bool write(std::string_view text);
  // When write() returned false: raises Stopped if a signal was the reason.
  void raise_stopped() const;
  // To be called when all lines are answered and the input was checked: the file takes its name, a
  // shard's with its record. Does nothing for stdout.
  void commit(const Translator& translator, const DecodingInput& input, const BadLineCount& bad);

 private:
  void flush();

  const DecodingFlags& flags_;
  LineWriter stdout_;
  std::unique_ptr<AtomicFile> file_;
  std::string buffer_;  // not in the file yet
  RunningChecksum written_;
  std::optional<StopOnSignal> stop_;
};

}  // namespace tril::app
