// Shared by `tril translate` and `tril generate`: their flags, and decoding from lines to lines.
#pragma once

#include <optional>
#include <string>

#include "tril/tril.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tril::app {

struct DecodingFlags {
  std::string model;
  std::string input = "-";
  std::string prefix;  // a file; empty: none
  int threads = 0;
  std::optional<Compute> compute;
  std::optional<Device> device;
  int64_t batch = 64;
  TranslateOptions options;
  bool scores = false, json = false, ids = false, strict = false, trust = false, shortlist = false;
};

// The search flags, for every command that searches, with a beam of at most `max_beam`; returns
// --beam.
CLI::Option* add_search_flags(CLI::App& command, SearchRule& search, int64_t max_beam = 1024);
// The flag that limits a translation's length relative to its source.
void add_ratio_flag(CLI::App& command, SearchRule& search);
// The flags both commands have. `beam` is the default beam.
void add_decoding_flags(CLI::App& command, DecodingFlags& flags, int64_t beam);

// --strict, for every command that answers lines.
void add_strict_flag(CLI::App& command, bool& strict);

// Reports bad lines as they come. One does not end the run, but makes its exit code 1.
class BadLineCount {
 public:
  // Line number `line`, from 1, gets an empty answer.
  void tell(int64_t line, const std::string& why);
  // Raises Failed where there was one.
  void raise() const;

 private:
  int64_t lines_ = 0;
};

// Translates every line of the input; results go to stdout in the order of the lines.
void decode_lines(const Translator& translator, const DecodingFlags& flags);

}  // namespace tril::app
