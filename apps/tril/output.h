// What the program prints, on stdout and on stderr.
//
// Results go to stdout. One that cannot be written ends the program with an error; if the reader
// has gone away (a closed pipe), the program ends quietly. Messages go to stderr. One that cannot
// be written there is lost and changes nothing else: no message is worth a result.
#pragma once

#include <string_view>

namespace tril::app {

// For main, before anything else. From here on a closed pipe, or a limit on the size of files,
// makes a call fail instead of raising a signal. If descriptor 0, 1 or 2 is closed, it is occupied,
// so that no file opened later is taken for stdin, stdout or stderr: reading or writing it gives an
// error.
void prepare_standard_streams();

// To stderr as it is; the caller adds "tril: " and the line feed. Never throws.
void message(std::string_view text) noexcept;

// Thrown where nobody reads stdout any more.
struct OutputClosed {};

// Raises the error of a failed write to stdout: OutputClosed, or an Error.
[[noreturn]] void fail_output(int error);
// Flushes what was printed so far. Raises as fail_output() does.
void flush_output();

}  // namespace tril::app
