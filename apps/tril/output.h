// What the program says, on stdout and on stderr.
//
// Results go to stdout. One that cannot be written ends the program with an error; a reader who has
// gone away, the other end of a closed pipe, ends it quietly. Messages go to stderr. One that
// cannot be written there is lost and changes nothing else: no message is worth a result.
#pragma once

#include <string_view>

namespace tril::app {

// For main, before anything else. A closed pipe, or a limit on the size of files, is an error of a
// call from here on, not a signal.
// Those of the descriptors 0, 1 and 2 that are closed are occupied, so that no file opened later is
// taken for stdin, stdout or stderr: whatever reads or writes one of them gets an error.
void prepare_standard_streams();

// To stderr, as it is; "tril: " and the line's end are the caller's. Never throws.
void message(std::string_view text) noexcept;

// Thrown where nobody reads stdout any more.
struct OutputClosed {};

// Raises what the system's error number says of a write to stdout: OutputClosed, or an Error.
[[noreturn]] void fail_output(int error);
// What was printed so far goes out now. Raises as fail_output() does.
void flush_output();

}  // namespace tril::app
