// What `tril translate` and `tril generate` share: their flags, and the way from lines to lines.
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

// How to search, for every command that does, with a beam of `max_beam` at most; returns --beam.
CLI::Option* add_search_flags(CLI::App& command, SearchRule& search, int64_t max_beam = 1024);
// Its limit for translations.
void add_ratio_flag(CLI::App& command, SearchRule& search);
// The flags both commands have. A beam of `beam` is the default.
void add_decoding_flags(CLI::App& command, DecodingFlags& flags, int64_t beam);

// --strict, for every command that answers lines.
void add_strict_flag(CLI::App& command, bool& strict);

// Bad lines, told as they come. One does not end a run, and the run ends with 1.
class BadLineCount {
 public:
  // Line number `line`, from 1, is answered with nothing.
  void tell(int64_t line, const std::string& why);
  // Raises Failed where there was one.
  void raise() const;

 private:
  int64_t lines_ = 0;
};

// Every line of the input through the translator, results to stdout in the order of the lines.
void decode_lines(const Translator& translator, const DecodingFlags& flags);

}  // namespace tril::app
