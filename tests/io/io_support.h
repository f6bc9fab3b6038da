// Shared by the tests of io/: the text of an error, whether it is printable, and how much of mapped
// files is in memory.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "support/temp_folder.h"
#include "tril/base/error.h"

namespace tril::testing {

// "CODE: TEXT" of the Error that `call` raises; fails the test when it raises none.
template <class F>
std::string error_of(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return concat(to_string(error.code()), ": ", error.what());
  }
  ADD_FAILURE() << "no error was raised";
  return "";
}

// Valid UTF-8 without control characters: fit for a terminal.
inline bool is_printable(const std::string& text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<unsigned char>(text[i++]);
    if (byte < 0x20 || (byte >= 0x80 && byte < 0xc2) || byte > 0xf4) return false;
    int more = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    for (; more > 0; --more) {
      if (i == text.size() || (static_cast<unsigned char>(text[i++]) & 0xc0) != 0x80) return false;
    }
  }
  return true;
}

// Pages of files that count as memory of this process.
inline int64_t mapped_bytes_in_memory() {
  std::ifstream status("/proc/self/status");
  int64_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssFile:") || line.starts_with("RssShmem:")) {
      kib += std::atoll(line.substr(line.find(':') + 1).c_str());
    }
  }
  return kib * 1024;
}

}  // namespace tril::testing
